# shellcheck shell=sh
# Runs in the virtual machine: see scripts/kernel.sh.
export LD_LIBRARY_PATH=/test:/lib
mkdir -p /run/netns
ip netns add b
ip link add v0 type veth peer name v1 netns b
echo 1 >/proc/sys/net/ipv6/conf/v0/disable_ipv6 || true
ip addr add 10.9.0.1/24 dev v0
ip netns exec b /sbin/ip addr add 10.9.0.2/24 dev v1
# A packet of many segments would hold the link for up to 26 ms.
ip link set v0 gso_max_segs 1
ip link set v0 up
ip netns exec b /sbin/ip link set v1 up
ip netns exec b /sbin/ip link set lo up

# Sets a map of one element to the contents of a file.
fill() {
    bpftool map update name "$1" key hex 00 00 00 00 value hex \
        $(hexdump -v -e '1/1 "%02x "' "$2")
}

# Attaches the qdisc with the maps of a scenario.
attach() {
    bpftool struct_ops register qdisc.bpf.o /sys/fs/bpf >/dev/null
    fill .data.config "$1.config"
    fill .data.rules "$1.rules"
    tc qdisc replace dev v0 root millstream
}

detach() {
    tc qdisc del dev v0 root
    bpftool struct_ops unregister name millstream >/dev/null
}

# Sends a stream's log to the host.
report_log() {
    echo "LOG $1" >/dev/ttyS1
    rm -f /sys/fs/bpf/log
    bpftool map pin name .data.log /sys/fs/bpf/log
    ./kernel_probe dump /sys/fs/bpf/log | base64 >/dev/ttyS1
    rm -f /sys/fs/bpf/log
}

for name in static-priority edf dwcs drr wf2q-plus; do
    echo "$name"
    attach "$name"
    ip netns exec b ./kernel_probe receive 5000 5 all >/dev/null &
    ./kernel_probe send 5000 3 1:214:10000 2:1214:4000:2 3:1514:1000 4:1514:600
    sleep 1
    tc -s qdisc show dev v0 | sed -n 2,3p
    report_log "$name"
    detach
done

# Voice beside two TCP connections and a flood of 30 Mbit/s: the scene of the kernel's own qdiscs.
scene() {
    echo "$1"
    ip netns exec b ./kernel_probe receive 6000 5 voice &
    ip netns exec b ./kernel_probe receive 5000 5 flood &
    receiver=$!
    ./kernel_probe tcp 7000 4 3 &
    ./kernel_probe tcp 7000 4 3 &
    ./kernel_probe send 5000 4 4:1514:400 >/dev/null &
    ./kernel_probe send 6000 4 1:214:5000
    wait $receiver
    sleep 1
}

ip netns exec b ./kernel_probe sink 7000 &
for name in scene-dwcs scene-wf2q-plus; do
    attach "$name"
    scene "millstream $name"
    report_log "$name"
    detach
done

tc qdisc replace dev v0 root cake bandwidth 20mbit overhead 38
scene cake
tc qdisc del dev v0 root

for leaf in fq_codel "pfifo limit 100"; do
    tc qdisc add dev v0 root handle 1: stab overhead 24 linklayer ethernet htb default 1
    tc class add dev v0 parent 1: classid 1:1 htb rate 20mbit burst 3000 cburst 3000
    # shellcheck disable=SC2086
    tc qdisc add dev v0 parent 1:1 $leaf
    scene "$leaf under htb"
    tc qdisc del dev v0 root
done
