#!/bin/sh
# Checks what the project needs from the system and, as root on Debian, installs what is missing.
# With --peers also the file tools that `make bench-peers` measures, with --ops what `make bench-ops` measures,
# with --trust what `make bench-trust` measures, with --tests the applications that the tests run unmodified,
# a browser, and rsync to compare with, with --package what `make package` makes and tries packages with. Otherwise prints
# the one line to run.
set -eu
PATH=$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin
for each in /usr/lib/postgresql/*/bin; do
    PATH=$PATH:$each
done

missing=
# need COMMAND PACKAGE...: the packages are missing when the command is.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    shift
    missing="$missing $*"
}

# header FILE PACKAGE [c++]: the package is missing when the compiler does not find the file.
header() {
    echo "#include <$1>" | cc -x "${3:-c}" -E - >/dev/null 2>&1 || missing="$missing $2"
}

globus() {
    need globus-url-copy globus-gass-copy-progs
    need globus-gridftp-server globus-gridftp-server-progs
}

xrootd_both() {
    need xrdcp xrootd-client
    need xrootd xrootd-server
}

need cc build-essential
need make make
need pkg-config pkg-config
need clang clang
header libelf.h libelf-dev
header zlib.h zlib1g-dev
need ip iproute2
need ping iputils-ping
need ps procps
need ssh openssh-client
need sshd openssh-server
need iperf3 iperf3
need nsenter util-linux
python=${PYTHON:-python3}
need "$python" python3 python3-venv
if command -v "$python" >/dev/null 2>&1 && ! "$python" -c 'import ensurepip' 2>/dev/null; then
    missing="$missing python3-venv"
fi
case "${1:-}" in
    --peers)
        globus
        xrootd_both
        need rclone rclone
        need rsync rsync
        ;;
    --ops)
        globus
        need ganesha.nfsd nfs-ganesha nfs-ganesha-vfs
        need nfs-cp libnfs-utils
        header udt/udt.h libudt-dev c++
        ;;
    --trust)
        xrootd_both
        need openssl openssl
        ;;
    --package)
        need dpkg-shlibdeps dpkg-dev
        need mmdebstrap mmdebstrap
        need patchelf patchelf
        ;;
    --tests)
        need rsync rsync
        need nuttcp nuttcp
        need busybox busybox-static
        need man man-db
        need mandoc mandoc
        need zsh zsh
        need tcsh tcsh
        need fish fish
        need nft nftables
        need initdb postgresql
        need chromium chromium
        need systemd-analyze systemd
        need chromedriver chromium-driver
        need patchelf patchelf
        ;;
esac

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "missing on this machine; as root: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    echo "installing:$missing"
    # The packages bring services of their own, and a database; none of them is wanted here.
    guard=/usr/sbin/policy-rc.d
    clusters=/etc/postgresql-common/createcluster.d
    mine=
    trap 'rm -f $mine' EXIT
    trap 'exit 130' INT TERM
    if [ ! -e "$guard" ]; then
        mine=$guard
        printf '#!/bin/sh\nexit 101\n' > "$guard"
        chmod +x "$guard"
    fi
    case "$missing " in
        *" postgresql "*)
            mine="$mine $clusters/howdah.conf"
            mkdir -p "$clusters"
            echo "create_main_cluster = false" > "$clusters/howdah.conf"
            ;;
    esac
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $missing; } > "$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        exit 1
    fi
    rm -f "$log"
    # unwanted PACKAGE UNIT...: if the package is new here, its units do not start with the host.
    unwanted() {
        case "$missing " in
            *" $1 "*)
                shift
                systemctl disable --quiet "$@" 2>/dev/null || true
                ;;
        esac
    }
    if [ -d /run/systemd/system ]; then
        unwanted openssh-server ssh.service ssh.socket
        unwanted globus-gridftp-server-progs globus-gridftp-server.service
        unwanted postgresql postgresql.service
        unwanted nfs-ganesha nfs-ganesha.service nfs-ganesha-lock.service rpcbind.service rpcbind.socket
    fi
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "missing on this machine: Rust 1.90 or later, from https://rustup.rs" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$python is older than 3.11; name a newer one: make PYTHON=python3.11" >&2
    exit 1
fi
