# shellcheck shell=sh
# Runs in the virtual machine: see scripts/bufferbloat.sh.
#
# client (c0) – (m0) middle (m1) – (s0) server; each way has RATE in the middle and half of RTT
# behind the hosts.
export LD_LIBRARY_PATH=/test:/lib PATH="$PATH:/test"
# shellcheck source=/dev/null
. ./settings
insmod ./sch_netem.ko
mkdir -p /run/netns
for name in client middle server; do
    ip netns add "$name"
    ip netns exec "$name" /sbin/ip link set lo up
done
ip link add c0 netns client type veth peer name m0 netns middle
ip link add s0 netns server type veth peer name m1 netns middle
within() {
    name=$1
    shift
    ip netns exec "$name" "$@"
}
device() {
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    # A packet of many segments would hold the link for up to 26 ms.
    within "$1" /sbin/ip link set "$2" gso_max_segs 1 gro_max_size 1500
    within "$1" /sbin/ip link set "$2" up
}
device client c0
device middle m0
device middle m1
device server s0
within client /sbin/ip addr add 10.1.0.2/24 dev c0
within server /sbin/ip addr add 10.2.0.2/24 dev s0
within client /sbin/ip route add default via 10.1.0.1
within server /sbin/ip route add default via 10.2.0.1
within client /sbin/tc qdisc add dev c0 root netem delay "$DELAY" limit 10000
within server /sbin/tc qdisc add dev s0 root netem delay "$DELAY" limit 10000

for port in 5201 5202; do
    within server iperf3 -s -p $port >/dev/null &
done

# Forwards by the kernel, with a qdisc on both ways.
kernel() {
    within middle /sbin/ip addr add 10.1.0.1/24 dev m0
    within middle /sbin/ip addr add 10.2.0.1/24 dev m1
    within middle sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
    for dev in m0 m1; do
        case $1 in
        cake) within middle /sbin/tc qdisc add dev $dev root cake bandwidth "$RATE" ;;
        *)
            within middle /sbin/tc qdisc add dev $dev root handle 1: htb default 1
            within middle /sbin/tc class add dev $dev parent 1: classid 1:1 htb rate "$RATE"
            # shellcheck disable=SC2086
            within middle /sbin/tc qdisc add dev $dev parent 1:1 $1
            ;;
        esac
    done
}

# Runs the traffic; sends its results to the host.
measure() {
    echo "$1"
    load="-P 4 -t $SECONDS_EACH -i 0.2 -l 16K"
    # shellcheck disable=SC2086
    within client iperf3 -c 10.2.0.2 -p 5201 $load -J >up &
    up=$!
    within client iperf3 -c 10.2.0.2 -p 5202 $load -J -R >down &
    down=$!
    sleep 2
    for_s=$((SECONDS_EACH - 3))
    within client /sbin/ping -n -D -i 0.05 -w $for_s 10.2.0.2 >ping &
    within client /sbin/ping -n -D -Q 0xb8 -s 172 -i 0.02 -w $for_s 10.2.0.2 >voice || true
    wait $up $down || true
    for result in up down ping voice; do
        echo "RESULT $1 $result" >/dev/ttyS1
        base64 $result >/dev/ttyS1
    done
}

for qdisc in "pfifo limit 1000" fq_codel cake; do
    kernel "$qdisc"
    measure "${qdisc%% *}"
    for dev in m0 m1; do
        within middle /sbin/tc -s qdisc show dev $dev | head -n 3
        within middle /sbin/tc qdisc del dev $dev root
    done
    within middle /sbin/ip addr flush dev m0
    within middle /sbin/ip addr flush dev m1
done
within middle sh -c 'echo 0 >/proc/sys/net/ipv4/ip_forward'
/sbin/ip netns exec middle ./millstream route router.toml >report 2>log &
router=$!
sleep 3
[ -d "/proc/$router" ] || {
    cat log
    exit 1
}
measure millstream
kill -INT $router
wait $router || true
