"""The types of what ``import howdah`` offers; ``__init__.py`` loads each name when it is first used."""

from howdah import archive, lab
from howdah._native import HowdahError, __version__
from howdah.aio import acopy, aexamine, aplan_for, aprobe, aselect, asend_traffic, asweep, averify
from howdah.archive import Archive
from howdah.lab import Lab
from howdah.library.copy import Memory, copy, plan_for
from howdah.library.doctor import examine
from howdah.library.probe import probe
from howdah.library.select import select
from howdah.library.sweep import sweep
from howdah.library.traffic import send_traffic
from howdah.library.verify import verify
from howdah.remote.messages import Progress, Steering
from howdah.transfer.pilot import Pilot
from howdah.values.plan import Plan
from howdah.values.probe import Probe
from howdah.values.record import Record
from howdah.values.verification import Verification

__all__ = [
    "LAB_LINK_VARIABLE",
    "Archive",
    "HowdahError",
    "Lab",
    "Memory",
    "Pilot",
    "Plan",
    "Probe",
    "Progress",
    "Record",
    "Steering",
    "Verification",
    "__version__",
    "acopy",
    "aexamine",
    "aplan_for",
    "aprobe",
    "archive",
    "aselect",
    "asend_traffic",
    "asweep",
    "averify",
    "copy",
    "examine",
    "lab",
    "plan_for",
    "probe",
    "select",
    "send_traffic",
    "sweep",
    "verify",
]

LAB_LINK_VARIABLE: str
