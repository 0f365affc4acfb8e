#!/bin/sh
# build.sh VENV: builds the wheel (release), with the far end that copies bring, and installs it into the virtual
# environment.
set -eu
echo "build: the howdah wheel into $1 (the first time takes minutes)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/far.sh
if ! "$1/bin/maturin" build --release --locked --interpreter "$1/bin/python" --out "$work" > "$work/log" 2>&1; then
    cat "$work/log" >&2
    exit 1
fi
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$work"/*.whl
