#!/usr/bin/env bash
# Installs what comparisons of media servers beside a loaded web server use: nginx, wrk and ffmpeg.
# Installs missing packages by apt, as root.
set -euo pipefail
packages=()
command -v nginx >/dev/null || packages+=(nginx-light)
command -v wrk >/dev/null || packages+=(wrk)
command -v ffmpeg >/dev/null || packages+=(ffmpeg)
if [[ ${#packages[@]} -gt 0 ]]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${packages[@]}" >/dev/null
fi
