#!/usr/bin/env bash
# Runs fuzz targets (default: each) for SECONDS_EACH seconds (default 300). Needs a nightly toolchain.
# Usage: scripts/fuzz.sh [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-300}
if ! command -v cargo-fuzz >/dev/null; then
    cargo install cargo-fuzz --locked --quiet --root target/tools
    export PATH="$PWD/target/tools/bin:$PATH"
fi

# What each target starts from: the repository's own files.
seed() {
    local folder="fuzz/corpus/$1"
    shift
    mkdir -p "$folder"
    local file
    for file in "$@"; do
        head -c 20000 "$file" >"$folder/$(echo "$file" | tr / -)"
    done
}
seed scenario examples/*/scenario.toml papers/*/*.toml conformance/traces/*/scenario.toml
seed router examples/router/router.toml
seed packet examples/data/uplink.pcap
seed segments examples/data/uplink.pcap
seed machine examples/data/uplink.pcap
seed extension examples/router/mark.wasm
seed csv conformance/traces/*/arrivals.csv
seed capture examples/data/uplink.pcap
seed mpeg examples/data/clip.mpg
seed transport_stream examples/data/clip.mpg

sed '/name = "wan"/a address = "10.2.0.9/24"\
nat = { flows = 9, host-flows = 2, forward = [{ protocol = "tcp", port = 80, to = "10.1.0.5:80" }] }' \
    examples/router/router.toml >fuzz/corpus/router/nat
mkdir -p fuzz/corpus/requests
printf '%s\r\n' 'SETUP rtsp://h/film/video RTSP/1.0' 'CSeq: 1' \
    'Transport: RTP/AVP;unicast;client_port=5000-5001' '' >fuzz/corpus/requests/setup
mkdir -p fuzz/corpus/credentials
printf '%s\r\n' 'DESCRIBE rtsp://h/film?token=x RTSP/1.0' 'CSeq: 1' '' >fuzz/corpus/credentials/token
printf '%s\r\n' 'DESCRIBE rtsp://h/film RTSP/1.0' 'CSeq: 1' \
    'Authorization: Digest username="a", realm="millstream", nonce="0", uri="rtsp://h/film", qop=auth, nc=00000001, cnonce="c", response="00000000000000000000000000000000"' '' >fuzz/corpus/credentials/digest

targets=("$@")
[[ $# -gt 0 ]] || mapfile -t targets < <(cargo fuzz list)
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    cargo +nightly fuzz run --release "$target" -- -max_total_time="$seconds" -rss_limit_mb=4096 \
        -max_len=40000 -print_final_stats=1
done
