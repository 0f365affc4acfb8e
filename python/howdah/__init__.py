"""Howdah moves data over long fat networks at the rate the path allows, and picks the transport itself.

    record = howdah.copy("run42/", "dtn2:/archive/")

``copy``, ``verify``, ``plan_for``, ``probe`` and ``select`` do what the commands do and return what they keep
or print; ``acopy`` and its like do it for asyncio; ``archive`` has the records of all runs, ``Lab`` and
``lab`` are emulated hosts and the link between them. docs/library.md shows each. A name is loaded when it is
first used, so that ``import howdah`` stays light; its types are in ``__init__.pyi``.
"""

from howdah._native import HowdahError, __version__

LAB_LINK_VARIABLE = "HOWDAH_LAB_LINK"
"""The variable that a lab sets for the commands it runs: its LinkSpec as JSON."""

# A class made by Rust: what is to be found at each of its errors is said here.
HowdahError.record = None
HowdahError.exit_code = 1

_MODULES = ("archive", "lab")
_EXPORTS = {
    "Archive": "archive",
    "Lab": "lab",
    "Memory": "library.copy",
    "Pilot": "transfer.pilot",
    "Plan": "values.plan",
    "Probe": "values.probe",
    "Progress": "remote.messages",
    "Record": "values.record",
    "Steering": "remote.messages",
    "Verification": "values.verification",
    "acopy": "aio",
    "aexamine": "aio",
    "aplan_for": "aio",
    "aprobe": "aio",
    "aselect": "aio",
    "asend_traffic": "aio",
    "asweep": "aio",
    "averify": "aio",
    "copy": "library.copy",
    "examine": "library.doctor",
    "plan_for": "library.copy",
    "probe": "library.probe",
    "select": "library.select",
    "send_traffic": "library.traffic",
    "sweep": "library.sweep",
    "verify": "library.verify",
}
"""The module of each name that is loaded when it is first used (PEP 562)."""

__all__ = ["LAB_LINK_VARIABLE", "HowdahError", "__version__", *_MODULES, *_EXPORTS]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _EXPORTS and name not in _MODULES:
        raise AttributeError(f"module 'howdah' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    if name in _MODULES:
        return import_module(f"howdah.{name}")
    found = globals()[name] = getattr(import_module(f"howdah.{_EXPORTS[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
