"""The command that ssh runs at the far host: howdah there, or the program that an earlier copy brought.

One command does all of it, because each further one costs round trips. It is a line for POSIX's sh and for
any login shell around it: it has no single quote, no line break and no exclamation mark.

The program is kept as ``far-VERSION-DIGEST`` in the first of these folders that is its user's alone and lets
programs run: ``${XDG_CACHE_HOME:-~/.cache}/howdah``, ``$XDG_RUNTIME_DIR/howdah``, ``/tmp/howdah-UID``. It is
compared with its whole digest before each start, so that one that was changed is brought anew.

Where neither is there, the command says so in a line on standard output (``MISSING``), skips what it is told
until a line ``BRING``, and takes the packed program from there on (``bringing``).

Imported before everything else when a copy starts, so only from modules the interpreter has anyway.
"""

import os
from collections import namedtuple

from howdah import __version__

MISSING = "howdah-is-missing"
"""The first word of the line; then the machine, ``in`` or ``nowhere``, and the folder or the reasons."""
BRING = "howdah-comes"
ROLES = ("serve", "reread")
"""What the program that is brought does."""
ANEW = "anew"
"""The word for a host whose own howdah is not tried: it speaks another protocol, or cannot be started."""

Brought = namedtuple("Brought", ["machine", "path", "packed_bytes", "bytes", "sha256"])
Brought.__doc__ = "A program to bring: for which machine, where it lies packed, its size and digest unpacked."

_NAMED = 16
"""The digits of the digest in the name of the file."""

# The shell's names: r role and its options, a whether howdah there is not tried, n name, d digest, c cache,
# u user, o mask, p a place, f the program, t a file on its way, w why places do not do, k what a tool says;
# first notes that what was brought goes before howdah there.
_LINES = (
    "r=$1; a=$2; n=far-{version}-{named}; d={sha256}; c=${{XDG_CACHE_HOME:-$HOME/.cache}}/howdah",
    # What is nobody else's to enter; a link is none.
    'mine() {{ set -- $(ls -ldn "$1" 2>/dev/null); '
    'case $1 in drwx------*) [ "$3" = "$u" ];; *) false;; esac; }}',
    'whole() {{ s=$(sha256sum < "$1" 2>/dev/null || "$1" sha256 2>/dev/null); [ "${{s%% *}}" = $d ]; }}',
    'if [ "$a" = "" ] && [ -e "$c/$n.first" ]; then a=first; fi',
    'if [ "$a" = "" ] && command -v howdah >/dev/null 2>&1; then exec howdah $r; fi',
    'u=$(id -u); set -- "$c" "/tmp/howdah-$u"',
    'if [ -n "$XDG_RUNTIME_DIR" ]; then set -- "$c" "$XDG_RUNTIME_DIR/howdah" "/tmp/howdah-$u"; fi',
    'first() {{ if [ "$a" = ' + ANEW + ' ]; then echo > "$c/$n.first"; fi 2>/dev/null; }}',
    'for p do f=$p/$n; if [ -f "$f" ] && mine "$p" && whole "$f" && "$f" --version >/dev/null 2>&1; '
    'then first; exec "$f" $r; fi; done',
    # After the program was removed howdah there is tried again.
    'if [ "$a" = first ] && command -v howdah >/dev/null 2>&1; then exec howdah $r; fi',
    "case $r in serve*) ;; *) exit 127;; esac",
    "o=$(umask); umask 77; f=; w=; t=; m=$(uname -m)",
    # Also where nobody reads what is said: 13 is PIPE.
    'trap "rm -f \\"\\$t\\"" 0; trap "exit 1" 1 2 13 15',
    'if [ "$m" = {machine} ]; then for p do '
    'if [ -L "$p" ]; then w="$w$p: it is a link; "; continue; fi; '
    'if [ -d "$p/$n" ]; then w="$w$p/$n: it is a folder; "; continue; fi; '
    'k=$(mkdir -p "$p" 2>&1) || {{ w="$w$p: ${{k##*: }}; "; continue; }}; '
    'if [ "$p" = "$c" ]; then chmod 700 "$p" 2>/dev/null; fi; '
    'mine "$p" || {{ w="$w$p: others can enter it; "; continue; }}; '
    # It must have room for the program, too.
    't=$p/.try$$; k=$({{ head -c {bytes} /dev/zero | LC_ALL=C cat > "$t" && echo : > "$t" && '
    'chmod 700 "$t"; }} 2>&1) || '
    '{{ rm -f "$t"; w="$w$p: ${{k##*: }}; "; continue; }}; '
    'if "$t" 2>/dev/null; then f=$p/$n; break; fi; '
    'rm -f "$t"; w="$w$p: no program runs there (noexec); "; done; fi',
    'if [ "$f" = "" ]; then echo "' + MISSING + ' $m nowhere $w"; exit 127; fi',
    'echo "' + MISSING + ' $m in $p"',
    'while :; do IFS= read -r k || exit 1; if [ "$k" = ' + BRING + " ]; then break; fi; done",
    'k=$({{ head -c {packed_bytes} | gzip -dc > "$t"; }} 2>&1)',
    'if whole "$t"; then :; else k=${{k##*: }}; '
    'echo "howdah: the far end that was brought did not arrive whole in $p (${{k:-its digest is wrong}}); '
    'try again, or install howdah there" >&2; exit 1; fi',
    'mv -f "$t" "$f" || exit 1',
    'first; find "$p" -name "far-*" -mtime +90 -exec rm -f {{}} + '
    '-o -name ".try*" -mtime +0 -exec rm -f {{}} + 2>/dev/null',
    'trap - 0; umask "$o"; exec "$f" $r',
)


def brought() -> "Brought | None":
    """What this installation can bring; None: it was built without."""
    path = os.path.join(os.path.dirname(__file__), "brought", "howdah-far-x86_64.gz")  # noqa: PTH118, PTH120
    try:
        with open(f"{path}.sha256", encoding="ascii") as file:  # noqa: PTH123
            sha256 = file.read().strip()
        with open(path, "rb") as packed:  # noqa: PTH123
            # The last four bytes are the size unpacked (RFC 1952).
            packed_bytes = packed.seek(-4, os.SEEK_END) + 4
            return Brought("x86_64", path, packed_bytes, int.from_bytes(packed.read(), "little"), sha256)
    except OSError:
        return None


def command(named: "str | None", role: str, how: str = "") -> str:
    """The command for a ``role`` of howdah, as ``serve --ports 50000-50999``. A login for copies alone
    compares it (crates/far/src/options.rs).

    ``named`` is howdah there if its user has said so; ``how`` is ANEW or nothing.
    """
    if named is not None:
        return f"{_quoted(named)} {role}"
    program = brought()
    if program is None or role.partition(" ")[0] not in ROLES:
        return f"howdah {role}"
    return f"sh -c {_quoted(script(program))} howdah {_quoted(role)} {how}".rstrip()


def script(program: Brought) -> str:
    """The line for sh; its first argument is the role with its options, its second ANEW or nothing."""
    return "; ".join(_LINES).format(version=__version__, named=program.sha256[:_NAMED], **program._asdict())


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
