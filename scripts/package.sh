#!/bin/sh
# package.sh VENV [--host]: makes what is given to others, in target/package: a wheel that holds the libraries it needs, the
# far end as a program, a Debian package, and the digests of all. Then tries them in bare roots (scripts/try_packages.sh).
# With --host it makes the wheel alone, and tries it in a root of this host's own packages.
#
# The time of the Debian package's files is that of the commit, or SOURCE_DATE_EPOCH. The build does not see it: crates
# with C code would be compiled anew for it.
set -eu
cd "$(dirname "$0")/.."
venv=$1
out=target/package
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
work=$(mktemp -d)
# The repair of the wheel changes the module where cargo keeps it, so cargo has to link it anew for the next build.
trap 'rm -rf "$work"; rm -f target/release/lib_native.so target/release/deps/lib_native.so' EXIT
rm -rf "$out"
mkdir -p "$out"

echo "package: the wheel"
if [ "${2:-}" = --host ]; then
    scripts/wheel.sh "$venv/bin/python" "$out" --auditwheel repair
    scripts/try_packages.sh "$venv" --host
    exit
fi
# Debian's libelf has its security fixes, so the Debian package takes the host's.
scripts/wheel.sh "$venv/bin/python" "$work/plain" --strip
scripts/wheel.sh "$venv/bin/python" "$out" --strip --auditwheel repair
gunzip -c python/howdah/remote/brought/howdah-far-x86_64.gz > "$out/howdah-far-x86_64"
chmod 755 "$out/howdah-far-x86_64"

echo "package: the Debian package, twice"
for each in "$out" "$work/again"; do
    SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH scripts/deb.sh "$venv" "$work"/plain/*.whl "$each"
done
for each in "$out"/*.deb; do
    cmp "$each" "$work/again/${each##*/}" || { echo "package: two Debian packages of one wheel differ" >&2; exit 1; }
done
(cd "$out" && sha256sum -- * > SHA256SUMS && cat SHA256SUMS)
scripts/try_packages.sh "$venv"
