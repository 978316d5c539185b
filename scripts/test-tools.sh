#!/usr/bin/env bash
# What tests drive besides our own programs: network namespaces, ping, senders of TCP, UDP and HTTP, and
# players. As root they are installed by apt; without root the tests that need them say so.
set -euo pipefail
packages=()
command -v ip >/dev/null || packages+=(iproute2)
command -v ping >/dev/null || packages+=(iputils-ping)
command -v ethtool >/dev/null || packages+=(ethtool)
command -v iperf3 >/dev/null || packages+=(iperf3)
command -v curl >/dev/null || packages+=(curl)
command -v ffmpeg >/dev/null || packages+=(ffmpeg)
command -v cvlc >/dev/null || packages+=(vlc-bin vlc-plugin-base)
if ! command -v gst-launch-1.0 >/dev/null; then
    packages+=(gstreamer1.0-tools gstreamer1.0-plugins-{base,good,bad} gstreamer1.0-libav)
fi
if [[ ${#packages[@]} -gt 0 && $(id -u) == 0 ]]; then
    echo "installing ${packages[*]} with apt"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${packages[@]}" >/dev/null
fi
