"""The types of what ``import howdah`` offers; ``__init__.py`` loads each name when it is first used."""

from howdah import archive, lab
from howdah._native import HowdahError, __version__
from howdah.aio import acopy, aplan_for, aprobe, aselect, averify
from howdah.lab import Lab
from howdah.library import Memory, copy, plan_for, probe, select
from howdah.remote.messages import Progress, Steering
from howdah.transfer.pilot import Pilot
from howdah.values.plan import Plan
from howdah.values.probe import Probe
from howdah.values.record import Record
from howdah.values.verification import Verification
from howdah.verification.call import verify

__all__ = [
    "LAB_LINK_VARIABLE",
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
    "aplan_for",
    "aprobe",
    "archive",
    "aselect",
    "averify",
    "copy",
    "lab",
    "plan_for",
    "probe",
    "select",
    "verify",
]

LAB_LINK_VARIABLE: str
