#!/bin/sh
# Writes, resolved from the pins of pyproject.toml and with hashes, requirements/dev.txt: every Python package the
# project's own make targets use; and requirements/package.txt: those of them that the Debian package holds, which are
# howdah's dependencies with all extras. Run it after changing those pins.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pip-tools==7.6.2

# lock NAME OPTION…: resolves the pins in NAME.in into requirements/NAME.txt.
lock() {
    name=$1
    shift
    {
        echo "# Written by scripts/lock.sh from pyproject.toml; do not edit."
        "$work/venv/bin/pip-compile" --quiet --generate-hashes --allow-unsafe --strip-extras \
            --no-header --no-annotate --no-emit-find-links --output-file - "$@" "$work/$name.in"
    } > "$work/$name.txt"
    mv "$work/$name.txt" "requirements/$name.txt"
}

"$work/venv/bin/python" - "$work" <<'PY'
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())
needed = project["project"]["dependencies"]
extras = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
Path(sys.argv[1], "dev.in").write_text("\n".join(needed + project["dependency-groups"]["dev"]))
Path(sys.argv[1], "package.in").write_text("\n".join(needed + extras))
PY
mkdir -p requirements
lock dev
# The same versions that the tests have.
lock package --constraint requirements/dev.txt
