#!/usr/bin/env bash
# Boots the kernel of scripts/kernel-packages.sh in QEMU, without KVM; runs a shell script in it.
# Fails if the script fails.
#
# Usage: kernel-boot.sh SCRIPT [FILE…]
#
# The files are in /test of the virtual machine. The script's standard output and error go to this
# script's output. The script may write to /dev/ttyS1: those bytes are in target/kernel/result.
set -euo pipefail
script=$(realpath "$1")
shift
files=()
for file in "$@"; do
    # By the name given: libraries are found by that of their symbolic link.
    files+=("$(realpath -s "$file")")
done
cd "$(dirname "$0")/.."
dir="$PWD/target/kernel"
root="$dir/root"
tool="$dir/tool"
# In an order in which they load.
modules=(
    veth sch_cake sch_htb sch_fq_codel
    nf_defrag_ipv4 nf_defrag_ipv6 nf_conntrack nf_nat nf_tables nft_ct nft_chain_nat nft_masq
    cls_flower cls_u32
)
release=$(basename "$root"/usr/lib/modules/*)

image="$dir/image"
if [ ! "$dir/base.cpio" -nt scripts/kernel-boot.sh ] || [ ! "$dir/base.cpio" -nt "$root" ]; then
    rm -rf "$image"
    mkdir -p "$image"/{bin,sbin,lib64,lib,mod,proc,sys,dev,tmp,etc}
    cp "$root/usr/bin/busybox" "$image/bin/busybox"
    cp "$root/usr/lib64/ld-linux-x86-64.so.2" "$image/lib64/"
    for program in usr/sbin/bpftool usr/sbin/tc usr/sbin/nft usr/bin/ip usr/bin/ping; do
        cp "$root/$program" "$image/sbin/"
        "$tool" --list "$root/$program" | awk '$3 ~ /^\// { print $3 }'
    done | sort -u | xargs -I{} cp -L {} "$image/lib/"
    cp "$root/usr/lib/x86_64-linux-gnu/libgcc_s.so.1" "$image/lib/"
    # Without their signatures: the machine needs half a second to verify one.
    for at in "${!modules[@]}"; do
        module="$image/mod/$(printf '%02d' "$at")-${modules[at]}.ko"
        find "$root/usr/lib/modules/$release" -name "${modules[at]}.ko.xz" -exec xz -dkc {} \; \
            >"$module"
        [ ! -s "$module" ] || strip --strip-debug "$module"
    done
    cat >"$image/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/sbin:/bin LD_LIBRARY_PATH=/lib
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
for module in /mod/*.ko; do
    [ ! -s "$module" ] || insmod "$module"
done
ip link set lo up
cd /test
# The shell prefers busybox's own programs of these names.
for program in ip tc ping; do
    eval "$program() { /sbin/$program \"\$@\"; }"
done
(set -e; . ./script)
echo "STATUS $?"
poweroff -f
INIT
    chmod +x "$image/init"
    (cd "$image" && find . | "$tool" "$root/usr/bin/cpio" -o -H newc --quiet) >"$dir/base.cpio"
fi
# The kernel unpacks concatenated archives one after another.
rm -rf "$dir/test"
mkdir -p "$dir/test/test"
cp "$script" "$dir/test/test/script"
for file in "${files[@]}"; do
    cp -L "$file" "$dir/test/test/"
done
(cd "$dir/test" && find . | "$tool" "$root/usr/bin/cpio" -o -H newc --quiet) >"$dir/test.cpio"
cat "$dir/base.cpio" "$dir/test.cpio" >"$dir/initrd"
rm -f "$dir/result"
# `icount` makes the machine's time that of its instructions, 2 ns each, so that a busy host does
# not delay its timers; idle time passes at once. Mitigations of speculative execution would
# only make the emulated kernel slower.
timeout 1800 "$tool" "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" \
    -L "$root/usr/share/seabios" \
    -m 1024 -smp 1 -display none -no-reboot -nic none -icount shift=1,sleep=off -rtc clock=vm \
    -monitor none -serial stdio -serial "file:$dir/result" \
    -kernel "$dir/vmlinux" -initrd "$dir/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off" </dev/null |
    sed -u 's|\r||g' | tee "$dir/console"
grep -q '^STATUS 0$' "$dir/console"
