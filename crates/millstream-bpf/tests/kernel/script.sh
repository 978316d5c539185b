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

echo 1 >/proc/sys/kernel/bpf_stats_enabled

# Attaches the qdisc with a scenario, or changes it to the scenario.
attach() {
    ./kernel_probe attach v0 qdisc.bpf.o "$1.toml"
}

detach() {
    ./kernel_probe detach v0
}

# Prints the time of the qdisc's programs: at 2 ns an instruction, their instructions.
report_cost() {
    for program in ms_enqueue ms_dequeue; do
        bpftool prog show name $program |
            awk -v name=$program '{ for (i = 1; i < NF; i++) field[$i] = $(i + 1) }
                END { printf "  %s: %.0f ns, %d runs, %s bytes of BPF, jited %s\n", name,
                    field["run_time_ns"] / field["run_cnt"], field["run_cnt"],
                    field["xlated"], field["jited"] }'
    done
}

# Sends the log to the host.
report_log() {
    echo "LOG $1" >/dev/ttyS1
    ./kernel_probe dump /sys/fs/bpf/millstream/v0/log | base64 >/dev/ttyS1
}

mkdir /sys/fs/bpf/verified
bpftool -d struct_ops register qdisc.bpf.o /sys/fs/bpf/verified 2>&1 | grep -E "processed|BEGIN"
rm -r /sys/fs/bpf/verified
echo classes
echo 0 >/proc/sys/net/ipv6/conf/v0/disable_ipv6
ip addr add fd00::1/64 dev v0 nodad
ip netns exec b /sbin/ip addr add fd00::2/64 dev v1 nodad
ip netns exec b /sbin/ip addr add 10.9.0.200/24 dev v1
attach classes
# A second interface has a qdisc of its own; one whose qdisc cannot be attached has no pins.
ip link add v2 type veth peer name v3
./kernel_probe attach v2 qdisc.bpf.o edf.toml
! ./kernel_probe attach v2 qdisc.bpf.o drr.toml
./kernel_probe detach v2
ip link del v2
! ./kernel_probe attach v2 qdisc.bpf.o drr.toml
! ./kernel_probe detach v2
./kernel_probe datagrams 10.9.0.2:7000 0 46 0 0 1
./kernel_probe datagrams 10.9.0.2:7001 0 0 0 0 2
./kernel_probe datagrams 10.9.0.200:7000 0 0 0 0 3
./kernel_probe datagrams "[fd00::2]:7000" 0 0 0 0 4
./kernel_probe datagrams 10.9.0.2:7000 7100 0 0 0 5
./kernel_probe datagrams 10.9.0.2:7000 0 0 $((0x1ab)) 0 6
./kernel_probe datagrams 10.9.0.2:7000 0 0 0 6 7
./kernel_probe datagrams 10.9.0.2:7000 0 0 0 3 8
sleep 1
report_log classes
detach
echo 1 >/proc/sys/net/ipv6/conf/v0/disable_ipv6

for name in static-priority edf dwcs drr wf2q-plus; do
    echo "$name"
    attach "$name"
    ip netns exec b ./kernel_probe receive 5000 3 all >/dev/null &
    ./kernel_probe send 5000 2 1:214:10000 2:1214:4000:2 3:1514:1000 4:1514:600
    sleep 1
    tc -s qdisc show dev v0 | sed -n 2,3p
    report_cost
    report_log "$name"
    detach
done

# The quanta of bulk and flood are exchanged under traffic.
echo change
attach drr
ip netns exec b ./kernel_probe receive 5000 3 all >/dev/null &
./kernel_probe send 5000 2 1:214:10000 3:1514:800 4:1514:800 >/dev/null &
sender=$!
sleep 1
attach drr-exchanged
wait $sender
sleep 1
./kernel_probe status v0
report_log change
detach

# Voice beside two TCP connections and a flood of 30 Mbit/s: the scene of the kernel's own qdiscs.
scene() {
    echo "$1"
    ip netns exec b ./kernel_probe receive 6000 4 voice &
    voice=$!
    ip netns exec b ./kernel_probe receive 5000 4 flood &
    flood=$!
    sleep 0.3
    ./kernel_probe tcp 7000 3 3 &
    ./kernel_probe tcp 7000 3 3 &
    ./kernel_probe send 5000 3 4:1514:400 >/dev/null &
    ./kernel_probe send 6000 3 1:214:3000
    wait $voice $flood
}

ip netns exec b ./kernel_probe sink 7000 &
for name in scene-dwcs scene-wf2q-plus; do
    attach "$name"
    scene "millstream $name"
    report_cost
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

# The interface goes away while packets wait.
attach dwcs
./kernel_probe send 5000 1 3:1514:500 4:1514:500 >/dev/null &
sender=$!
sleep 0.5
ip link del v0
wait $sender || true
detach
# The kernel frees programs and maps a moment later.
sleep 1
! bpftool prog show name ms_dequeue >/dev/null 2>&1
echo "deleted the interface"
