#!/bin/sh
# far.sh [--unpacked]: builds the far end that a copy brings to hosts without howdah, one program without shared libraries,
# and packs it into python/howdah/remote/brought/, from where the wheel takes it. With --unpacked it only builds: a wheel
# that is built at the same time lists that folder, and fails if a file changes its name meanwhile.
#
# A far host keeps the program by its digest, so no path of the machine that builds it goes in, and gzip adds no time.
# scripts/far_twice.sh compares two builds.
set -eu
cd "$(dirname "$0")/.."
[ "$(uname -m)" = x86_64 ] || { echo "far: no far end to bring is built on $(uname -m)"; exit 0; }
target=x86_64-unknown-linux-gnu
program=target/$target/release-small/howdah-far
brought=python/howdah/remote/brought
cargo build --quiet --locked --profile release-small --package howdah-far --target "$target" \
    --config "target.$target.rustflags=['-Ctarget-feature=+crt-static', '--remap-path-prefix=$PWD=howdah', \
'--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo']"
[ "${1:-}" = --unpacked ] && exit 0
mkdir -p "$brought"
packed=$brought/howdah-far-x86_64.gz
digest=$(sha256sum < "$program")
digest=${digest%% *}
[ -f "$packed" ] && [ "$(cat "$packed.sha256" 2>/dev/null)" = "$digest" ] && exit 0
gzip -9n < "$program" > "$packed.new"
mv "$packed.new" "$packed"
echo "$digest" > "$packed.sha256"
