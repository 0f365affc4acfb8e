"""The tables of ``howdah archive``, ``profile``, ``select`` and ``report``, which tell what was measured."""

from howdah.bounds import Bounds
from howdah.cli.table import (
    FAR_HOWDAH,
    Argument,
    Command,
    Option,
    Row,
    as_json,
    duration,
    path,
    rate,
    size,
)
from howdah.text import with_extra

FIGURES = (
    *("profile", "throughput", "sizes", "boxes", "fits", "transitions", "traces", "poincare", "exponents"),
    *("relation", "models"),
)
"""What can be drawn of a selection. A test holds them against the report's."""

KINDS = ("transfer", "traffic", "probe", "link", "bench")
"""The kinds of records. A test holds them against the record's."""

_DONE = as_json("Print the result as JSON.")
_RECORDS: tuple[Row, ...] = (
    Option("--kind KIND", "Only records of one kind.", choices=KINDS),
    Option("--sweep NAME", "Only runs of this sweep."),
    Option("--newer-than AGE", "Only records newer than this, as 7d.", kind=duration, sets=["newer_than_s"]),
)

_LS = Command(
    "ls",
    "List the newest records, newest first.",
    run="results_command.ls",
    rows={
        "Which records": [
            Option("-n N", "At most N records.", key="most", kind=int, within=Bounds(1), default=20),
            *_RECORDS,
        ],
        "Output": [as_json("Print the records, without their samples, as a JSON array.")],
    },
)

_SHOW = Command(
    "show",
    "Show one record: what was done, by which plan, and why.",
    run="results_command.show",
    rows={
        "Which record": [Argument("ID|last", "An id, its beginning, or last.", key="name")],
        "Output": [as_json("Print the record as JSON, with all samples.")],
    },
)

_PATHS = Command(
    "paths",
    "List what is remembered of each path: what copies there carried, when, and how many they were.",
    text="A path is a far host and a direction, at the round trip of its newest copy.",
    run="results_command.paths",
    rows={"Output": [as_json("Print the memory of each path as a JSON array.")]},
    notes="docs/memory.md explains what counts, and what copies use it for.",
)

_PRUNE = Command(
    "prune",
    "Remove old records and their digests.",
    text="With both options, it removes records that are older and not among the newest N.",
    run="results_command.prune",
    rows={
        "Which records": [
            Option(
                "--older-than AGE",
                "Remove records older than this, as 90d.",
                kind=duration,
                sets=["older_than_s"],
            ),
            Option("--keep N", "Keep the newest N records.", kind=int),
            Option("--dry-run", "Print what would be removed; remove nothing."),
        ],
        "Output": [_DONE],
    },
)

_GC = Command(
    "gc",
    "Remove files that belong to no record, and free unused space.",
    run="results_command.gc",
    rows={"Output": [_DONE]},
)

_EXPORT = Command(
    "export",
    "Write runs and traces to a folder as Parquet files, for other tools or for import.",
    run="results_command.export",
    rows={
        "Which runs": [Argument("FOLDER", "A new folder.", key="folder", kind=path), *_RECORDS],
        "Output": [_DONE],
    },
)

_IMPORT = Command(
    "import",
    "Import the runs of an exported folder.",
    run="results_command.import_",
    rows={
        "Which runs": [Argument("FOLDER", "The folder that export wrote.", key="folder", kind=path)],
        "Output": [_DONE],
    },
)

_MERGE = Command(
    "merge",
    "Import the runs of another archive, as a colleague's or another host's.",
    run="results_command.merge",
    rows={
        "Which runs": [
            Argument("FOLDER", "An archive, as ~/.local/share/howdah/records.", key="folder", kind=path)
        ],
        "Output": [_DONE],
    },
)

_ARCHIVE = Command(
    "archive",
    "List, show, prune, export and import the records of all runs.",
    commands={
        "Look": [_LS, _SHOW, _PATHS],
        "Keep it small": [_PRUNE, _GC],
        "Share it": [_EXPORT, _IMPORT, _MERGE],
    },
)


def _buffer(text: str) -> int | None:
    """The bytes of a buffer; null: autotuned. Raises HowdahError."""
    return None if text == "auto" else size(text)


_CELLS: tuple[Row, ...] = (
    Option("--path NAME", "A host, or a lab's link in words.", many=True),
    Option("--cc NAME", "A congestion control.", key="congestion_control", many=True),
    Option("--streams N", "A number of streams.", kind=int, within=Bounds(1), many=True),
    Option("--buffer SIZE|auto", "A socket buffer, as 256MB.", key="buffer_bytes", kind=_buffer, many=True),
    Option("--sweep NAME", "The runs of a sweep.", many=True),
)

