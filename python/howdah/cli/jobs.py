"""The tables of ``howdah jobs``, ``limit``, ``pause`` and ``continue``."""

from howdah.cli.table import Argument, Command, as_json

_JOB = Argument("JOB", "Which copy, as howdah jobs names it.", key="job")

COMMANDS = (
    Command(
        "jobs",
        "List your copies that run on this host.",
        run="jobs_command.jobs",
        rows={"Output": [as_json()]},
        notes="One line a copy: its name, what of it is done, the rate, the limit, from where to where.",
    ),
    Command(
        "limit",
        "Change the limit of a running copy.",
        run="jobs_command.limit",
        rows={
            "What is changed": [
                _JOB,
                Argument("RATE", "The most that it sends, by the hour too, or none.", key="rate"),
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
        "Stop the bytes of a running copy, and keep its connections.",
        run="jobs_command.pause",
        rows={"What is paused": [_JOB], "Output": [as_json()]},
        notes="Both ends wait for howdah continue, for a week in all (docs/limits.md).",
    ),
    Command(
        "continue",
        "Have a paused copy go on.",
        run="jobs_command.resume",
        rows={"What goes on": [_JOB], "Output": [as_json()]},
    ),
)
