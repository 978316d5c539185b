#!/usr/bin/env bash
# Compares the media server with MediaMTX, live555 and GStreamer beside a loaded web server: one
# table of lateness and CPU, and the verdicts on the goals. Writes target/bench-media.json. Needs
# root; as root it installs missing packages by apt. Takes at most two hours.
#
# Usage: bench-media.sh [OPTION...]: options of benches/peers/media.py. A small run of ten minutes:
# `--clients 10,100 --runs 1 --capacity 0`. MEDIAMTX=/path uses another build of MediaMTX. A peer
# that cannot be built or installed is left out, and named in the error with which the run ends.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/web-load-tools.sh
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
benches/peers/rtsp.sh "$target/peers" || echo "not every peer was built" >&2
missing=()
if ! /usr/bin/python3 -c 'import gi; gi.require_version("GstRtspServer", "1.0")' 2>/dev/null; then
    missing+=(gstreamer)
    echo "missing: GStreamer's RTSP server (gir1.2-gst-rtsp-server-1.0)" >&2
fi
if [[ ! -x $target/peers/live555_rtsp ]]; then
    missing+=(live555)
    echo "missing: live555" >&2
fi
if [[ ! -x ${MEDIAMTX:-$target/peers/mediamtx} ]]; then
    missing+=(mediamtx mediamtx-whep)
    echo "missing: MediaMTX; MEDIAMTX=/path names a program" >&2
fi
cargo build --release --quiet -p millstream-cli
cargo build --release --quiet -p millstream-player --examples
names=$(IFS=,; echo "${missing[*]}")
benches/peers/media.py "$target/bench-media.json" --missing "$names" "$@"
