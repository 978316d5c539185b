#!/usr/bin/env bash
# Tests `millstream attach` in a Linux kernel, in a virtual machine without KVM.
#
# Usage: kernel.sh [object] [quick]. `object` first writes the compiled qdisc that the program
# contains; otherwise, that file must be what the source compiles to. `quick` is the part of `make
# test`. MILLSTREAM and KERNEL_PROBE name programs that are already built.
#
# Every discipline schedules an overloaded link of 20 Mbit/s. The qdisc logs its events: the engine
# must make the same decisions at the same times. Then voice shares the link with TCP and a flood,
# and a sparse flow a stream with TCP, under the qdisc and under the kernel's own. The machine's
# time is that of its instructions, so the delays do not depend on the load of the host.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
source scripts/setup.sh
scripts/kernel-packages.sh
dir="$PWD/target/kernel"
root="$dir/root"
tool="$dir/tool"
crate=crates/millstream-bpf
writes_object=
part=all
for argument in "$@"; do
    case $argument in
    object) writes_object=yes ;;
    quick) part=quick ;;
    *)
        echo "error: the argument $argument; expected object or quick" >&2
        exit 2
        ;;
    esac
done

# The object that the program contains has the types of BTF and no debug information, so it does not
# depend on the directory. Nor does it depend on the kernel: see kernel.h.
llvm="$root/usr/lib/llvm-19"
"$tool" "$llvm/bin/clang" -O2 -g -gno-column-info -Wall -Werror -target bpf -D__TARGET_ARCH_x86 \
    -ffile-prefix-map="$PWD=." -resource-dir "$llvm/lib/clang/19" \
    -isystem "$root/usr/include" -isystem "$root/usr/include/x86_64-linux-gnu" \
    -c "$crate/src/c/qdisc.bpf.c" -o "$dir/debug.o"
"$tool" "$root/usr/sbin/bpftool" gen object "$dir/qdisc.bpf.o" "$dir/debug.o"
if [ -n "$writes_object" ]; then
    cp "$dir/qdisc.bpf.o" "$crate/src/c/"
elif ! cmp "$dir/qdisc.bpf.o" "$crate/src/c/qdisc.bpf.o"; then
    echo "error: $crate/src/c/qdisc.bpf.o is not what its source compiles to;" \
        "\`scripts/kernel.sh object\` writes it" >&2
    exit 1
fi

target=${CARGO_TARGET_DIR:-target}/debug
if [ -z "${KERNEL_PROBE:-}" ]; then
    cargo build --quiet -p millstream-bpf --features attach --example kernel_probe
    KERNEL_PROBE=$target/examples/kernel_probe
fi
if [ -z "${MILLSTREAM:-}" ]; then
    cargo build --quiet -p millstream-cli
    MILLSTREAM=$target/millstream
fi
# Without symbols, which the virtual machine's memory would hold.
strip -o "$dir/millstream" "$MILLSTREAM"
strip -o "$dir/kernel_probe" "$KERNEL_PROBE"
echo "PART=$part" >"$dir/settings"
files=("$dir/settings" "$dir/millstream" "$dir/kernel_probe" "$crate"/tests/kernel/*.toml)
# The programs' libraries, which may not be those of the unpacked release.
while read -r library; do
    files+=("$library")
done < <(ldd "$MILLSTREAM" "$KERNEL_PROBE" |
    awk '$3 ~ /^\// && !/libc.so|libm.so|ld-linux/ { print $3 }' | sort -u)

# The scene's contracts are those that `check` guarantees, so that a violation is an error.
"$MILLSTREAM" check "$crate/tests/kernel/scene-dwcs.toml" | tee "$dir/check" |
    grep '^guaranteed by EDF demand criterion' || {
    cat "$dir/check"
    echo "error: check does not guarantee the windows of scene-dwcs.toml"
    exit 1
}

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
    [ "$name" != classes ] || "$KERNEL_PROBE" classes "$dir/logs/$name.bin"
    "$KERNEL_PROBE" replay "$scenario" "$dir/logs/$name.bin"
done
base64 -d "$dir/logs/change.base64" >"$dir/logs/change.bin"
"$KERNEL_PROBE" change "$dir/logs/change.bin" "$dir/logs/drr.bin"

# Voice loses no packet, and the median of its p99 is at most 1.3 times that of CAKE.
awk '
    /^(millstream |cake$)/ { qdisc = $0 }
    / under htb$/ { qdisc = "" }
    qdisc != "" && $1 == "voice:" {
        for (i = 1; i < NF; i++) if ($i == "p99") p99[qdisc, count[qdisc]++] = $(i + 1)
        lost[qdisc] += $5
    }
    function median(qdisc, n, i, j, below, above) {
        n = count[qdisc]
        for (i = 0; i < n; i++) {
            below = above = 0
            for (j = 0; j < n; j++) {
                below += p99[qdisc, j] < p99[qdisc, i]
                above += p99[qdisc, j] > p99[qdisc, i]
            }
            if (below <= n / 2 && above <= n / 2) return p99[qdisc, i]
        }
    }
    END {
        for (qdisc in count) if (qdisc != "cake") {
            seen++
            p = median(qdisc)
            print qdisc ": lost " lost[qdisc] ", p99 " p " µs; cake: p99 " median("cake")
            if (lost[qdisc] > 0 || p > 1.3 * median("cake")) failed = 1
        }
        if (failed) print "error: voice waits longer than 1.3 times that of CAKE, or loses packets"
        if (seen != 2 || !("cake" in count)) { print "error: a qdisc is missing"; failed = 1 }
        exit failed
    }' "$dir/console"

# A sparse flow waits for at most two packets of the others, where CAKE's waits for one.
[ "$part" = quick ] || awk '
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
