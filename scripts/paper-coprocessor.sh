#!/usr/bin/env bash
# Measures the Co-processor paper on this machine: its tables, then the live server beside a loaded
# web server, by placement and scheduling class of its data plane, and other RTSP servers in the
# same rounds. Writes papers/coprocessor/measured and the page. Needs root; as root it installs
# missing packages by apt. Takes about an hour.
#
# Usage: paper-coprocessor.sh [OPTION...]: options of papers/coprocessor/live.py. `--resume` keeps
# the finished runs; `--only-live` (first) skips the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
only_live=
if [[ ${1:-} == --only-live ]]; then
    only_live=1
    shift
fi
scripts/web-load-tools.sh
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
benches/peers/rtsp.sh "$target/peers"
cargo build --release --quiet -p millstream-cli -p millstream-papers
cargo build --release --quiet -p millstream-player --example clients
measured=$PWD/papers/coprocessor/measured
if [[ -z $only_live ]]; then
    "$target/release/millstream-papers" --coprocessor
    cargo bench --quiet --profile release -p millstream-media --bench coprocessor -- "$measured"
fi
MILLSTREAM=$target/release/millstream CLIENTS=$target/release/examples/clients \
    python3 papers/coprocessor/live.py "$measured/live.csv" "$@"
"$target/release/millstream-papers" --redraw coprocessor
