"""The facts that ``howdah doctor`` reads on this host. They are judged elsewhere."""

import ctypes
import os
import shutil
from pathlib import Path

import msgspec

from howdah._native import HowdahError, Policy, cc_check_kernel
from howdah.lab import namespaces
from howdah.values.record import HostLimits

_TIME_ERROR = 5
"""The answer of adjtimex(2) where the clock is not synchronised."""

_TIMEX_BYTES = 208
_CAP_SYS_ADMIN = 21


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One host as it is. Null: it could not be found out."""

    limits: HostLimits
    programs_refused: str | None = None
    """The reason why howdah cc loads no congestion control here; null where it does."""
    namespaces_refused_by: dict[str, str] = {}
    """The sysctls that keep this user from making namespaces, and so labs, with values that would not."""
    tun: bool
    """Whether /dev/net/tun can be opened."""
    clock_source: str | None = None
    clock_synchronised: bool | None = None
    ssh_client: str | None = None
    """The path of ssh."""
    policy: dict[str, str] = {}
    """The rules in force, each as a line of a policy, and the file that sets it."""
    policy_refused: str | None = None
    """Why the policy cannot be read, so that nothing it governs works."""
    aes_instructions: bool


def gather() -> Facts:
    """The facts of this host, in this network namespace."""
    capabilities = _effective_capabilities()
    rules, refused = _policy()
    return Facts(
        limits=HostLimits.here(),
        programs_refused=_programs_refused(),
        namespaces_refused_by={} if capabilities & 1 << _CAP_SYS_ADMIN else namespaces.refused_by(),
        tun=os.access("/dev/net/tun", os.R_OK | os.W_OK),
        clock_source=_read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        clock_synchronised=_clock_synchronised(),
        ssh_client=shutil.which("ssh"),
        policy=rules,
        policy_refused=refused,
        aes_instructions=" aes" in (_read("/proc/cpuinfo") or ""),
    )


def _read(file: str) -> str | None:
    try:
        return Path(file).read_text().strip()
    except OSError:
        return None


def _effective_capabilities() -> int:
    for line in (_read("/proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _programs_refused() -> str | None:
    try:
        cc_check_kernel()
    except HowdahError as error:
        return str(error)
    return None


def _policy() -> tuple[dict[str, str], str | None]:
    try:
        return Policy().rules(), None
    except HowdahError as error:
        return {}, str(error)


def _clock_synchronised() -> bool | None:
    """Whether a time service steers the clock, as the kernel has it."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR
