"""Writes manual pages and completions of all commands below a folder that is as /usr/share.

All is made of the tables of the commands, which also read the command line and print its help.
"""

import sys
from pathlib import Path

from howdah.cli import app, completion, pages

SCRIPTS = {
    "bash": "bash-completion/completions/howdah",
    "fish": "fish/vendor_completions.d/howdah.fish",
    "zsh": "zsh/vendor-completions/_howdah",
}


def written(share: Path) -> None:
    """Writes the files. Raises OSError where a folder cannot be written."""
    for called, command in pages.walk(app.howdah()):
        page = share / "man/man1" / f"{'-'.join(called)}.1"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(pages.manual(command, called) + "\n")
    for shell, name in SCRIPTS.items():
        script = share / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(completion.fish() if shell == "fish" else completion.bash(shell))
    # zsh finds the file by its first line and runs it at the first TAB, for which it has to complete, too.
    zsh = share / SCRIPTS["zsh"]
    zsh.write_text(f"#compdef howdah\n{zsh.read_text()}_bash_complete -o default -F _howdah\n")


if __name__ == "__main__":
    written(Path(sys.argv[1]))
