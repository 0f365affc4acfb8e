#!/bin/sh
# audit.sh: known weaknesses, licences and sources of all that is locked. It needs the network: cargo-deny brings the
# RustSec database, pip-audit asks PyPI.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:$HOME/.cargo/bin
if ! command -v cargo-deny >/dev/null 2>&1; then
    echo "missing on this machine: cargo install --locked cargo-deny@0.20.2" >&2
    exit 1
fi
cargo deny --locked check
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pip-audit==2.10.1
"$work/venv/bin/pip-audit" --require-hashes --disable-pip --requirement requirements/dev.txt
