#!/usr/bin/env bash
# The router's unit under a systemd: it starts with every kind of port, has given up what it should, reads its file
# again, and stops in order.
#
# That systemd has namespaces of its own, of the network, too, and starts nothing else; of the machine it sees the files.
# As root; needs systemd and what scripts/test-tools.sh installs.
set -euo pipefail
cd "$(dirname "$0")/.."

inside() {
    local folder=$1 unit=/run/systemd/system/millstream-router.service device
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 tmpfs /run
    # Of this network, and of these control groups.
    umount -l /sys
    mount -t sysfs sysfs /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir -p /run/systemd/system "$unit.d" /run/millstream
    # As udev leaves it.
    mknod -m 666 /run/tun c 10 200
    mount --bind /run/tun /dev/net/tun
    cp "${CARGO_TARGET_DIR:-target}/release/millstream" /run/millstream/
    cp "$folder/router.toml" /run/millstream/
    sed 's|/usr/local/bin/|/run/millstream/|; s|/etc/millstream/|/run/millstream/|' \
        examples/router/millstream-router.service >"$unit"
    printf '%s\n' '[Unit]' 'DefaultDependencies=no' '[Service]' "StandardError=file:$folder/log" \
        "StandardOutput=file:$folder/out" >"$unit.d/test.conf"
    printf '%s\n' '[Unit]' 'DefaultDependencies=no' 'Wants=millstream-router.service' \
        >/run/systemd/system/only.target
    ip link set lo up
    for device in a b; do
        ip link add "${device}0" type veth peer name "${device}1"
        ip link set "${device}0" up
        ip link set "${device}1" up
    done
    container=other exec /lib/systemd/systemd --system --unit=only.target --log-target=console
}

if [ "${1:-}" = inside ]; then
    inside "$2"
fi

fail() {
    echo "error: the unit: $1" >&2
    tail -n 20 "$folder"/{systemd,log} >&2
    exit 1
}

scripts/test-tools.sh
for needed in systemctl unshare nsenter; do
    command -v "$needed" >/dev/null || { echo "error: no $needed here: install systemd" >&2; exit 1; }
done
cargo build --release --quiet -p millstream-cli
# The program need not be installed.
wrong=$(systemd-analyze verify --man=no examples/router/millstream-router.service 2>&1 | grep -v 'is not executable' || true)
[ -z "$wrong" ] || { echo "error: $wrong" >&2; exit 1; }

folder=$(mktemp -d)
outside=
trap '[ -z "$outside" ] || kill -9 "$outside" 2>/dev/null || true; rm -rf "$folder"' EXIT
chmod 755 "$folder"
cat >"$folder/router.toml" <<'TOML'
[router]
status = "127.0.0.1:9814"
[[port]]
name = "a1"
kind = "interface"
io = "xdp"
rate = "1 Gbps"
address = "10.1.0.1/24"
[[port]]
name = "b1"
kind = "interface"
io = "packet"
rate = "1 Gbps"
[[port]]
name = "tap1"
kind = "tap"
rate = "1 Gbps"
mac = "02:00:00:00:00:01"
[[port]]
name = "tun1"
kind = "tun"
rate = "1 Gbps"
[[path]]
name = "all"
TOML
unshare --mount --pid --fork --uts --ipc --net --cgroup --mount-proc --kill-child \
    "scripts/unit.sh" inside "$folder" >"$folder/systemd" 2>&1 </dev/null &
outside=$!
disown "$outside"

# What is in the log within ten seconds.
logged() {
    local tries=100
    until grep -q "$1" "$folder/log" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "its log does not say \"$1\""
        sleep 0.1
    done
}
within() { nsenter --target "$(pgrep -P "$outside")" --mount --pid --net --cgroup "$@"; }

logged "ports are open ports=4"
router=$(within systemctl show --property MainPID --value millstream-router)
status=$(within cat "/proc/$router/status")
grep -q "^Uid:.\+6[0-9]\{4\}" <<<"$status" || fail "it runs as: $(grep ^Uid <<<"$status")"
# CAP_NET_RAW and CAP_IPC_LOCK.
grep -q "^CapEff:.0*6000$" <<<"$status" || fail "it keeps: $(grep ^CapEff <<<"$status")"
within curl --silent --fail --output /dev/null http://127.0.0.1:9814/status || fail "it does not answer"
within systemctl reload millstream-router
logged "the file was read again"
within systemctl stop millstream-router
logged "the router has ended unaccounted=0"
result=$(within systemctl show --property Result --value millstream-router)
[ "$result" = success ] || fail "it ended by $result"
echo "the unit started, was reloaded and stopped"
