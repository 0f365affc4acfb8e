"""What keeps a user without root from making namespaces."""

from pathlib import Path

_SYSCTLS = Path("/proc/sys")
_REFUSING = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "15000"),
}
"""By sysctl: the value that refuses, and one that allows."""


def refused_by() -> dict[str, str]:
    """The sysctls that refuse it here, each with a value that allows it; empty when none does."""
    found = {}
    for name, (refusing, allowing) in _REFUSING.items():
        path = _SYSCTLS / name.replace(".", "/")
        if path.exists() and path.read_text(encoding="ascii").strip() == refusing:
            found[name] = allowing
    return found
