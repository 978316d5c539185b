# shellcheck shell=bash
# Sourced by the Makefile. Provides a C linker and libpcap.
#
# As root, installs them by apt. Otherwise unpacks libpcap's packages under target/ and sets the
# search paths of linker and loader; changes nothing outside the repository.

millstream_setup() {
    local root libdir deb
    root=$(pwd)
    libdir="$root/target/libpcap"
    if ! command -v cargo >/dev/null; then
        echo "error: cargo is not installed; install Rust from https://rustup.rs" >&2
        return 1
    fi
    if command -v cc >/dev/null && millstream_links_pcap; then
        return 0
    fi
    if [ ! -e "$libdir/libpcap.so" ]; then
        if [ "$(id -u)" = 0 ]; then
            echo "installing libpcap-dev and a C toolchain with apt" >&2
            apt-get update -qq >&2
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
                gcc libc6-dev libpcap-dev >/dev/null
            return 0
        fi
        if ! command -v cc >/dev/null; then
            echo "error: no C linker; ask an administrator for the package gcc" >&2
            return 1
        fi
        echo "libpcap is missing: unpacking Debian's packages under target/libpcap" >&2
        mkdir -p "$libdir/apt/lists/partial" "$libdir/apt/archives/partial" "$libdir/unpacked"
        local options=(
            -o "Dir::State::Lists=$libdir/apt/lists" -o "Dir::Cache=$libdir/apt"
            -o APT::Sandbox::User= -o Debug::NoLocking=1
        )
        apt-get "${options[@]}" update -qq >&2
        (cd "$libdir" && apt-get "${options[@]}" download -qq libpcap0.8 libdbus-1-3 libsystemd0 \
            libgcrypt20 liblz4-1 liblzma5 libzstd1 libcap2 libgpg-error0 >&2)
        for deb in "$libdir"/*.deb; do
            dpkg-deb -x "$deb" "$libdir/unpacked"
        done
        find "$libdir/unpacked" -name '*.so*' -exec cp -P {} "$libdir/" \;
        ln -sf libpcap.so.0.8 "$libdir/libpcap.so"
    fi
    export LIBRARY_PATH="$libdir${LIBRARY_PATH:+:$LIBRARY_PATH}"
    export LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export LIBPCAP_LIBDIR="$libdir"
}

# Succeeds if a program that uses libpcap links.
millstream_links_pcap() {
    local scratch status=0
    scratch=$(mktemp -d)
    echo 'char *pcap_lib_version(void); int main(void) { return pcap_lib_version() == 0; }' \
        >"$scratch/probe.c"
    cc -o "$scratch/probe" "$scratch/probe.c" -lpcap 2>/dev/null || status=1
    rm -rf "$scratch"
    return $status
}

millstream_setup
