#!/usr/bin/env bash
# Records examples/data: a capture of real programs sharing an uplink, and a video clip.
#
# Two network namespaces joined by a veth pair: a server that sends, a client that asks. Everything
# runs inside them and is removed at the end. Needs root; installs what it needs by apt.
#
#   video call   ffmpeg sends RTP video (port 5004) and RTP audio (port 5006)
#   web          nginx answers ApacheBench and curl
#   bulk         iperf3 uploads over TCP
#   DNS          dnsmasq answers dig
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=12
data=examples/data
server=millstream-server
client=millstream-client
server_address=10.77.0.1
client_address=10.77.0.2

if [ "$(id -u)" != 0 ]; then
    echo "error: network namespaces need root" >&2
    exit 1
fi
apt-get install -y -qq --no-install-recommends ffmpeg tcpdump iproute2 ethtool nginx-light \
    apache2-utils curl iperf3 dnsmasq-base bind9-dnsutils >/dev/null

scratch=$(mktemp -d)
processes=()
cleanup() {
    local process
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    ip netns del "$server" 2>/dev/null || true
    ip netns del "$client" 2>/dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT
on_server() { ip netns exec "$server" "$@"; }
on_client() { ip netns exec "$client" "$@"; }
# Not through the functions above: the pid must be the program's, not a subshell's.
in_background() {
    local namespace=$1
    shift
    ip netns exec "$namespace" "$@" >/dev/null 2>&1 &
    processes+=("$!")
}

mkdir -p "$data"
echo "making the clip"
ffmpeg -v error -y -f lavfi -i testsrc2=size=352x288:rate=25 -t 8 -an \
    -c:v mpeg1video -bf 2 -g 12 -b:v 1M -maxrate 1.5M -bufsize 600k \
    -fflags +bitexact -flags:v +bitexact -threads 1 -f mpeg "$data/clip.mpg"

echo "making the network"
ip netns add "$server"
ip netns add "$client"
ip link add uplink netns "$server" type veth peer name downlink netns "$client"
on_server ip address add "$server_address/24" dev uplink
on_client ip address add "$client_address/24" dev downlink
for end in "on_server:uplink" "on_client:downlink"; do
    "${end%%:*}" ip link set lo up
    "${end%%:*}" ip link set "${end##*:}" up
    # Packets as they are on a wire: no segments of many packets, checksums filled in.
    "${end%%:*}" ethtool -K "${end##*:}" tso off gso off gro off tx off >/dev/null
done

echo "starting the servers"
mkdir -p "$scratch/www"
for size in 20 150; do
    head -c "${size}k" /dev/zero >"$scratch/www/$size"
done
cat >"$scratch/nginx.conf" <<EOF
worker_processes 1;
daemon off;
pid $scratch/nginx.pid;
error_log /dev/null;
events {}
http {
    access_log off;
    server { listen $server_address:80; root $scratch/www; limit_rate 60k; }
}
EOF
chmod -R a+rX "$scratch"
in_background "$server" nginx -c "$scratch/nginx.conf"
in_background "$server" dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts \
    --listen-address="$server_address" --bind-interfaces --user=root --pid-file="$scratch/dnsmasq.pid" \
    --address=/example.test/192.0.2.7
in_background "$client" iperf3 --server --bind "$client_address"
sleep 1

echo "recording $seconds s"
in_background "$server" tcpdump -i uplink -Q out -s 96 --time-stamp-precision=nano \
    -w "$scratch/uplink.pcap" not ip6
capture=${processes[-1]}
sleep 1
in_background "$server" ffmpeg -re -f lavfi -i testsrc2=size=640x360:rate=25 -t "$seconds" -an \
    -c:v libx264 -preset veryfast -tune zerolatency -b:v 1500k -maxrate 1800k -bufsize 400k -g 50 \
    -f rtp "rtp://$client_address:5004?pkt_size=1200"
in_background "$server" ffmpeg -re -f lavfi -i "sine=frequency=440:sample_rate=8000" -t "$seconds" \
    -vn -c:a pcm_mulaw -f rtp "rtp://$client_address:5006?pkt_size=172"
in_background "$server" iperf3 --client "$client_address" --time "$((seconds - 2))" --bitrate 5M
# Four slow downloads all the time, and a page about ten times a second.
in_background "$client" ab -q -t "$seconds" -n 1000000 -c 4 "http://$server_address/150"
end=$((SECONDS + seconds))
while [ "$SECONDS" -lt "$end" ]; do
    on_client curl -s -o /dev/null "http://$server_address/20" || true
    on_client dig +tries=1 +time=1 @"$server_address" "host$RANDOM.example.test" >/dev/null || true
    sleep 0.04
done
sleep 1
kill "$capture"
wait "$capture" 2>/dev/null || true
cp "$scratch/uplink.pcap" "$data/uplink.pcap"
ls -l "$data"
