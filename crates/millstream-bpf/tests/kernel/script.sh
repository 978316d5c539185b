# shellcheck shell=sh
# Runs in the virtual machine: see scripts/kernel.sh. Loading the qdisc takes most of the time, so
# some parts share an attached one.
# shellcheck source=/dev/null
. ./settings
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

# Attaches the qdisc with a scenario, or changes it to the scenario; it then logs its events.
attach() {
    ./millstream attach v0 "$1.toml"
    ./kernel_probe log v0
}

detach() {
    ./millstream detach v0
}

# Succeeds if a command fails with a message that contains the words.
fails() {
    words=$1
    shift
    if "$@" 2>messages; then
        echo "error: $* succeeded"
        return 1
    fi
    # Messages are wrapped.
    if ! sed 's/│//' messages | tr -s '\n ' ' ' | grep -q "$words"; then
        cat messages
        return 1
    fi
}

# Sends datagrams, each number of them for one stream of classes.toml.
send_datagrams() {
    ./kernel_probe datagrams 10.9.0.2:7000 0 34 0 1
    ./kernel_probe datagrams 10.9.0.2:7001 0 0 0 2
    ./kernel_probe datagrams 10.9.0.200:7000 0 0 0 3
    ./kernel_probe datagrams "[fd00::2]:7000" 0 0 0 4
    ./kernel_probe datagrams 10.9.0.2:7000 7100 0 0 5
    ./kernel_probe datagrams 10.9.0.2:7000 0 0 $((0x1ab)) 6
    ./kernel_probe datagrams 10.9.0.2:7000 0 0 3 7
    # A process of a cgroup below the one that is matched.
    (
        echo 0 >/sys/fs/cgroup/calls.slice/one/cgroup.procs
        ./kernel_probe datagrams 10.9.0.2:7000 0 0 0 8
    )
    ./kernel_probe datagrams 10.9.0.2:7002 0 0 0 9
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

echo 0 >/proc/sys/net/ipv6/conf/v0/disable_ipv6
ip addr add fd00::1/64 dev v0 nodad
ip netns exec b /sbin/ip addr add fd00::2/64 dev v1 nodad
ip netns exec b /sbin/ip addr add 10.9.0.200/24 dev v1

# HTB takes the commands of each scenario, and classifies as the qdisc does.
echo "via tc"
fails "tc does not match .cgroup" ./millstream attach v0 classes.toml --via tc
fails "cgroup /sys/fs/cgroup/calls.slice: No such file" ./millstream attach v0 classes.toml
mkdir -p /sys/fs/cgroup/calls.slice/one
mv classes.toml classes-cgroup
sed -E 's|(cgroup\|filter) = .*"|mark = 77|' classes-cgroup >classes.toml
scenarios="tc.toml scene-dwcs.toml"
[ "$PART" = quick ] || scenarios=$(ls ./*.toml)
for scenario in $scenarios; do
    ./millstream attach v0 "$scenario" --via tc >commands
    tc qdisc show dev v0 root | grep -q "htb 4d53:"
done
fails "no qdisc of Millstream is attached to v0" ./millstream attach v0 --status
./millstream attach v0 classes.toml --via tc --gso-max-segs 1 >commands
send_datagrams
sleep 1
tc -s class show dev v0 | awk '
    /^class/ { minor = $3; sub(".*:", "", minor) }
    /^ Sent/ { sent[minor] = $4 }
    END {
        counts = sent[10] " " sent[11] " " sent[12] " " sent[13] " " sent[14] " " sent[15]
        print "  packets by class: " counts
        exit counts != "1 2 3 4 5 6"
    }'
./millstream detach v0
if tc qdisc show dev v0 root | grep -q htb; then exit 1; fi

echo classes
mv classes-cgroup classes.toml
attach classes
bpftool prog show name ms_dequeue
# The qdisc has no memory but its maps, with 24 bytes for each of at most 16,384 packets.
bpftool map show | awk '{ for (i = 1; i < NF; i++) if ($i == "memlock") sum += $(i + 1) }
    END { print "  maps: " sum " bytes"; exit !(sum > 0 && sum <= 1048576 + 16384 * 24) }'
# A second interface has a qdisc of its own; one whose qdisc cannot be attached has no pins.
second_interface() {
    ip link add v2.7 type veth peer name v3
    ./millstream attach v2.7 edf.toml --gso-max-segs 1
    fails "its discipline is edf, that of the scenario drr" ./millstream attach v2.7 drr.toml
    ip -d link show dev v2.7 | grep -q "gso_max_segs 1 "
    # A qdisc that another one has replaced is detached; detaching again leaves the other.
    tc qdisc replace dev v2.7 root pfifo
    fails "no qdisc of Millstream is attached to v2.7" ./millstream attach v2.7 --status
    ./millstream detach v2.7
    tc qdisc show dev v2.7 | grep -q pfifo
    fails "no qdisc of Millstream is attached to v2.7" ./millstream detach v2.7
    ip link del v2.7
    fails "there is no interface .v2.7" ./millstream attach v2.7 drr.toml
}
[ "$PART" = quick ] || second_interface
send_datagrams
sleep 1
report_log classes

# Hosts behind NAT: nftables translates and tracks their packets, and marks them for the qdisc.
echo NAT
ip netns add c
ip link add v4 type veth peer name v5 netns c
ip addr add 10.8.0.1/24 dev v4
ip link set v4 up
ip netns exec c /sbin/ip addr add 10.8.0.2/24 dev v5
ip netns exec c /sbin/ip link set v5 up
ip netns exec c /sbin/ip route add default via 10.8.0.1
echo 1 >/proc/sys/net/ipv4/ip_forward
nft -f - <<'RULES'
table ip edge {
    chain marks { type filter hook forward priority 0; iifname "v4" meta mark set 0x100; }
    chain answers {
        type filter hook forward priority 1; oifname "v4" ct state established counter;
    }
    chain translation { type nat hook postrouting priority 100; oifname "v0" masquerade; }
}
RULES
# b has no route to c: answers arrive by the translation only.
ip netns exec c /sbin/ping -q -c 5 -i 0.2 10.9.0.2 | grep ' 0% packet loss'
nft list chain ip edge answers | grep 'counter packets 5 '
./millstream attach v0 --status --json >status
awk -F '[:,]' '/"name"/ { name = $2 } name ~ /mark/ && /"sent":/ { sent = $2 + 0 }
    END { print "  sent by the stream of the mark: " sent; exit sent != 11 }' status
nft delete table ip edge
ip netns del c
detach
echo 1 >/proc/sys/net/ipv6/conf/v0/disable_ipv6

# Overloads the link of the attached qdisc for a second.
overload() {
    ip netns exec b ./kernel_probe receive 5000 2 all >/dev/null &
    ./kernel_probe send 5000 1 1:214:10000 2:1214:4000:2 3:1514:1000 4:1514:600
    sleep 1
    tc -s qdisc show dev v0 | sed -n 2,3p
    report_cost
    report_log "$1"
}

for name in static-priority edf dwcs wf2q-plus; do
    echo "$name"
    attach "$name"
    overload "$name"
    detach
done

# The qdisc needs no process: those that attach it are killed at any time, then it is attached.
echo kills
delays="0.05 0.15 0.3 0.6"
[ "$PART" = all ] || delays=0.2
for delay in $delays; do
    ./millstream attach v0 drr.toml &
    command=$!
    sleep $delay
    kill -9 $command 2>/dev/null || true
    wait $command || true
done
echo drr
attach drr
if pidof millstream; then exit 1; fi
# The state belongs to one qdisc, so another one by its name is refused.
for _ in 1 2; do
    tc qdisc add dev lo root "ms_$(cat /sys/class/net/v0/ifindex)" 2>&1 | grep "busy"
done
overload drr

# The quanta of bulk and flood are exchanged under traffic.
echo change
ip netns exec b ./kernel_probe receive 5000 3 all >/dev/null &
./kernel_probe send 5000 2 1:214:10000 3:1514:800 4:1514:800 >/dev/null &
sender=$!
# The command takes about 0.3 s here.
sleep 0.8
attach drr-exchanged
./millstream top v0 --count 1 --interval "200 ms" >top
cat top
awk '$1 == "bulk" && $3 > 100 { seen = 1 } END { exit !seen }' top
./millstream top v0 --count 2 --interval "10 ms" --json | grep -c '^{"interface":"v0"' | grep -q 2
wait $sender
sleep 1
./millstream attach v0 --status --json >status
./millstream attach v0 --status
./millstream attach v0 --status --listen 127.0.0.1:9817 2>listening &
listening=$!
until grep -q "http://127.0.0.1:9817/" listening; do
    kill -0 $listening
    sleep 0.1
done
wget -q -O page http://127.0.0.1:9817/status
grep -q '"discipline":"drr",.*"elapsed_ns":' page
wget -q -O prometheus http://127.0.0.1:9817/metrics
kill $listening
wait $listening
# Each packet that arrived was sent or dropped, in all forms of the counters.
./millstream attach v0 --status --prometheus | cmp - prometheus
awk -F '[:,]' '
    FNR == NR && /"(sent|dropped_[a-z_]+|waiting)":/ { left += $2 }
    FNR == NR && /"arrivals":/ { arrivals += $2 }
    /^millstream_stream_packets_total/ { split($0, words, "} "); outcomes += words[2] }
    END { exit !(arrivals > 1000 && arrivals == left && arrivals == outcomes) }
    ' status prometheus
report_log change
ip netns exec b /sbin/ping -q -c 2 -i 0.2 10.9.0.1 | grep ' 0% packet loss'
# Going down drops the packets that wait, and cancels the timer.
./kernel_probe send 5000 1 4:1514:500 >/dev/null 2>&1 &
sender=$!
sleep 0.5
ip link set v0 down
wait $sender || true
# Of two changes without a packet between them, neither writes the contracts in use.
./kernel_probe dump /sys/fs/bpf/millstream/v0/current >used
./millstream attach v0 drr.toml
./millstream attach v0 drr-exchanged.toml
./kernel_probe dump /sys/fs/bpf/millstream/v0/current >selected
if cmp -s used selected; then exit 1; fi
ip link set v0 up
ip netns exec b /sbin/ping -q -c 2 -i 0.2 10.9.0.1 | grep ' 0% packet loss'
./millstream attach v0 --status --json >status
awk -F '[:,]' '/"timer_late_longest_ns"/ { late = $2 + 0 }
    END { print "  timer at most " late " ns late"; exit !(late > 0 && late < 1000000) }' status
detach

# Prints the idle time of the machine and its time, in hundredths of a second.
times() {
    awk '{ printf "%.0f %.0f\n", 100 * $2, 100 * $1 }' /proc/uptime
}

# Voice and video beside two TCP connections and a flood of 30 Mbit/s: the scene of the kernel's own
# qdiscs. The CPU time is that of everything, the same senders and receivers under each qdisc.
scene() {
    echo "$1"
    # The kernel frees what an earlier qdisc had, which takes CPU time.
    sleep 1
    before=$(times)
    ip netns exec b ./kernel_probe receive 6000 3 voice &
    voice=$!
    ip netns exec b ./kernel_probe receive 6001 3 video &
    video=$!
    ip netns exec b ./kernel_probe receive 5000 3 flood &
    flood=$!
    sleep 0.3
    ./kernel_probe tcp 7000 2 3 &
    ./kernel_probe tcp 7000 2 3 &
    ./kernel_probe send 5000 2 4:1514:400 >/dev/null &
    ./kernel_probe send 6001 2 2:1214:4000 >/dev/null &
    ./kernel_probe send 6000 2 1:214:3000
    wait $voice $video $flood
    # shellcheck disable=SC2046
    set -- $before $(times)
    tc -s qdisc show dev v0 root | awk -v busy=$(($4 - $2 - $3 + $1)) '/^ Sent/ {
        printf "  CPU: %.0f µs a packet, of %d packets\n", 10000 * busy / $4, $4 }'
}

ip netns exec b ./kernel_probe sink 7000 &
for leaf in fq_codel "pfifo limit 100"; do
    tc qdisc add dev v0 root handle 1: stab overhead 24 linklayer ethernet htb default 1
    tc class add dev v0 parent 1: classid 1:1 htb rate 20mbit burst 3000 cburst 3000
    # shellcheck disable=SC2086
    tc qdisc add dev v0 parent 1:1 $leaf
    scene "$leaf under htb"
    tc qdisc del dev v0 root
done
# A class of HTB for each stream, by its mark.
tc qdisc add dev v0 root handle 1: stab overhead 24 linklayer ethernet htb default 3
tc class add dev v0 parent 1: classid 1:f htb rate 20mbit burst 3000 cburst 3000
mark=0
for rate in 1mbit 5mbit 12mbit 1mbit; do
    mark=$((mark + 1))
    tc class add dev v0 parent 1:f classid 1:$mark htb rate $rate ceil 20mbit burst 3000 \
        cburst 3000 quantum 1514 prio $mark
    tc filter add dev v0 parent 1: protocol ip u32 match mark $mark 0xffffffff classid 1:$mark
done
scene "classes under htb"
tc qdisc del dev v0 root
rounds=1
[ "$PART" = quick ] || rounds=3
for round in $(seq $rounds); do
    tc qdisc replace dev v0 root cake bandwidth 20mbit overhead 38
    scene cake
    tc qdisc del dev v0 root
    for name in scene-dwcs scene-wf2q-plus; do
        attach "$name"
        scene "millstream $name"
        if [ "$round" = 1 ]; then
            report_cost
            report_log "$name"
        fi
        # The voice arrives as its source says, so `check` bounds its longest delay if the timer is
        # on time. It guarantees the windows of all streams.
        ./millstream attach v0 --status --json >status
        if grep -E '"(missed|violations)": [1-9]' status; then exit 1; fi
        awk -F '[:,]' '/"timer_late_longest_ns"/ { late = $2 + 0 }
            /"name"/ { name = $2 } name !~ /voice/ { next }
            /"sojourn_longest_ns"/ { longest = $2 + 0 } /"delay_bound_ns"/ { bound = $2 + 0 }
            END { print "  voice: longest delay " longest " ns, bound " bound " ns, timer at " \
                    "most " late " ns late"
                exit !(longest > 0 && late > 0 && late < 1000000 && longest <= bound + late)
            }' status
        detach
    done
done

sparse() {
    echo "sparse flow, $1"
    ip netns exec b ./kernel_probe receive 6000 4 sparse &
    receiver=$!
    sleep 0.3
    for _ in 1 2 3 4; do
        ip netns exec c ./kernel_probe tcp 7000 3 0 &
    done
    ip netns exec c ./kernel_probe send 6000 3 5:214:7000
    wait $receiver
}

# A sparse flow beside four TCP connections of a host behind this one: its TCP does not limit what
# it has in a queue here. Without a mark, all are in one stream, with a queue for each flow.
sparse_flows() {
    ip netns add c
    ip link add v4 type veth peer name v5 netns c
    ip addr add 10.8.0.1/24 dev v4
    ip link set v4 up
    ip netns exec c /sbin/ip addr add 10.8.0.2/24 dev v5
    ip netns exec c /sbin/ip link set v5 gso_max_segs 1
    ip netns exec c /sbin/ip link set v5 up
    ip netns exec c /sbin/ip route add default via 10.8.0.1
    ip netns exec b /sbin/ip route add 10.8.0.0/24 via 10.9.0.1
    attach scene-flows
    sparse millstream
    ./millstream attach v0 --status
    ./millstream attach v0 --status --json >status
    # Each packet is in one counter.
    awk -F '[:,]' '/"(sent|dropped_[a-z_]+|waiting)":/ { left += $2 }
        /"arrivals":/ { arrivals += $2 } /"dropped_by_aqm":/ { dropped += $2 }
        END { exit !(arrivals == left && dropped > 0) }' status
    report_cost
    report_log scene-flows
    detach
    tc qdisc replace dev v0 root cake bandwidth 20mbit overhead 38
    sparse cake
    tc qdisc del dev v0 root
    tc qdisc add dev v0 root handle 1: stab overhead 24 linklayer ethernet htb default 1 r2q 100
    tc class add dev v0 parent 1: classid 1:1 htb rate 20mbit burst 3000 cburst 3000
    for leaf in fq_codel "pfifo limit 100"; do
        # shellcheck disable=SC2086
        tc qdisc replace dev v0 parent 1:1 $leaf
        sparse "$leaf under htb"
    done
    tc qdisc del dev v0 root
    ip netns del c
}
[ "$PART" = quick ] || sparse_flows

# The interface goes away while packets wait, in queues by flow.
echo flows
attach flows
overload flows
./kernel_probe send 5000 1 3:1514:500 4:1514:500 >/dev/null &
sender=$!
sleep 0.5
ip link del v0
wait $sender || true
fails "there is no interface .v0" ./millstream attach v0 --status
detach
# The kernel frees programs and maps a moment later.
sleep 1
if bpftool prog show name ms_dequeue >/dev/null 2>&1; then exit 1; fi
if bpftool map show | grep .; then exit 1; fi
echo "deleted the interface"
