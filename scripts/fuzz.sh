#!/bin/sh
# fuzz.sh [--seconds N] [--inputs N] [--keep] [TARGET...]: runs fuzz targets under libFuzzer, one after the other,
# a minute each unless told otherwise, from the kept inputs on. What a run finds lies in target/fuzz/NAME; with
# --keep the fewest of them that reach the same code become the kept inputs. Ends with a line a target.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:$HOME/.cargo/bin
seconds=60 inputs=-1 keep= targets=
while [ $# -gt 0 ]; do
    case "$1" in
        --seconds) seconds=$2; shift ;;
        --inputs) inputs=$2; shift ;;
        --keep) keep=yes ;;
        -*) sed -n 's/^# //p' "$0" | head -n 3 >&2; exit 2 ;;
        *) targets="$targets $1" ;;
    esac
    shift
done
if ! command -v cargo-fuzz >/dev/null 2>&1; then
    echo "missing on this machine: cargo install --locked cargo-fuzz@0.13.2" >&2
    exit 1
fi
# Without a sanitizer it needs no nightly compiler; what is fuzzed has no unsafe code of its own.
# LTO would undo the instrumentation.
CARGO_PROFILE_RELEASE_LTO=off \
    cargo fuzz build --fuzz-dir crates/fuzz --sanitizer none --features libfuzzer --target-dir target/fuzz any
any=target/fuzz/$(rustc -vV | sed -n 's/^host: //p')/release/any
cargo build --release --locked --package howdah-fuzz --features corpus --bin corpus
corpus=target/release/corpus
failed=
for target in ${targets:-$("$corpus" list)}; do
    work=target/fuzz/$target
    mkdir -p "$work"
    "$corpus" unpack "$target" "$work"
    if ! HOWDAH_FUZZ=$target "$any" "$work" -max_len=4096 -max_total_time="$seconds" -runs="$inputs" \
        -timeout=20 -print_final_stats=1 -artifact_prefix="target/fuzz/found-$target-" > "$work.log" 2>&1; then
        failed="$failed $target"
        echo "$target: a finding, see $work.log"
        continue
    fi
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: //p' "$work.log") inputs, no finding"
    if [ -n "$keep" ]; then
        fewest=$(mktemp -d)
        HOWDAH_FUZZ=$target "$any" -merge=1 "$fewest" "$work" >> "$work.log" 2>&1
        "$corpus" pack "$target" "$fewest"
        rm -rf "$fewest"
    fi
done
[ -z "$failed" ]
