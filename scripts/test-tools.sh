#!/usr/bin/env bash
# Installs the programs that the tests use: iproute2, ping, iperf3, a web server with a load
# generator, compilers of C and C++, pkg-config, valgrind, a player, and srt-live-transmit. As root,
# installs them by apt and neither starts nor enables a service. Without root, tests report the
# programs that they miss.
#
# Usage: test-tools.sh [browser | players | integrations]. `browser` also installs Chromium, for
# checks of pages; `players` the players of `make soak`, GStreamer, VLC, mpv and Chromium;
# `integrations` ns-3 and DPDK with their headers.
set -euo pipefail
packages=()
command -v ip >/dev/null || packages+=(iproute2)
command -v ping >/dev/null || packages+=(iputils-ping)
command -v ethtool >/dev/null || packages+=(ethtool)
command -v iperf3 >/dev/null || packages+=(iperf3)
command -v curl >/dev/null || packages+=(curl)
command -v nginx >/dev/null || packages+=(nginx)
command -v ab >/dev/null || packages+=(apache2-utils)
command -v clang >/dev/null || packages+=(clang)
command -v g++ >/dev/null || packages+=(g++)
command -v pkg-config >/dev/null || packages+=(pkg-config)
command -v ffmpeg >/dev/null || packages+=(ffmpeg)
command -v openssl >/dev/null || packages+=(openssl)
command -v srt-live-transmit >/dev/null || packages+=(srt-tools)
command -v valgrind >/dev/null || packages+=(valgrind)
command -v systemd-analyze >/dev/null || packages+=(systemd)
if [[ ${1:-} == browser || ${1:-} == players ]]; then
    command -v chromium >/dev/null || packages+=(chromium)
fi
if [[ ${1:-} == players ]]; then
    command -v cvlc >/dev/null || packages+=(vlc-bin vlc-plugin-base)
    command -v mpv >/dev/null || packages+=(mpv)
    command -v gst-launch-1.0 >/dev/null ||
        packages+=(gstreamer1.0-tools gstreamer1.0-plugins-{base,good,bad} gstreamer1.0-libav)
fi
if [[ ${1:-} == integrations ]]; then
    dpkg-query -W libns3-dev libgsl-dev >/dev/null 2>&1 || packages+=(libns3-dev libgsl-dev)
    pkg-config --exists libdpdk || packages+=(libdpdk-dev)
fi
if [[ ${#packages[@]} -gt 0 && $(id -u) == 0 ]]; then
    echo "installing ${packages[*]} with apt"
    apt-get update -qq
    # Debian runs this program to ask whether a package may start its service; 101 forbids it.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${packages[@]}" >/dev/null
    if [[ " ${packages[*]} " == *" nginx "* ]]; then
        # The service must not start at boot either.
        update-rc.d nginx disable >/dev/null 2>&1 || true
        if [[ -d /run/systemd/system ]]; then
            systemctl disable --quiet nginx
        fi
    fi
fi
