#!/usr/bin/env bash
# Makes examples/data: a capture of real programs that share a site's uplink, and an MPEG-1 clip.
# Prints the tables of examples/data/README.md. Usage: record-capture.sh [FOLDER]
#
# Two network namespaces joined by a veth pair: a server that sends and a client. No traffic leaves
# them, and they are removed at the end. Needs root; installs missing programs by apt.
#
#   video call   ffmpeg sends RTP video (port 5004) and RTP audio (port 5006)
#   web          nginx answers ApacheBench and curl
#   bulk         iperf3 uploads over TCP, capped
#   DNS          dnsmasq answers dnsperf
set -euo pipefail
cd "$(dirname "$0")/.."

data=${1:-examples/data}
seconds=12
server=ms-server-$$
client=ms-client-$$
server_address=10.77.0.1
client_address=10.77.0.2

if [ "$(id -u)" != 0 ]; then
    echo "error: network namespaces need root" >&2
    exit 1
fi

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need ffmpeg ffmpeg
need tcpdump tcpdump
need ip iproute2
need ethtool ethtool
need nginx nginx-light
need ab apache2-utils
need curl curl
need iperf3 iperf3
need dnsmasq dnsmasq-base
need dnsperf dnsperf
if [ "${#missing[@]}" -gt 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
fi

scratch=$(mktemp -d)
processes=()
namespaces=()
cleanup() {
    local one
    for one in "${processes[@]}"; do
        kill "$one" 2>/dev/null || true
    done
    wait
    for one in "${namespaces[@]}"; do
        ip netns del "$one"
    done
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# `ip netns exec` replaces itself by the program, so $! is the program's pid.
in_background() {
    local namespace=$1 log
    shift
    log=$scratch/${#processes[@]}-${1##*/}.log
    ip netns exec "$namespace" "$@" </dev/null >"$log" 2>&1 &
    processes+=("$!")
}
fail() {
    echo "error: $1" >&2
    tail -n 5 "$scratch"/*.log >&2
    exit 1
}

# Prints a table row: the packets that match a filter, their bytes on the wire, and the mean rate.
row() {
    local name=$1 filter=$2
    tcpdump -nn -e -tt -r "$scratch/uplink.pcap" "$filter" 2>/dev/null |
        awk -v name="$name" -v filter="$filter" -v span="$span" '
            match($0, /, length [0-9]+: /) {
                packets++
                bytes += substr($0, RSTART + 9, RLENGTH - 11)
            }
            END {
                printf "| %s | `%s` | %d | %d | %.0f |\n", name, filter, packets, bytes,
                    bytes * 8 / span / 1000
            }'
}

echo "making the clip"
# A zoom into a fractal behind moving bars, then a cut to the bars alone: frame sizes vary.
ffmpeg -v error -nostdin -y \
    -f lavfi -i "mandelbrot=size=352x288:rate=25:end_pts=200:end_scale=0.02:maxiter=400" \
    -f lavfi -i "testsrc2=size=352x288:rate=25" \
    -filter_complex_threads 1 \
    -filter_complex "[0]format=yuv420p[a];[1]format=yuv420p,split[b][c];
        [a][b]blend=all_mode=average:enable='lt(t,5)'[d];[d][c]overlay=enable='gte(t,5)'" \
    -t 8 -an -c:v mpeg1video -bf 2 -g 12 -b:v 1.1M -maxrate 1.5M -bufsize 600k -threads 1 \
    -bitexact -f mpeg "$scratch/clip.mpg"
ffmpeg -nostdin -v error -i "$scratch/clip.mpg" \
    -f lavfi -itsoffset 0.1 -i sine=frequency=440:sample_rate=16000 -map 0:v -map 1:a \
    -t 1 -vf scale=64:48 -c:v mpeg1video -bf 2 -g 12 -b:v 40k -c:a aac -ac 1 -b:a 24k -threads 1 \
    -bitexact -f mpegts "$scratch/tone.ts"

echo "making the network"
for namespace in "$server" "$client"; do
    ip netns add "$namespace"
    namespaces+=("$namespace")
    ip -n "$namespace" link set lo up
done
# Fixed hardware addresses, and no IPv6 traffic.
ip link add uplink address 02:00:00:00:00:01 netns "$server" type veth \
    peer name downlink address 02:00:00:00:00:02 netns "$client"
connect() {
    local namespace=$1 device=$2 address=$3
    # Packets as on a wire: no segmentation offload, checksums filled in.
    ip netns exec "$namespace" ethtool -K "$device" tso off gso off gro off tx off rx off >/dev/null
    ip -n "$namespace" link set "$device" addrgenmode none
    ip -n "$namespace" address add "$address/24" dev "$device"
    ip -n "$namespace" link set "$device" up
}
connect "$server" uplink "$server_address"
connect "$client" downlink "$client_address"

echo "starting the servers"
mkdir "$scratch/www"
for size in 2 20 150; do
    head -c "${size}k" /dev/zero >"$scratch/www/$size"
done
chmod -R a+rX "$scratch"
cat >"$scratch/nginx.conf" <<END
worker_processes 1;
daemon off;
pid $scratch/nginx.pid;
events {}
http {
    access_log off;
    server_tokens off;
    server { listen $server_address:80; root $scratch/www; limit_rate 48k; }
}
END
in_background "$server" nginx -e stderr -c "$scratch/nginx.conf"
in_background "$server" dnsmasq --keep-in-foreground --log-facility=- --pid-file= \
    --conf-file=/dev/null --no-resolv --no-hosts \
    --listen-address="$server_address" --bind-interfaces \
    --address=/example.test/192.0.2.7 --address=/example.test/2001:db8::7 \
    --mx-host=example.test,mail.example.test,10 \
    --txt-record=example.test,"v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 -all"
in_background "$client" iperf3 --server --bind "$client_address"
for number in {1..200}; do
    printf '%s\n' "host$number.example.test A" "host$number.example.test AAAA" \
        "host$number.example.test A" "example.test TXT" "example.test MX"
done >"$scratch/queries"

# Starts the receivers of the call; the SDP files describe the streams before they start.
sdp() {
    printf '%s\n' "v=0" "o=- 0 0 IN IP4 $server_address" "s=call" "c=IN IP4 $client_address" \
        "t=0 0" "$@"
}
sdp "m=video 5004 RTP/AVP 96" "a=rtpmap:96 H264/90000" "a=fmtp:96 packetization-mode=1" \
    >"$scratch/video.sdp"
sdp "m=audio 5006 RTP/AVP 0" >"$scratch/audio.sdp"
for kind in video audio; do
    in_background "$client" ffmpeg -v error -nostdin -protocol_whitelist file,udp,rtp \
        -i "$scratch/$kind.sdp" -c copy -f null -
done
sleep 1

echo "recording $seconds s"
in_background "$server" tcpdump -i uplink -Q out -s 96 --time-stamp-precision=nano \
    --immediate-mode -U -Z root -w "$scratch/uplink.pcap"
capture=${processes[-1]}
capture_log=$scratch/$((${#processes[@]} - 1))-tcpdump.log
for _ in {1..50}; do
    [ -s "$scratch/uplink.pcap" ] && break
    sleep 0.1
done
for process in "${processes[@]}"; do
    kill -0 "$process" 2>/dev/null || fail "a program did not start"
done
# Two slow downloads at a time, until the end.
in_background "$client" ab -q -n 1000 -c 2 "http://$server_address/150"
timed=${#processes[@]}
in_background "$server" ffmpeg -v error -nostdin -re -f lavfi -i testsrc2=size=640x360:rate=25 \
    -t "$seconds" -an -c:v libx264 -preset veryfast -tune zerolatency -bf 0 -g 50 \
    -b:v 1500k -maxrate 1800k -bufsize 400k -bitexact \
    -f rtp "rtp://$client_address:5004?pkt_size=1200"
# Samples of 20 ms a frame: ffmpeg's default of 128 ms sends bursts of seven packets.
in_background "$server" ffmpeg -v error -nostdin -re -f lavfi \
    -i "sine=frequency=440:sample_rate=8000:samples_per_frame=160" \
    -t "$seconds" -vn -c:a pcm_mulaw -bitexact -f rtp "rtp://$client_address:5006?pkt_size=172"
in_background "$server" iperf3 --client "$client_address" --time "$seconds" \
    --bitrate 6M --length 16K
in_background "$client" dnsperf -s "$server_address" -d "$scratch/queries" -Q 60 -c 4 -l "$seconds"
# A page with four small images about six times a second.
end=$((SECONDS + seconds))
while [ "$SECONDS" -lt "$end" ]; do
    ip netns exec "$client" curl -s "http://$server_address/20" \
        "http://$server_address/2?image=[1-4]" >/dev/null
    sleep "0.1$((RANDOM % 10))"
done
for process in "${processes[@]:timed}"; do
    wait "$process" || fail "a program failed"
done
sleep 0.2
kill "$capture"
wait "$capture" || true
grep -q '^0 packets dropped by kernel' "$capture_log" || fail "the capture lost packets"

longest=$(tcpdump -nn -e -r "$scratch/uplink.pcap" 2>/dev/null |
    awk 'match($0, /, length [0-9]+: /) { n = substr($0, RSTART + 9, RLENGTH - 11) + 0
        if (n > longest) longest = n } END { print longest }')
[ "$longest" -le 1514 ] || fail "a packet of $longest bytes: the offloads are not off"

mkdir -p "$data"
for file in uplink.pcap clip.mpg tone.ts; do
    # Replaces the file by a rename: concurrent readers keep the old file.
    cp "$scratch/$file" "$data/.$file.new"
    mv "$data/.$file.new" "$data/$file"
done

span=$(tcpdump -nn -tt --time-stamp-precision=nano -r "$scratch/uplink.pcap" 2>/dev/null |
    awk 'NR == 1 { first = $1 } { last = $1 } END { printf "%.6f", last - first }')
video="udp dst port 5004"
audio="udp dst port 5006"
web="tcp src port 80"
bulk="tcp dst port 5201"
dns="udp src port 53"
echo
echo "uplink.pcap: $span s, longest packet $longest bytes"
echo
echo "| traffic | filter | packets | bytes | kb/s |"
echo "|---|---|--:|--:|--:|"
row "call video" "$video"
row "call audio" "$audio"
row "web" "$web"
row "bulk" "$bulk"
row "DNS" "$dns"
row "the rest: RTCP, ARP" "not ($video or $audio or $web or $bulk or $dns)"
row "all" "greater 0"
echo
echo "| frames of clip.mpg | number | bytes | smallest | largest |"
echo "|---|--:|--:|--:|--:|"
# ffmpeg names a frame's size pkt_size; the kind follows it.
ffprobe -v error -select_streams v -show_entries frame=pkt_size,pict_type -of compact=p=0:nk=0 \
    "$scratch/clip.mpg" | sed -n 's/^pkt_size=\([0-9]*\)|pict_type=\([IPB]\).*/\2 \1/p' |
    awk '{ n[$1]++; sum[$1] += $2; if ($2 > max[$1]) max[$1] = $2
            if (!min[$1] || $2 < min[$1]) min[$1] = $2 }
        END { split("I P B", kinds, " ")
            for (i = 1; i <= 3; i++) { k = kinds[i]
                printf "| %s | %d | %d | %d | %d |\n", k, n[k], sum[k], min[k], max[k] } }'
