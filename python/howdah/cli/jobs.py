"""The tables of ``howdah jobs``, ``limit``, ``pause`` and ``continue``."""

from howdah.cli.table import Argument, Command, as_json

_JOB = Argument("JOB", "The copy's name, as howdah jobs prints it.", key="job")

COMMANDS = (
    Command(
        "jobs",
        "List your copies that run on this host.",
        run="jobs_command.jobs",
        rows={"Output": [as_json()]},
        notes="Each line has a copy's name and state, the bytes done, rate, limit, source and target.",
    ),
    Command(
        "limit",
        "Change the limit of a running copy.",
        run="jobs_command.limit",
        rows={
            "What is changed": [
                _JOB,
                Argument("RATE", "The highest rate, also by the hour, or none.", key="rate"),
            ],
            "Output": [as_json()],
        },
        examples="""\
howdah limit 0f3a9c 100Mbit
howdah limit 0f3a9c '100Mbit 08:00-18:00, 1Gbit'
howdah limit 0f3a9c none""",
    ),
    Command(
        "pause",
        "Pause a running copy, and keep its connections.",
        run="jobs_command.pause",
        rows={"What is paused": [_JOB], "Output": [as_json()]},
        notes="howdah continue goes on with it. All pauses together may last a week (docs/limits.md).",
    ),
    Command(
        "continue",
        "Continue a paused copy.",
        run="jobs_command.resume",
        rows={"What is continued": [_JOB], "Output": [as_json()]},
    ),
)
