#!/bin/sh
# wheel.sh PYTHON FOLDER [OPTION…]: builds the wheel (release) with the far end that copies bring, and puts it into a folder.
# Options are maturin's, which lies beside PYTHON.
set -eu
cd "$(dirname "$0")/.."
python=$1
folder=$2
shift 2
commit=python/howdah/commit
log=$(mktemp)
# Left there, the commit would be told of what others build of these sources.
trap 'rm -f "$log" "$commit"' EXIT
scripts/far.sh
scripts/commit.sh > "$commit"
[ -s "$commit" ] || rm "$commit"
if ! "$(dirname "$python")/maturin" build --release --locked --interpreter "$python" --out "$folder" "$@" > "$log" 2>&1
then
    cat "$log" >&2
    exit 1
fi
