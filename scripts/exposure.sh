#!/usr/bin/env bash
# How exposed the shipped units are, by systemd-analyze security: 2.0 of 10 at most, each.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v systemd-analyze >/dev/null || {
    [ "$(id -u)" != 0 ] || { echo "error: no systemd-analyze here: scripts/test-tools.sh installs it" >&2; exit 1; }
    echo "systemd is not installed and only root can: the units were not examined"
    exit 0
}
for unit in examples/*/*.service; do
    # The program need not be installed.
    wrong=$(systemd-analyze verify --man=no "$unit" 2>&1 | grep -v 'is not executable' || true)
    [ -z "$wrong" ] || { echo "error: $wrong" >&2; exit 1; }
    # In tenths.
    if ! figures=$(systemd-analyze security --offline=true --threshold=20 "$unit"); then
        echo "$figures" >&2
        echo "error: $unit is more exposed than 2.0" >&2
        exit 1
    fi
    sed -n 's/^→ //p' <<<"$figures"
done
