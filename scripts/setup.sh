# shellcheck shell=bash
# Sourced by the Makefile. Provides a C linker and the libraries libpcap, libelf and zlib.
#
# Usage: source scripts/setup.sh [run]. `run` provides libpcap only: `make run` builds no qdisc.
#
# As root, installs them by apt. Otherwise unpacks their packages under target/ and sets the search
# paths of compiler, linker and loader; changes nothing outside the repository.

millstream_setup() {
    local with_qdisc=$1 libdir
    if ! command -v cargo >/dev/null; then
        echo "error: cargo is not installed; install Rust from https://rustup.rs" >&2
        return 1
    fi
    if command -v cc >/dev/null && millstream_links pcap stdio.h; then
        millstream_setup_qdisc "$with_qdisc"
        return
    fi
    if [ "$(id -u)" = 0 ]; then
        echo "installing libpcap-dev and a C toolchain with apt" >&2
        millstream_install gcc libc6-dev libpcap-dev
        millstream_setup_qdisc "$with_qdisc"
        return
    fi
    if ! command -v cc >/dev/null; then
        echo "error: no C linker; ask an administrator for the package gcc" >&2
        return 1
    fi
    libdir=$(pwd)/target/libpcap
    millstream_unpack "$libdir" libpcap.so libpcap0.8 libdbus-1-3 libsystemd0 libgcrypt20 \
        liblz4-1 liblzma5 libzstd1 libcap2 libgpg-error0
    export LIBPCAP_LIBDIR="$libdir"
    millstream_setup_qdisc "$with_qdisc"
}

# Provides what `millstream attach` is built with, unless $1 is empty.
millstream_setup_qdisc() {
    local libdir headers
    [ -n "$1" ] || return 0
    if command -v make >/dev/null && command -v pkg-config >/dev/null &&
        millstream_links elf libelf.h && millstream_links z zlib.h; then
        return 0
    fi
    if [ "$(id -u)" = 0 ]; then
        echo "installing libelf-dev, zlib1g-dev, make and pkg-config with apt" >&2
        millstream_install libelf-dev zlib1g-dev make pkg-config
        return
    fi
    if ! command -v make >/dev/null || ! command -v pkg-config >/dev/null; then
        echo "error: ask an administrator for the packages make and pkg-config, or build without" \
            "the qdisc: cargo build -p millstream-cli --no-default-features -F parquet,webrtc" >&2
        return 1
    fi
    libdir=$(pwd)/target/libelf
    millstream_unpack "$libdir" libelf.so libelf1 libelf-dev zlib1g zlib1g-dev
    ln -sf libz.so.1 "$libdir/libz.so"
    headers=$libdir/unpacked/usr/include
    headers+=:$headers/$(cc -print-multiarch)
    export C_INCLUDE_PATH="$headers${C_INCLUDE_PATH:+:$C_INCLUDE_PATH}"
}

millstream_install() {
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# millstream_unpack DIRECTORY LIBRARY PACKAGE…: unpacks Debian's packages and sets the search paths
# of linker and loader. Does not download what it has unpacked before; LIBRARY is of the first one.
millstream_unpack() {
    local libdir=$1 library=$2 deb found
    shift 2
    if [ ! -e "$libdir/$library" ]; then
        echo "$library is missing: unpacking Debian's packages under $libdir" >&2
        mkdir -p "$libdir/apt/lists/partial" "$libdir/apt/archives/partial" "$libdir/unpacked"
        local options=(
            -o "Dir::State::Lists=$libdir/apt/lists" -o "Dir::Cache=$libdir/apt"
            -o APT::Sandbox::User= -o Debug::NoLocking=1
        )
        apt-get "${options[@]}" update -qq >&2
        (cd "$libdir" && apt-get "${options[@]}" download -qq "$@" >&2)
        for deb in "$libdir"/*.deb; do
            dpkg-deb -x "$deb" "$libdir/unpacked"
        done
        find "$libdir/unpacked" -name '*.so*' -exec cp -P {} "$libdir/" \;
        found=$(find "$libdir" -maxdepth 1 -name "$library.*" -type l -printf '%f\n' | head -n 1)
        ln -sf "$found" "$libdir/$library"
    fi
    export LIBRARY_PATH="$libdir${LIBRARY_PATH:+:$LIBRARY_PATH}"
    export LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# millstream_links LIBRARY HEADER: succeeds if a program links with the library and has its header.
millstream_links() {
    local scratch status=0
    scratch=$(mktemp -d)
    printf '#include <stdio.h>\n#include <%s>\nint main(void) { return 0; }\n' "$2" \
        >"$scratch/probe.c"
    cc -o "$scratch/probe" "$scratch/probe.c" "-l$1" 2>/dev/null || status=1
    rm -rf "$scratch"
    return $status
}

case ${1:-} in
run) millstream_setup '' ;;
*) millstream_setup qdisc ;;
esac
