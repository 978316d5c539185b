#!/usr/bin/env bash
# Compares the media server with GStreamer's RTSP server: same media file, same receiver, one run.
# Prints a table.
# Usage: benches/peers/media.sh [CLIENTS...] (default: 10). As root it installs missing packages
# by apt.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=()
command -v ffmpeg >/dev/null || packages+=(ffmpeg)
python=/usr/bin/python3
"$python" -c 'import gi; gi.require_version("GstRtspServer", "1.0")' 2>/dev/null ||
    packages+=(python3-gi gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-{base,good,bad})
if [[ ${#packages[@]} -gt 0 ]]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${packages[@]}" >/dev/null
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A minute of about 1 Mbit/s; without B-frames the display order is the transmission order.
ffmpeg -v error -stream_loop -1 -i examples/data/clip.mpg -an -c:v libx264 -preset fast -bf 0 \
    -g 12 -b:v 1M -maxrate 1M -bufsize 500k -frames:v 1500 "$scratch/film.mp4"
cargo build --release --quiet -p millstream-cli
cargo bench --quiet --profile release -p millstream-media --bench peers -- \
    "$(realpath "${CARGO_TARGET_DIR:-target}")/release/millstream" "$scratch/film.mp4" \
    "$python" "$PWD/benches/peers/gst_rtsp.py" "${@:-10}"
