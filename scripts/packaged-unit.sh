#!/usr/bin/env bash
# Prints a systemd unit as the packages install it.
#
# Usage: packaged-unit.sh router | media
set -euo pipefail
cd "$(dirname "$0")/.."

# The package has a user for the services, who may own keys and certificates.
sed 's|/usr/local/bin/|/usr/bin/|; s|copy it to /etc/systemd/system, then|enable it by|
    s|DynamicUser makes its user|It runs as the user millstream|
    s|^DynamicUser=yes|User=millstream\nRemoveIPC=yes|' "examples/$1/millstream-$1.service"
