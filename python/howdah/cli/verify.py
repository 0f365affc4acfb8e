"""``howdah verify``: its table, and what it does."""

from howdah.cli.table import FAR_HOWDAH, Argument, Command, Option, as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from howdah.values.verification import Algorithm

COMMANDS = (
    Command(
        "verify",
        "Check files against a list of digests, here or at a far host.",
        run="verify.verify",
        text="Each file is read from its disk, past the page cache, by all cores of the host that has it.",
        rows={
            "What is checked": [
                Argument(
                    "MANIFEST", "A list, a record's id, or last: the newest with digests.", key="manifest"
                ),
                Argument("[HOST:]PATH", "The folder that the listed names are relative to.", key="at"),
                Option(
                    "--algorithm NAME",
                    "The kind of digests, if neither the list nor its name says it.",
                    choices=("blake3", "sha256", "md5", "crc32c", "adler32"),
                ),
                Option("--extra", "Also report files that the list does not name."),
                FAR_HOWDAH,
            ],
            "Output": [
                as_json("Print only the result, as JSON, with the first thousand findings."),
                Option("-q, --quiet", "Print only findings: no progress and no summary."),
            ],
        },
        examples="""\
howdah verify last dtn2:/archive/                the files of the last copy that moved any
howdah verify run42.sha256 /data                 a list as sha256sum writes it
howdah verify --algorithm adler32 list.txt dtn2:/d
howdah verify --extra MD5SUMS dtn2:/mirror/42    also report files that are not listed""",
        notes="""\
Exit code 0: every listed file has its digest. 1: some do not, and standard output names each as differs,
missing, unreadable or extra. Lists have the format of b3sum, sha256sum and md5sum (docs/verify.md).""",
    ),
)


def verify(
    *,
    manifest: str,
    at: str,
    algorithm: "Algorithm | None",
    extra: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Checks, prints what does not agree, and returns the exit code. Raises HowdahError."""
    from howdah import document, interrupt  # noqa: PLC0415
    from howdah.library.verify import carry_out, listed_in  # noqa: PLC0415
    from howdah.words.verification import Shown, in_short  # noqa: PLC0415

    interrupt.install()
    listed = listed_in(manifest, algorithm)
    shown = Shown(listed.files, findings=not json, progress=not (json or quiet))
    try:
        result = carry_out(listed, at, shown, extra=extra, far_howdah=far_howdah)
    finally:
        shown.clear()
    if json:
        document.show(result)
    elif not quiet:
        print(in_short(result))
    return 0 if result.agrees else 1
