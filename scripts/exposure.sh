#!/usr/bin/env bash
# Checks that `systemd-analyze security` rates the exposure of each unit at most 2.0 of 10: those of
# the examples, and those of the packages.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v systemd-analyze >/dev/null || {
        [ "$(id -u)" != 0 ] || {
            echo "error: systemd-analyze is missing: run scripts/test-tools.sh" >&2
            exit 1
        }
        echo "units NOT checked: systemd is not installed, and only root can install it"
    exit 0
}
packaged=$(mktemp -d)
trap 'rm -rf "$packaged"' EXIT
for name in router media; do
    scripts/packaged-unit.sh "$name" >"$packaged/millstream-$name.service"
done
for unit in examples/*/*.service "$packaged"/*.service; do
    # Ignores that the unit's program is not installed.
    wrong=$(systemd-analyze verify --man=no "$unit" 2>&1 | grep -v 'is not executable' || true)
    [ -z "$wrong" ] || { echo "error: $wrong" >&2; exit 1; }
    # The threshold is in tenths.
    if ! figures=$(systemd-analyze security --offline=true --threshold=20 "$unit"); then
        echo "$figures" >&2
        echo "error: $unit is more exposed than 2.0" >&2
        exit 1
    fi
    user=$(sed -n 's/^User=/, user /p' "$unit")
    sed -n "s/^→ \([^:]*\)/\1$user/p" <<<"$figures"
done
