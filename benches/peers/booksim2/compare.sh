#!/usr/bin/env bash
# Compares packet-hops per CPU second of BookSim2 and Millstream on one network at 80 % load.
# Usage: compare.sh BOOKSIM [MILLSTREAM] [TURNS]; BOOKSIM is the built program.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
booksim=${1:?"usage: compare.sh BOOKSIM [MILLSTREAM] [TURNS]"}
millstream=${2:-$here/../../../target/dist/millstream}
turns=${3:-3}
for program in "$booksim" "$millstream"; do
    if ! [ -x "$program" ]; then
        echo "error: $program is not executable; README.md has the build commands" >&2
        exit 2
    fi
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TIMEFORMAT='%U %S'

# CPU seconds of a command, user and system; its output goes to $scratch/out. BookSim's exit status
# is not 0 on success: its output decides.
seconds() {
    { time "$@" >"$scratch/out" 2>"$scratch/err" || true; } 2>&1 | awk '{ printf "%.3f", $1 + $2 }'
}

# Name, packet-hops, seconds.
row() {
    awk -v name="$1" -v hops="$2" -v seconds="$3" \
        'BEGIN { printf "%-12s %9d packet-hops %8.3f s %8.3f M packet-hops/s\n",
            name, hops, seconds, hops / seconds / 1e6 }'
}

for ((turn = 1; turn <= turns; turn++)); do
    theirs=$(seconds "$booksim" "$here/network.cfg")
    # Accepted packets of 64 end-points, times the switches of a path plus one link.
    theirs_hops=$(awk '
        /^Time taken is/ { cycles = $4 }
        /^Accepted packet rate average/ { rate = $6 }
        /^Hops average/ { hops = $4 }
        END { if (cycles && rate && hops) printf "%d", cycles * rate * 64 * (hops + 1) }' \
        "$scratch/out")
    if [ -z "$theirs_hops" ]; then
        echo "error: $booksim printed no statistics:" >&2
        tail -n 5 "$scratch/out" "$scratch/err" >&2
        exit 1
    fi
    row BookSim2 "$theirs_hops" "$theirs"
    ours=$(seconds "$millstream" run --json "$here/scenario.toml")
    ours_hops=$(awk -F '[:,]' '/"packet_hops"/ { printf "%d", $2 }' "$scratch/out")
    if [ -z "$ours_hops" ]; then
        cat "$scratch/err" >&2
        exit 1
    fi
    row Millstream "$ours_hops" "$ours"
    awk -v ours="$ours_hops" -v ours_s="$ours" -v theirs="$theirs_hops" -v theirs_s="$theirs" \
        'BEGIN { printf "ratio %.1f\n", ours / ours_s / (theirs / theirs_s) }'
done
