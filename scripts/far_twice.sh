#!/bin/sh
# far_twice.sh: builds the far end that copies bring again, in another folder and with another home of cargo, and
# compares both, byte by byte. Takes some minutes.
set -eu
cd "$(dirname "$0")/.."
scripts/far.sh
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
mkdir "$other/tree" "$other/cargo"
cp -R Cargo.toml Cargo.lock .cargo crates scripts "$other/tree"
# Crates need not be fetched again, but have another path.
for each in "${CARGO_HOME:-$HOME/.cargo}"/*; do ln -s "$each" "$other/cargo"; done
(cd "$other/tree" && CARGO_HOME=$other/cargo scripts/far.sh)
packed=python/howdah/remote/brought/howdah-far-x86_64.gz
cmp "$packed" "$other/tree/$packed" || {
    echo "far: two builds of the same source differ; a far host would be brought each" >&2
    exit 1
}
echo "far: both builds are $(cat "$packed.sha256")"
