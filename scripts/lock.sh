#!/bin/sh
# Writes requirements/dev.txt: every Python package the project's own make targets use, with hashes,
# resolved from the pins of pyproject.toml. Run it after changing those pins.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pip-tools==7.6.2
"$work/venv/bin/python" - > "$work/direct.in" <<'PY'
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())
print("\n".join(project["project"]["dependencies"] + project["dependency-groups"]["dev"]))
PY
{
    echo "# Written by scripts/lock.sh from pyproject.toml; do not edit."
    "$work/venv/bin/pip-compile" --quiet --generate-hashes --allow-unsafe --strip-extras \
        --no-header --no-annotate --no-emit-find-links --output-file - "$work/direct.in"
} > "$work/dev.txt"
mkdir -p requirements
mv "$work/dev.txt" requirements/dev.txt
