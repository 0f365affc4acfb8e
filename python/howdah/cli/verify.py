"""The table of ``howdah verify``."""

from howdah.cli.table import FAR_HOWDAH, Argument, Command, Option, as_json

COMMANDS = (
    Command(
        "verify",
        "Check files against a list of digests, here or at a far host.",
        run="verify_command.verify",
        text="Each file is read from its disk, past the page cache, by all cores of the host that has it.",
        rows={
            "What is checked": [
                Argument("MANIFEST", "A list of digests, the id of a record, or last.", key="manifest"),
                Argument("[HOST:]PATH", "The folder that its names are relative to.", key="at"),
                Option(
                    "--algorithm NAME",
                    "Of the digests, where neither the list nor its name says it.",
                    choices=("blake3", "sha256", "md5", "crc32c", "adler32"),
                ),
                Option("--extra", "Files that the list does not name do not agree either."),
                FAR_HOWDAH,
            ],
            "Output": [
                as_json("Print the result, and nothing else; of findings the first thousand."),
                Option("-q, --quiet", "Print neither progress nor the summary; findings alone."),
            ],
        },
        examples="""\
howdah verify last dtn2:/archive/                what the last copy moved there
howdah verify run42.sha256 /data                 a list as sha256sum writes it
howdah verify --algorithm adler32 list.txt dtn2:/d
howdah verify --extra MD5SUMS dtn2:/mirror/42    and nothing else is there""",
        notes="""\
Exit code 0: every file of the list is there with its digest. 1: one is not, and standard output names each:
differs, missing, unreadable, extra. The format is that of b3sum, sha256sum and md5sum (docs/verify.md).""",
    ),
)
