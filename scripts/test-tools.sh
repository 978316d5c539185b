#!/usr/bin/env bash
# What tests drive besides our own programs: network namespaces, ping, senders of TCP and UDP, a web server
# and its load, and a player. As root they are installed by apt, and no service is started or enabled;
# without root the tests that need them say so.
#
# Usage: test-tools.sh [players]. With `players` those of `make soak`, too: GStreamer, VLC and a browser.
set -euo pipefail
packages=()
command -v ip >/dev/null || packages+=(iproute2)
command -v ping >/dev/null || packages+=(iputils-ping)
command -v ethtool >/dev/null || packages+=(ethtool)
command -v iperf3 >/dev/null || packages+=(iperf3)
command -v curl >/dev/null || packages+=(curl)
command -v nginx >/dev/null || packages+=(nginx)
command -v ab >/dev/null || packages+=(apache2-utils)
command -v ffmpeg >/dev/null || packages+=(ffmpeg)
command -v openssl >/dev/null || packages+=(openssl)
command -v systemd-analyze >/dev/null || packages+=(systemd)
if [[ ${1:-} == players ]]; then
    command -v chromium >/dev/null || packages+=(chromium)
    command -v cvlc >/dev/null || packages+=(vlc-bin vlc-plugin-base)
    command -v gst-launch-1.0 >/dev/null ||
        packages+=(gstreamer1.0-tools gstreamer1.0-plugins-{base,good,bad} gstreamer1.0-libav)
fi
if [[ ${#packages[@]} -gt 0 && $(id -u) == 0 ]]; then
    echo "installing ${packages[*]} with apt"
    apt-get update -qq
    # Debian asks this program whether a package may start its service.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${packages[@]}" >/dev/null
    if [[ " ${packages[*]} " == *" nginx "* ]]; then
        # Nor when the machine starts.
        update-rc.d nginx disable >/dev/null 2>&1 || true
        if [[ -d /run/systemd/system ]]; then
            systemctl disable --quiet nginx
        fi
    fi
fi
