#!/usr/bin/env bash
# Fetches the kernel and the tools of the kernel tests into target/kernel. Installs nothing.
#
# The tools run from an unpacked Debian trixie, by its own loader, so the host's release does not
# matter. `apt-get` gets an empty package database: it then downloads every dependency.
set -euo pipefail
cd "$(dirname "$0")/.."
dir="$PWD/target/kernel"
root="$dir/root"
version=7.3.4+deb13-cloud-amd64
stamp="$dir/unpacked-$version-2"
[ ! -e "$stamp" ] || exit 0

mkdir -p "$dir"/apt/{lists/partial,archives/partial,etc} "$root"
: >"$dir/apt/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in trixie trixie-backports; do
    echo "deb [arch=amd64 signed-by=$keyring] http://deb.debian.org/debian $suite main"
done >"$dir/apt/etc/sources.list"
options=(
    -o "Dir::State=$dir/apt" -o "Dir::State::status=$dir/apt/status"
    -o "Dir::State::lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt"
    -o "Dir::Etc::sourcelist=$dir/apt/etc/sources.list" -o "Dir::Etc::sourceparts=-"
    -o "Dir::Etc::preferencesparts=-" -o APT::Architecture=amd64 -o APT::Sandbox::User=
    -o Debug::NoLocking=1 -o Acquire::Languages=none
)
apt-get "${options[@]}" update -qq
apt-get "${options[@]}" install -qq --yes --download-only --no-install-recommends \
    clang-19 libbpf-dev libc6-dev iproute2 iputils-ping busybox-static qemu-system-x86 cpio zstd \
    xz-utils nftables bpftool/trixie-backports >/dev/null
# The kernel's own dependencies would bring a boot loader and an initramfs generator.
(cd "$dir/apt/archives" && apt-get "${options[@]}" download -qq \
    "linux-binary-$version/trixie-backports" "linux-modules-$version/trixie-backports")
for package in "$dir"/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
done
touch "$stamp"
