#!/usr/bin/env bash
# Builds the RTSP servers that no Debian package has, from their sources in package registries:
# live555 2024.06.26 (in the source distribution of liblivemedia 1.0.5, PyPI) and MediaMTX v1.12.3
# (a Go module). Installs GStreamer's RTSP server by apt.
#
# MediaMTX's release embeds two generated files: its version, and a script for browsers that HLS
# uses. The module lacks both. The version is written here; the script is left empty, since HLS is
# switched off.
#
# Usage: rtsp.sh [DIRECTORY]. DIRECTORY (default target/peers) gets live555_rtsp and mediamtx.
set -euo pipefail
cd "$(dirname "$0")"
live555=1.0.5 mediamtx=v1.12.3
folder=$(realpath -m "${1:-../../target/peers}")
mkdir -p "$folder"
if ! /usr/bin/python3 -c 'import gi; gi.require_version("GstRtspServer", "1.0")' 2>/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-gi \
        gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-{base,good,bad} >/dev/null
fi
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
if [[ ! -x $folder/live555_rtsp ]]; then
    python3 -m pip download --quiet --disable-pip-version-check --no-deps \
        --no-binary liblivemedia -d "$scratch" "liblivemedia==$live555"
    tar -xzf "$scratch/liblivemedia-$live555.tar.gz" -C "$scratch"
    parts=("$scratch/liblivemedia-$live555"/{liveMedia,groupsock}
        "$scratch/liblivemedia-$live555"/{BasicUsageEnvironment,UsageEnvironment})
    flags=(-O2 -w -DSOCKLEN_T=socklen_t -DNO_OPENSSL=1 "${parts[@]/%//include}")
    flags=("${flags[@]/#$scratch/-I$scratch}")
    shopt -s nullglob
    sources=()
    for part in "${parts[@]}"; do
        sources+=("$part"/*.c "$part"/*.cpp)
    done
    objects=()
    for source in "${sources[@]}" live555_rtsp.cpp; do
        object=$scratch/$(basename "$source").o
        case $source in
            *.c) cc "${flags[@]}" -c "$source" -o "$object" ;;
            *) c++ -std=c++20 "${flags[@]}" -c "$source" -o "$object" ;;
        esac
        objects+=("$object")
    done
    c++ "${objects[@]}" -o "$folder/live555_rtsp"
fi
if [[ ! -x $folder/mediamtx ]]; then
    module=github.com/bluenviron/mediamtx
    (cd "$scratch" && go mod download "$module@$mediamtx")
    cp -r "$(go env GOMODCACHE)/$module@$mediamtx" "$scratch/mediamtx"
    chmod -R u+w "$scratch/mediamtx"
    echo "$mediamtx" >"$scratch/mediamtx/internal/core/VERSION"
    : >"$scratch/mediamtx/internal/servers/hls/hls.min.js"
    (cd "$scratch/mediamtx" && go build -o "$folder/mediamtx" .)
fi