_PLOT = Command(
    "plot",
    "Draw one figure of the chosen runs, of the kinds that howdah report has.",
    run="results_command.plot",
    rows={
        "What is drawn": [
            Argument("FIGURE", "", key="figure", choices=FIGURES),
            Argument("FILE", "The file to write. Its name ends in .svg or .png.", key="file", kind=path),
        ],
        "Which runs": [
            *_CELLS,
            Option("--rtt TIME", "An RTT, as 45.6ms.", key="rtt_s", kind=duration, many=True),
        ],
        "Output": [as_json("Print what the figure shows as JSON.")],
    },
    examples="""\
howdah profile plot profile cubic.svg --cc cubic --buffer 1GB
howdah profile plot traces ramp.png --cc scalable --streams 1 --rtt 183ms --rtt 366ms""",
    notes=f"docs/report.md explains each figure. Figures need matplotlib: {with_extra('figures')}",
)

_PROFILE = Command(
    "profile",
    "Show throughput by RTT, as measured, and where it turns from concave to convex.",
    run="results_command.profile",
    rows={
        "Which runs": [
            *_CELLS,
            Option("--late", "Also count runs that this machine spoilt."),
            Option("--files", "Also count copies of files."),
        ],
        "Output": [as_json("Print all numbers as JSON, with the sigmoids' bootstrap.")],
    },
    examples="""\
howdah profile
howdah profile --cc cubic --cc htcp --streams 4
howdah profile --path dtn2 --buffer 256MB --buffer auto --json""",
    notes="docs/profiles.md explains each number.",
    commands={"Commands": [_PLOT]},
)

_SELECT = Command(
    "select",
    "Choose the congestion control, streams and buffers for a round trip, from what was measured.",
    run="results_command.select",
    rows={
        "For which transfer": [
            Option("--rtt TIME", "The round trip. Default: measured to --host.", kind=duration, key="rtt_s"),
            Option(
                "--host [USER@]HOST",
                "Use the runs to this host. Without --rtt, measure the round trip to it.",
            ),
            Option("--path NAME", "Use the runs of this path: a host, or a lab's link in words."),
            Option(
                "--size SIZE",
                "The size of the transfer, if runs moved several sizes.",
                kind=size,
                key="size_bytes",
            ),
            Option("--rate RATE", "The path's capacity, for the models.", kind=rate, key="capacity_bps"),
            Option("--extrapolate", "Outside the profile, use the models."),
            FAR_HOWDAH,
        ],
        "Output": [
            Option(
                "-n N",
                "Say why N others were not chosen.",
                key="most",
                kind=int,
                within=Bounds(0),
                default=10,
            ),
            as_json("Print the answer as JSON, with all others."),
        ],
    },
    examples="""\
howdah select --rtt 93ms                 from the only profile that covers 93 ms
howdah select --host dtn2                at the round trip to dtn2, from its own runs if there are any
howdah select --rtt 93ms --path dtn2     from the runs to dtn2
howdah select --rtt 500ms --extrapolate  beyond the profile, by models that the runs correct
howdah select --rtt 93ms --rate 40Gbit   with no profile: by the models, for this capacity""",
    notes="""\
The choice has the highest lower bound: the rate that its next run reaches with 95 %. howdah cp --path
dedicated chooses in the same way, among what both hosts can use.""",
)

_REPORT = Command(
    "report",
    "Make a page that compares the runs with the papers, with the papers' figures.",
    run="results_command.report",
    rows={
        "Which runs": [
            Option("--sweep NAME", "Only runs of this sweep."),
            Option("--path PATH", "The path, as howdah profile names it."),
        ],
        "Output": [
            Option("-o, --output FILE", "The page; - is standard output.", kind=path),
            as_json("Print the page's content as JSON. Write the page only with -o."),
        ],
    },
    examples="""\
howdah report                           report.html, of the path with the most runs
howdah report --sweep hpdc17-two-hours  of one sweep
howdah report --path dtn2 -o dtn2.html  of one host
howdah report --json                    the page's content, without the figures""",
    notes=f"The page is one file and needs no network. Figures need matplotlib: {with_extra('figures')}",
)

COMMANDS = (_ARCHIVE, _PROFILE, _SELECT, _REPORT)
