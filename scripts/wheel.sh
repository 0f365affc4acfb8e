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
unused=$(mktemp -d)
# Left there, the commit would be told of what others build of these sources.
trap 'rm -rf "$log" "$unused" "$commit"' EXIT

# wheel FOLDER [OPTION…]
wheel() {
    out=$1
    shift
    "$(dirname "$python")/maturin" build --release --locked --interpreter "$python" --out "$out" "$@" > "$log" 2>&1
}

# The far end and the module share no object, and each ends with steps that take one core: so both are compiled at once.
# The wheel is packed again when the far end is there.
scripts/far.sh --unpacked &
far=$!
# Only the second build may repair the module: it changes what cargo keeps, and cannot be done twice.
strip=
case " $* " in *" --strip "*) strip=--strip ;; esac
if ! wheel "$unused" ${strip:+"$strip"}; then
    cat "$log" >&2
    wait
    exit 1
fi
wait "$far"
scripts/far.sh
scripts/commit.sh > "$commit"
[ -s "$commit" ] || rm "$commit"
if ! wheel "$folder" "$@"; then
    cat "$log" >&2
    exit 1
fi
