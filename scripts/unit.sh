#!/usr/bin/env bash
# Tests the systemd units under a separate systemd: those of the examples, which have a dynamic
# user, and those of the packages, which run as the user millstream. The router starts with every
# kind of port, drops its privileges, reloads its file, and stops cleanly. The media server starts a
# data plane process, drops its privileges, and restarts the data plane after a kill.
#
# Usage: unit.sh. MILLSTREAM=PATH selects a program instead of building one.
#
# This systemd runs in separate namespaces, including the network, and starts only these units. It
# sees the machine's files. Needs root, systemd and the programs of scripts/test-tools.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

inside() {
    local folder=$1 units=/run/systemd/system name
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 tmpfs /run
    # Mounts /sys again: it then shows this network namespace and these control groups.
    umount -l /sys
    mount -t sysfs sysfs /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir -p "$units" /run/millstream
    # Creates /dev/net/tun with the mode that udev sets.
    mknod -m 666 /run/tun c 10 200
    mount --bind /run/tun /dev/net/tun
    cp "$MILLSTREAM" /run/millstream/millstream
    cp "$folder"/*.toml examples/data/clip.mpg /run/millstream/
    # The package creates this user.
    cp /etc/passwd /etc/group /run/
    echo "millstream:x:$PACKAGE_ID:$PACKAGE_ID::/var/lib/millstream:/usr/sbin/nologin" >>/run/passwd
    echo "millstream:x:$PACKAGE_ID:" >>/run/group
    for name in passwd group; do mount --bind "/run/$name" "/etc/$name"; done
    for name in router media; do
        sed 's|/usr/\(local/\)\?bin/millstream|/run/millstream/millstream|
            s|/etc/millstream/|/run/millstream/|' \
            "$folder/millstream-$name.service" >"$units/millstream-$name.service"
        mkdir -p "$units/millstream-$name.service.d"
        printf '%s\n' '[Unit]' 'DefaultDependencies=no' '[Service]' \
            "StandardError=file:$folder/$name.log" \
            "StandardOutput=file:$folder/$name.out" >"$units/millstream-$name.service.d/test.conf"
    done
    # If root may not raise limits here, systemd cannot either. The router then needs CAP_IPC_LOCK
    # to lock memory.
    $RAISES || printf '%s\n' \
        'AmbientCapabilities=CAP_IPC_LOCK' 'CapabilityBoundingSet=CAP_IPC_LOCK' \
        >>"$units/millstream-router.service.d/test.conf"
    printf '%s\n' '[Unit]' 'DefaultDependencies=no' \
        'Wants=millstream-router.service millstream-media.service' \
        >"$units/only.target"
    ip link set lo up
    for device in a b; do
        ip link add "${device}0" type veth peer name "${device}1"
        ip link set "${device}0" up
        ip link set "${device}1" up
    done
    container=other exec /lib/systemd/systemd --system --unit=only.target --log-target=console
}

# The user millstream of the packages, outside the range of dynamic users.
export PACKAGE_ID=59999

if [ "${1:-}" = inside ]; then
    inside "$2"
fi

fail() {
    echo "error: the unit of the $origin: $1" >&2
    tail -n 20 "$folder"/{systemd,router.log,media.log} >&2
    exit 1
}

scripts/test-tools.sh
for needed in systemctl unshare nsenter pgrep; do
    command -v "$needed" >/dev/null || {
        echo "error: $needed is missing: install systemd" >&2
        exit 1
    }
done
scripts/exposure.sh
if [ -z "${MILLSTREAM:-}" ]; then
    cargo build --release --quiet -p millstream-cli
    MILLSTREAM=${CARGO_TARGET_DIR:-target}/release/millstream
fi
RAISES=true
(ulimit -l unlimited) 2>/dev/null || RAISES=false
export MILLSTREAM RAISES

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
cat >"$folder/media.toml" <<'TOML'
[scenario]
duration = "1 h"
[media]
listen = "127.0.0.1:8554"
http = "127.0.0.1:9815"
placement = "ni"
socket = "/run/millstream-media/processor"
[link]
rate = "20 Mbps"
[scheduler]
discipline = "dwcs"
[[stream]]
name = "clip"
period = "40 ms"
first-deadline = "200 ms"
late = "drop"
source = { kind = "mpeg", file = "clip.mpg", repeat = true }
TOML

# Starts the separate systemd with the units in the folder.
start() {
    unshare --mount --pid --fork --uts --ipc --net --cgroup --mount-proc --kill-child \
        "scripts/unit.sh" inside "$folder" >"$folder/systemd" 2>&1 </dev/null &
    outside=$!
    disown "$outside"
}

# Waits up to ten seconds for a line in a log.
logged() {
    local tries=100
    until grep -q "$2" "$folder/$1.log" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "the log of $1 does not say \"$2\""
        sleep 0.1
    done
}
within() { nsenter --target "$(pgrep -P "$outside")" --mount --pid --net --cgroup "$@"; }
# Checks that process $2 of unit $1 runs as the user of the units with effective capabilities $3,
# bounding set $4, no_new_privs and a seccomp filter.
confined() {
    local status wanted
    status=$(within cat "/proc/$2/status")
    for wanted in "Uid:.\+$user" "CapEff:.0*$3" "CapPrm:.0*$3" "CapBnd:.0*$4" \
        'NoNewPrivs:.1' 'Seccomp:.2'; do
        grep -q "^$wanted\>" <<<"$status" ||
            fail "$1: expected $wanted, got $(grep "^${wanted%%:*}:" <<<"$status")"
    done
}
main() { within systemctl show --property MainPID --value "millstream-$1"; }
stops() {
    within systemctl stop "millstream-$1"
    result=$(within systemctl show --property Result --value "millstream-$1")
    [ "$result" = success ] || fail "$1 ended by $result"
}

check_router() {
    logged router "ports are open ports=4"
    # CAP_NET_RAW. The bounding set also has CAP_BPF and CAP_NET_ADMIN; no_new_privs makes it void.
    if $RAISES; then
        confined router "$(main router)" 2000 8000003000
    else
        echo "limits cannot be raised here: the router keeps CAP_IPC_LOCK, the media server's" \
            "data plane has no real-time priority"
        confined router "$(main router)" 6000 8000007000
    fi
    within curl --silent --fail --output /dev/null http://127.0.0.1:9814/status ||
        fail "the router does not answer"
    within systemctl reload millstream-router
    logged router "the configuration was reloaded"
    stops router
    logged router "the router has stopped unaccounted=0"
}

check_media() {
    logged media "data plane: process"
    within curl --silent --fail --output /dev/null http://127.0.0.1:9815/status ||
        fail "the media server does not answer"
    processor=$(within pgrep -P "$(main media)")
    for process in "$(main media)" "$processor"; do confined media "$process" 0 0; done
    ! grep "not limited" "$folder/media.log" || fail "the media server is not confined"
    ! $RAISES || ! grep "not pinned\|no real-time\|not locked" "$folder/media.log" ||
        fail "the data plane lacks a privilege"
    # The data plane runs under SCHED_FIFO, at its lowest priority.
    ! $RAISES || [ "$(within awk '{ print $40, $41 }' "/proc/$processor/stat")" = "1 1" ] ||
        fail "the data plane is not a real-time process"
    within kill -9 "$processor"
    logged media "starting another"
    for _ in {1..100}; do
        another=$(within pgrep -P "$(main media)") && break || sleep 0.1
    done
    sleep 0.5
    confined media "$another" 0 0
    within curl --silent --fail --output /dev/null http://127.0.0.1:9815/status ||
        fail "the media server does not answer after the restart of its data plane"
    stops media
}

for origin in examples packages; do
    for name in router media; do
        rm -f "$folder/$name".{log,out}
        case $origin in
            examples)
                cp "examples/$name/millstream-$name.service" "$folder/"
                user='6[0-9]\{4\}'
                ;;
            packages)
                scripts/packaged-unit.sh "$name" >"$folder/millstream-$name.service"
                user=$PACKAGE_ID
                ;;
        esac
    done
    start
    check_router
    check_media
    kill -9 "$outside"
    outside=
    echo "the units of the $origin started, were confined, reloaded and stopped"
done
