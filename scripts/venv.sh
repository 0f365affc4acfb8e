#!/bin/sh
# venv.sh VENV PYTHON: makes the virtual environment and installs the locked packages into it.
set -eu
echo "python: $("$2" --version) in $1, packages of requirements/dev.txt"
[ -x "$1/bin/pip" ] || "$2" -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
