#!/bin/sh
# build.sh VENV: builds the wheel and installs it into the virtual environment.
set -eu
echo "build: the howdah wheel into $1 (the first time takes minutes)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/wheel.sh "$1/bin/python" "$work"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$work"/*.whl
