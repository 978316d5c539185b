#!/usr/bin/env bash
# Tests `millstream attach` in a Linux kernel, in a virtual machine without KVM: scripts/kernel.sh
#
# `scripts/kernel.sh object` first writes the compiled qdisc that the program contains. Otherwise,
# that file must be what the source compiles to. MILLSTREAM names a program that is already built.
#
# Every discipline schedules an overloaded link of 20 Mbit/s. The qdisc logs its events: the engine
# must make the same decisions at the same times. Then voice shares the link with TCP and a flood,
# and a sparse flow a stream with TCP, under the qdisc and under the kernel's own.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
source scripts/setup.sh
scripts/kernel-packages.sh
dir="$PWD/target/kernel"
root="$dir/root"
crate=crates/millstream-bpf

tool() {
    "$root/usr/lib64/ld-linux-x86-64.so.2" \
        --library-path "$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/llvm-19/lib" "$@"
}

# The object that the program contains has the types of BTF and no debug information, so it does not
# depend on the directory. Nor does it depend on the kernel: see kernel.h.
llvm="$root/usr/lib/llvm-19"
tool "$llvm/bin/clang" -O2 -g -gno-column-info -Wall -Werror -target bpf -D__TARGET_ARCH_x86 \
    -ffile-prefix-map="$PWD=." -resource-dir "$llvm/lib/clang/19" \
    -isystem "$root/usr/include" -isystem "$root/usr/include/x86_64-linux-gnu" \
    -c "$crate/src/c/qdisc.bpf.c" -o "$dir/debug.o"
tool "$root/usr/sbin/bpftool" gen object "$dir/qdisc.bpf.o" "$dir/debug.o"
if [ "${1:-}" = object ]; then
    cp "$dir/qdisc.bpf.o" "$crate/src/c/"
elif ! cmp "$dir/qdisc.bpf.o" "$crate/src/c/qdisc.bpf.o"; then
    echo "error: $crate/src/c/qdisc.bpf.o is not what its source compiles to;" \
        "\`scripts/kernel.sh object\` writes it" >&2
    exit 1
fi

cargo build --quiet -p millstream-bpf --features attach --example kernel_probe
target=${CARGO_TARGET_DIR:-target}/debug
if [ -z "${MILLSTREAM:-}" ]; then
    cargo build --quiet -p millstream-cli
    MILLSTREAM=$target/millstream
fi
probe=$target/examples/kernel_probe
# Without symbols, which the virtual machine's memory would hold.
for program in "$MILLSTREAM" "$probe"; do
    strip -o "$dir/$(basename "$program")" "$program"
done
files=("$dir/millstream" "$dir/kernel_probe" "$crate"/tests/kernel/*.toml)
# The programs' libraries, which may not be those of the unpacked release.
while read -r library; do
    files+=("$library")
done < <(ldd "$MILLSTREAM" "$probe" |
    awk '$3 ~ /^\// && !/libc.so|libm.so|ld-linux/ { print $3 }' | sort -u)

began=$SECONDS
scripts/kernel-boot.sh "$crate/tests/kernel/script.sh" "${files[@]}"
echo "the virtual machine ran for $((SECONDS - began)) s"

# Each log in the result is a line with its name, and base64.
rm -rf "$dir/logs"
mkdir -p "$dir/logs"
tr -d '\r' <"$dir/result" |
    awk -v dir="$dir/logs" '/^LOG / { name = $2; next } { print > (dir "/" name ".base64") }'
for scenario in "$crate"/tests/kernel/*.toml; do
    name=$(basename "$scenario" .toml)
    [ -s "$dir/logs/$name.base64" ] || continue
    base64 -d "$dir/logs/$name.base64" >"$dir/logs/$name.bin"
    echo "$name"
    [ "$name" != classes ] || "$probe" classes "$dir/logs/$name.bin"
    "$probe" replay "$scenario" "$dir/logs/$name.bin"
done
base64 -d "$dir/logs/change.base64" >"$dir/logs/change.bin"
"$probe" change "$dir/logs/change.bin"

# Voice waits as long as under CAKE, within a factor of 1.3, and loses no packet.
awk '
    /^(millstream |cake$)/ { qdisc = $0 }
    / under htb$/ { qdisc = "" }
    qdisc != "" && $1 == "voice:" {
        for (i = 1; i < NF; i++) if ($i == "p99") p99[qdisc] = $(i + 1)
        lost[qdisc] = $5 + 0
    }
    END {
        for (qdisc in p99) if (qdisc != "cake") {
            seen++
            if (lost[qdisc] > 0 || p99[qdisc] > 1.3 * p99["cake"]) {
                print "error: voice under " qdisc ": lost " lost[qdisc] ", p99 " p99[qdisc] " µs"
                exit 1
            }
        }
        if (seen != 2 || !("cake" in p99)) { print "error: a qdisc is missing"; exit 1 }
    }' "$dir/console"

# A sparse flow waits for at most two packets of the others, where CAKE's waits for one.
awk '
    /^sparse flow, / { qdisc = $3 }
    $1 == "sparse:" {
        for (i = 1; i < NF; i++) if ($i == "p99") p99[qdisc] = $(i + 1)
        lost[qdisc] = $5 + 0
    }
    END {
        ours = p99["millstream"]
        if (!ours || !p99["cake"]) { print "error: a qdisc is missing"; exit 1 }
        if (lost["millstream"] > 0 || ours > 2.2 * p99["cake"]) {
            print "error: sparse flow: lost " lost["millstream"] ", p99 " ours " µs"
            exit 1
        }
    }' "$dir/console"
echo "scripts/kernel.sh passed"
