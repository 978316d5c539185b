#!/usr/bin/env bash
# Measures the cost of a decision by structure and number of streams, and a run of ten million
# packets of 1,000 streams from a CSV file.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench --quiet -p millstream-benches --bench decision -- --quiet 2>/dev/null |
    grep -E "time:|^(dwcs|disciplines|tree)"
echo "32 decisions one by one and as a batch:"
cargo bench --quiet -p millstream-benches --bench batch
echo "instructions of a packet out and one in, in the release build:"
scripts/test-tools.sh
scripts/instructions.py --release
echo "a scenario file of a million streams:"
cargo bench --quiet -p millstream-benches --bench scenario
cargo bench --quiet -p millstream-router
cargo bench --quiet -p millstream-media --bench media
cargo build --profile dist --quiet -p millstream-cli
millstream=${CARGO_TARGET_DIR:-target}/dist/millstream
peers=${CARGO_TARGET_DIR:-target}/peers
benches/peers/build.sh "$(realpath -m "$peers")"
with_peers=()
for peer in "$peers"/*; do
    [[ -x $peer ]] && with_peers+=(--peer "$peer")
done
echo "DWCS, one packet out and one in, with peers:"
"$millstream" bench --work packet --missed 0 --streams 16,1024,4096 "${with_peers[@]}"
echo "DWCS, a decision and its updates, and a packet:"
"$millstream" bench --streams 4,16,64,256,1024,4096,16384,65536,1048576 --missed 0,10,50,63
"$millstream" bench --streams 16,1024,65536,1048576 --work sparse
echo "DWCS, many equal deadlines:"
"$millstream" bench --work decision --deadlines tied --streams 1024,65536,1048576
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
awk -v folder="$scratch" 'BEGIN {
    scenario = folder "/million.toml"
    print "[link]\nrate = \"10 Gbps\"\n[scheduler]\ndiscipline = \"dwcs\"" > scenario
    for (k = 0; k < 1000; k++)
        printf "[[stream]]\nname = \"s%d\"\nperiod = \"1 ms\"\nwindow = \"%d/%d\"\nqueue = 1000\n" \
            "source = { kind = \"trace\", file = \"a.csv\" }\n", k, k % 4, 4 + k % 5 > scenario
    csv = folder "/a.csv"
    print "time_ns,stream,bytes" > csv
    srand(1)
    for (k = 0; k < 10000000; k++)
        printf "%.0f,s%d,%d\n", k * 600, int(rand() * 1000), 64 + int(rand() * 1400) > csv
}'
echo "a network: sixteen TCP connections at 10 Gbit/s for 20 simulated seconds:"
/usr/bin/env time -f "%e s, %M KB at most" "$millstream" run benches/network.toml | tail -1
echo "ten million packets, four streams, report and table out:"
/usr/bin/env time -f "%e s, %U s on the processor, %M KB at most" \
    "$millstream" run benches/four.toml --report "$scratch/four.html" | tail -1
echo "ten million packets, 1,000 streams, CSV in, table out:"
start=$(date +%s.%N)
/usr/bin/env time -f "%M KB at most" "$millstream" run "$scratch/million.toml" \
    >"$scratch/table" 2>"$scratch/log" || { cat "$scratch/log"; exit 1; }
end=$(date +%s.%N)
tail -1 "$scratch/table"
tail -1 "$scratch/log"
awk -v a="$start" -v b="$end" \
    'BEGIN { printf "%.2f s, %.2f million packets/s\n", b - a, 10 / (b - a) }'
