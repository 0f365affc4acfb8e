#!/bin/sh
# try_packages.sh VENV [--host]: tries what lies in target/package in bare roots of Debian's packages: the Debian package
# and the wheel on Debian 12, the wheel on Debian 13, and the far end that is brought to either. Roots are kept in
# target/roots. Needs root, mmdebstrap and Debian's mirror; takes some minutes.
#
# With --host it tries the wheel and the far end in a root of the packages that this host has installed. That needs
# neither mmdebstrap nor a mirror, and takes seconds.
set -eu
cd "$(dirname "$0")/.."
venv=$PWD/$1
host=${2:-}
out=$PWD/target/package
roots=$PWD/target/roots
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$roots"

# installed NAME PACKAGE…: a root in $work/NAME of the files that these packages and those they need have on this host.
installed() {
    root=$work/$1
    shift
    mkdir "$root"
    # Folders that are links on this host have to be links before anything is put into them.
    for each in bin sbin lib lib64; do
        [ ! -L "/$each" ] || { mkdir -p "$root/$(readlink "/$each")" && ln -s "$(readlink "/$each")" "$root/$each"; }
    done
    dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort > "$work/here"
    # shellcheck disable=SC2046
    set -- $(dpkg-query --show --showformat '${Essential} ${Package}\n' | sed -n 's/^yes //p') "$@"
    # shellcheck disable=SC2046
    set -- $(apt-cache depends --installed --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances "$@" | grep '^[a-z0-9]' | sort -u | comm -12 - "$work/here")
    dpkg-query --listfiles "$@" | sed -n 's,^/\(.\),\1,p' | sort -u | grep -vxE 'bin|sbin|lib|lib64' > "$work/files"
    # Packages of a small image lack their documentation.
    tar -C / --no-recursion --ignore-failed-read -cf - -T "$work/files" 2>/dev/null | tar -C "$root" -xf -
    # What the scripts of the packages make.
    cp /etc/nsswitch.conf "$root/etc"
    for each in passwd group shadow; do
        grep -E '^(root|sshd|nogroup|nobody|tty):' "/etc/$each" > "$root/etc/$each" || true
    done
    echo "127.0.0.1 localhost" > "$root/etc/hosts"
    mkdir -p "$root/root" "$root/tmp" "$root/run" "$root/proc" "$root/sys" "$root/dev" "$root/var/tmp"
    ldconfig -r "$root"
}

# bare SUITE NAME: a root of the suite's essential packages and apt, in $work/NAME.
bare() {
    if [ ! -s "$roots/$1.tar" ]; then
        echo "try: makes a bare root of $1"
        mmdebstrap --quiet --variant=apt "$1" "$roots/$1.new.tar" http://deb.debian.org/debian
        mv "$roots/$1.new.tar" "$roots/$1.tar"
    fi
    mkdir "$work/$2"
    tar -C "$work/$2" -xf "$roots/$1.tar"
    cp /etc/resolv.conf "$work/$2/etc/resolv.conf"
    # Every host that an installer made has this file.
    echo "127.0.0.1 localhost" > "$work/$2/etc/hosts"
    # Services of packages do not start there.
    printf '#!/bin/sh\nexit 101\n' > "$work/$2/usr/sbin/policy-rc.d"
    chmod +x "$work/$2/usr/sbin/policy-rc.d"
}

# within NAME COMMAND…: runs it in that root, with the kernel's file systems.
within() {
    root=$work/$1
    shift
    # shellcheck disable=SC2016
    unshare --mount --propagation private sh -c '
        mount --bind "$0" "$0" && cd "$0"
        for each in dev sys; do mount --rbind /$each $each; done
        mount -t proc none proc && mount -t tmpfs none run && mount -t tmpfs none tmp && mkdir -p tmp/old
        pivot_root . tmp/old && cd / || exit 1
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
    ' "$root" "$@"
}

# apt NAME PACKAGE…: installs into a root.
apt() {
    name=$1
    shift
    if ! within "$name" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' sh "$@" \
        > "$work/log" 2>&1
    then
        tail -n 20 "$work/log" >&2
        exit 1
    fi
}

# A copy over real TCP and ssh, on a lab in the root, of a tree that is compared at the end.
copy='
    set -e
    mkdir -p /root/src && head -c 20M /dev/urandom > /root/src/big && cp -R /etc /root/src/etc
    howdah lab run --rate 1Gbit --rtt 20ms --sshd -- howdah cp --quiet --verify /root/src far:/root/dst
    diff -r --no-dereference /root/src /root/dst
'

# wheels NAME VERSION: brings the wheel and what it needs to a root with that Python, so that it needs no way to PyPI.
wheels() {
    "$venv/bin/pip" download --quiet --disable-pip-version-check --only-binary :all: --python-version "$2" \
        --dest "$work/$1/root/wheels" "$out"/*.whl
}

# try_wheel NAME: installs it there as a user would, and copies.
try_wheel() {
    within "$1" sh -euc '
        python3 -m venv /opt/howdah
        /opt/howdah/bin/pip install --quiet --no-index --find-links /root/wheels howdah
        PATH=/opt/howdah/bin:$PATH
        howdah --version
        '"$copy"
}

if [ "$host" = --host ]; then
    installed host python3-venv openssh-server openssh-client iproute2 mount
    wheels host "$("$venv/bin/python" -c 'import sys; print("{}.{}".format(*sys.version_info))')"
    try_wheel host
    echo "try: the wheel is installed and copies in a root of this host's own packages"
    rm -rf "$work/host"
    installed far openssh-server
    # A script of a package would write what PAM reads.
    sed 's/^UsePAM yes/UsePAM no/' /usr/share/openssh/sshd_config > "$work/far/etc/ssh/sshd_config"
    within far ssh-keygen -A > /dev/null
    echo "try: a far host of $("$venv/bin/python" -P scripts/try_far.py "$work/far")"
    exit
fi

if [ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = bookworm ]; then
    bare bookworm installed
    cp "$out"/*.deb "$work/installed/root/howdah.deb"
    apt installed /root/howdah.deb openssh-server iproute2 mount bash-completion
    within installed sh -euc '
        howdah --version
        test -s /usr/share/man/man1/howdah-cp.1.gz
        bash -ec ". /usr/share/bash-completion/completions/howdah; complete -p howdah" > /dev/null
        cd /usr/lib/howdah && find . -name __pycache__ | grep -q .
        howdah select --help > /dev/null
        /usr/lib/howdah/bin/python3 -c "import duckdb, matplotlib.pyplot, nats, nkeys, scipy.stats, sklearn.ensemble, uvicorn"
        getent passwd howdah > /dev/null || ! command -v systemd-sysusers
        '"$copy"'
        apt-get remove -q -y howdah > /dev/null 2>&1
        test ! -e /usr/lib/howdah
    '
    echo "try: the Debian package is installed, copies and is removed on Debian 12"
fi

for each in bookworm:3.11 trixie:3.13; do
    suite=${each%:*}
    bare "$suite" "$suite"
    wheels "$suite" "${each#*:}"
    apt "$suite" python3-venv openssh-server openssh-client iproute2 mount
    try_wheel "$suite"
    echo "try: the wheel is installed and copies on $suite"
    rm -rf "$work/$suite"
    bare "$suite" "$suite"
    apt "$suite" openssh-server
    echo "try: a far host of $("$venv/bin/python" -P scripts/try_far.py "$work/$suite")"
    rm -rf "$work/$suite"
done
