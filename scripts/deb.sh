#!/bin/sh
# deb.sh VENV WHEEL FOLDER: makes a Debian package of the wheel, its locked dependencies, manual pages, completions and
# units, and puts it into a folder. It is for the release of Debian that it is made on, whose Python it runs with. Two
# runs make the same bytes of the same wheel, at the time SOURCE_DATE_EPOCH.
#
# dpkg-deb alone makes it: debhelper is for packages that are built from Debian's own sources.
# zstd takes a tenth of the time of xz; dpkg of Debian 12 reads both.
set -eu
cd "$(dirname "$0")/.."
venv=$1
wheel=$2
folder=$3
: "${SOURCE_DATE_EPOCH:?is not set; scripts/package.sh sets it}"
python=/usr/bin/python3
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
lib=$root/usr/lib/howdah
mkdir -p "$root/usr/bin" "$root/DEBIAN" "$lib"

# An environment of its own: no package of Debian's or of a user's is looked at, and none looks here.
"$python" -m venv --without-pip --symlinks "$lib"
pip() { "$venv/bin/pip" --python "$lib/bin/python3" install --quiet --disable-pip-version-check --no-compile "$@"; }
pip --require-hashes --requirement requirements/package.txt
pip --no-deps --no-index "$wheel"
site=$(echo "$lib"/lib/python3*/site-packages)
versions=$("$python" -c 'import sys; a, b = sys.version_info[:2]; print(f"python3 (>= {a}.{b}), python3 (<< {a}.{b + 1})")')
version=$(echo "$site"/howdah-*.dist-info)
version=${version##*/howdah-}
version=${version%.dist-info}

# Of the environment stay the interpreter and howdah; of pip's notes, none that name this machine's folders.
find "$lib/bin" -mindepth 1 ! -name python3 ! -name howdah -delete
ln -sf ../../../bin/python3 "$lib/bin/python3"
sed -i "1s|.*|#!/usr/lib/howdah/bin/python3|" "$lib/bin/howdah"
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' > "$lib/pyvenv.cfg"
rm -rf "$lib/lib64" "$lib/include" "$lib/share"
rm -f "$site"/*.dist-info/RECORD "$site"/*.dist-info/REQUESTED "$site"/*.dist-info/direct_url.json
# Tests of the libraries are a fifth of all files.
find "$site" -depth -type d -name tests -exec rm -rf {} +
rm -rf "$site/joblib/test"
find "$site" -type f -exec chmod 644 {} +
# Libraries stay as they are: strip breaks those that wheels hold, since their names were changed afterwards.
ln -s ../lib/howdah/bin/howdah "$root/usr/bin/howdah"

# What is read, made of the same tables as the help.
share=$root/usr/share
mkdir -p "$share/doc/howdah/examples" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d" "$root/usr/lib/systemd/system" "$root/usr/lib/sysusers.d"
PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1 "$python" -S -P scripts/pages.py "$share"
gzip -9n "$share"/man/man1/*.1
install -m 644 packaging/systemd/*.service "$root/usr/lib/systemd/system"
install -m 644 packaging/debian/sysusers "$root/usr/lib/sysusers.d/howdah.conf"
install -m 644 packaging/policy.toml "$share/doc/howdah/examples"
install -m 644 packaging/debian/copyright README.md SECURITY.md CHANGELOG.md "$share/doc/howdah"
cp -R docs "$share/doc/howdah/docs"
rm -rf "$share/doc/howdah/docs/design"
built=$(scripts/commit.sh)
cat > "$share/doc/howdah/changelog" <<END
howdah ($version) unstable; urgency=medium

  * Built from ${built:-a tree without git}; what is new is in CHANGELOG.md.

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
gzip -9n "$share/doc/howdah/changelog"
find "$share/doc/howdah" -type f -exec chmod 644 {} +

# Who needs which library of the host is read from the programs themselves.
mkdir -p "$work/debian"
printf 'Source: howdah\n\nPackage: howdah\nArchitecture: amd64\n' > "$work/debian/control"
own=$(find "$site" -name '*.so*' -type f -exec dirname {} + | sort -u | sed 's/^/-l/')
# shellcheck disable=SC2046,SC2086
libraries=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info $own $(find "$site" -name '*.so*' -type f | sort) \
    2> "$work/log") || { cat "$work/log" >&2; exit 1; }
libraries=${libraries#shlibs:Depends=}
sed -e "s/@VERSION@/$version/" -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" | cut -f1)/" \
    -e "s/@PYTHON@/$versions/" -e "s/@LIBRARIES@/$libraries/" packaging/debian/control > "$root/DEBIAN/control"
install -m 755 packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$root/DEBIAN"
mkdir -p "$share/lintian/overrides"
install -m 644 packaging/debian/overrides "$share/lintian/overrides/howdah"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
chmod 644 "$root/DEBIAN/md5sums" "$root/DEBIAN/control"
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$folder"
dpkg-deb --root-owner-group -Zzstd -z9 --build "$root" "$folder/howdah_${version}_amd64.deb" > /dev/null
