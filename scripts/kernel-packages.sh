#!/usr/bin/env bash
# Fetches the kernel and the tools of the kernel tests into target/kernel. Installs nothing.
#
# Debian may remove the pinned kernel: then the newest cloud kernel with BPF qdiscs is taken, and
# named. KERNEL, a release such as 7.2.12+deb13-cloud-amd64, selects another one.
#
# The tools are those of Debian trixie; they run by its own loader, so the host's release does not
# matter. `apt-get` gets an empty package database: it then downloads every dependency.
set -euo pipefail
cd "$(dirname "$0")/.."
dir="$PWD/target/kernel"
root="$dir/root"
pinned=${KERNEL:-7.3.4+deb13-cloud-amd64}
# The first release with BPF qdiscs.
oldest=6.16
stamp="$dir/unpacked-$pinned-5"
[ ! -e "$stamp" ] || exit 0

rm -rf "$dir"
mkdir -p "$dir"/apt/{lists/partial,archives/partial,etc} "$root"
: >"$dir/apt/status"
options=(
    -o "Dir::State=$dir/apt" -o "Dir::State::status=$dir/apt/status"
    -o "Dir::State::lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt"
    -o "Dir::Etc::sourcelist=$dir/apt/etc/sources.list" -o "Dir::Etc::sourceparts=/dev/null"
    -o "Dir::Etc::preferencesparts=/dev/null" -o APT::Architecture=amd64 -o APT::Sandbox::User=
    -o Debug::NoLocking=1 -o Acquire::Languages=none
)
use_suites() {
    local suite keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    for suite in "$@"; do
        echo "deb [arch=amd64 signed-by=$keyring] http://deb.debian.org/debian $suite main"
    done >"$dir/apt/etc/sources.list"
    apt-get "${options[@]}" update -qq
}
# Prints the releases of the suites' cloud kernels with BPF qdiscs; the newest last.
releases() {
    local release
    apt-cache "${options[@]}" search --names-only '^linux-image-[0-9].*-cloud-amd64$' |
        sed -nE 's/^linux-image-([0-9][^-]*-cloud-amd64) .*/\1/p' | sort -V |
        while read -r release; do
            ! printf '%s\n' "$oldest" "$release" | sort -VC || echo "$release"
        done
}

use_suites trixie
apt-get "${options[@]}" install -qq --yes --download-only --no-install-recommends \
    clang-19 libbpf-dev libc6-dev iproute2 iputils-ping busybox-static qemu-system-x86 cpio \
    xz-utils zstd nftables bpftool >/dev/null
release=
for suite in trixie-backports forky sid; do
    use_suites "$suite"
    release=$(releases | grep -Fx "$pinned" || releases | tail -n 1)
    [ -z "$release" ] || break
done
[ -n "$release" ] || {
    echo "error: Debian has no cloud kernel since Linux $oldest" >&2
    exit 1
}
[ "$release" = "$pinned" ] ||
    echo "note: Debian no longer has the kernel $pinned; the tests use $release of $suite"
# Some releases divide the kernel into several packages.
mapfile -t packages < <(
    apt-cache "${options[@]}" search --names-only '^linux-(image|binary|modules)-' | cut -d' ' -f1 |
        grep -Fx "$(printf "linux-%s-$release\n" image binary modules)"
)
# The kernel's own dependencies would bring a boot loader and an initramfs generator.
(cd "$dir/apt/archives" && apt-get "${options[@]}" download -qq "${packages[@]}")
for package in "$dir"/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
done
rm -rf "$dir/apt"

cat >"$dir/tool" <<'TOOL'
#!/bin/sh
# Runs a program of the unpacked release by its own loader.
root=${0%/*}/root
exec "$root/usr/lib64/ld-linux-x86-64.so.2" \
    --library-path "$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/llvm-19/lib" "$@"
TOOL
chmod +x "$dir/tool"

# The emulated machine needs two seconds to decompress its kernel; QEMU starts an uncompressed one
# that has an entry for it (PVH).
image=$root/usr/lib/modules/$release/vmlinuz
[ -e "$image" ] || image=$root/boot/vmlinuz-$release
matches=$(LC_ALL=C grep -abo -P '\x28\xb5\x2f\xfd' "$image" || true)
# The bytes after the compressed kernel are an error to zstd.
tail -c "+$((${matches%%:*} + 1))" "$image" |
    "$dir/tool" "$root/usr/bin/zstd" -dcq >"$dir/vmlinux" 2>/dev/null || true
notes=$(readelf -n "$dir/vmlinux" 2>/dev/null || true)
[[ $notes =~ Xen[^$'\n']*0x00000012 ]] || cp "$image" "$dir/vmlinux"
echo "$release" >"$stamp"
