#!/bin/sh
# Checks what the project needs from the system and, as root on Debian, installs what is missing.
# With --peers also the file tools that `make bench-peers` measures. Otherwise prints the one line to run.
set -eu
PATH=$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin

missing=
# need COMMAND PACKAGE...: the packages are missing when the command is.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    shift
    missing="$missing $*"
}

# header FILE PACKAGE: the package is missing when the compiler does not find the file.
header() {
    echo "#include <$1>" | cc -E - >/dev/null 2>&1 || missing="$missing $2"
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
if [ "${1:-}" = --peers ]; then
    need globus-url-copy globus-gass-copy-progs
    need globus-gridftp-server globus-gridftp-server-progs
    need xrdcp xrootd-client
    need xrootd xrootd-server
    need rclone rclone
    need rsync rsync
fi

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "missing on this machine; as root: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    echo "installing:$missing"
    # The packages bring services of their own; none of them is wanted here.
    guard=/usr/sbin/policy-rc.d
    if [ ! -e "$guard" ]; then
        trap 'rm -f "$guard"' EXIT
        trap 'exit 130' INT TERM
        printf '#!/bin/sh\nexit 101\n' > "$guard"
        chmod +x "$guard"
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $missing; } > "$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        exit 1
    fi
    rm -f "$log"
    if [ -d /run/systemd/system ]; then
        for unit in ssh.service ssh.socket globus-gridftp-server.service; do
            case "$missing" in
                *openssh-server* | *gridftp-server*) systemctl disable --quiet "$unit" 2>/dev/null || true ;;
            esac
        done
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
