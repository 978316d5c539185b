#!/usr/bin/env bash
# Checks packaging/prometheus and packaging/grafana against Debian's Prometheus, which scrapes a
# running router and a media server for half a minute: the alert rules load, the metrics pass
# promtool, and every query of the dashboard returns values. Needs root: the router creates two TAP
# devices, in a network namespace of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} != inside ]]; then
    { command -v prometheus && command -v jq && command -v ffmpeg; } >/dev/null || {
        apt-get update -qq
        # Debian starts the service with the package, unless this file forbids it.
        policy=/usr/sbin/policy-rc.d
        [[ -e $policy ]] && policy=
        if [[ $policy ]]; then install -m 755 /dev/stdin "$policy" <<<$'#!/bin/sh\nexit 101'; fi
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            prometheus jq curl iproute2 iputils-ping ffmpeg >/dev/null
        [[ -z $policy ]] || rm "$policy"
    }
    cargo build --quiet -p millstream-cli
    exec unshare --net "$0" inside
fi

program=${MILLSTREAM:-target/debug/millstream}
scratch=$(mktemp -d)
started=()
cleanup() {
    local pid
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$scratch"
}
trap cleanup EXIT
fail() {
    echo "error: $1" >&2
    tail -n 20 "$scratch"/*.log >&2
    exit 1
}

ip link set lo up
cat >"$scratch/router.toml" <<'TOML'
[router]
status = "127.0.0.1:9817"
[[port]]
name = "lan"
kind = "tun"
rate = "100 Mbit/s"
address = "10.8.0.1/24"
[[port]]
name = "wan"
kind = "tun"
rate = "10 Mbit/s"
address = "10.9.0.1/24"
[[path]]
name = "voice"
to = "wan"
match = { protocol = "icmp" }
max-rate = "1 Mbit/s"
burst = "4 kB"
[[path]]
name = "rest"
TOML
"$program" route "$scratch/router.toml" >"$scratch/router.log" 2>&1 &
started+=($!)
sed "s|\.\./data/|$PWD/examples/data/|; s|127.0.0.1:8580|127.0.0.1:9818|" \
    examples/media/scenario.toml >"$scratch/media.toml"
"$program" serve "$scratch/media.toml" >"$scratch/media.log" 2>&1 &
started+=($!)

cat >"$scratch/prometheus.yml" <<YAML
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [$PWD/packaging/prometheus/millstream.rules.yml]
scrape_configs:
  - job_name: millstream
    static_configs: [{ targets: ["127.0.0.1:9817", "127.0.0.1:9818"] }]
YAML
promtool check config "$scratch/prometheus.yml"
promtool test rules packaging/prometheus/millstream.rules.test.yml
for port in 9817 9818; do
    for _ in {1..50}; do
        curl -sf "127.0.0.1:$port/metrics" >"$scratch/metrics" && break
        sleep 0.2
    done
    # promtool reads the older text format, whose counters need no suffix and no unit.
    grep -q '^# EOF' "$scratch/metrics" || fail "port $port: no metrics"
done
prometheus --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/data" \
    --web.listen-address=127.0.0.1:9090 --log.level=warn >"$scratch/prometheus.log" 2>&1 &
started+=($!)

# Packets for the path `voice`, and a client of the media server.
ip addr add 10.8.0.2/24 dev lan
ip link set lan up
ip link set wan up
ip route add 10.9.0.0/24 dev lan
ping -q -i 0.05 -w 30 10.9.0.5 >/dev/null 2>&1 &
started+=($!)
if command -v ffmpeg >/dev/null; then
    timeout 28 ffmpeg -loglevel error -rtsp_transport tcp -i "rtsp://127.0.0.1:8554/clip" \
        -f null - >"$scratch/player.log" 2>&1 &
    started+=($!)
fi
sleep 25

query() { curl -sf --get 127.0.0.1:9090/api/v1/query --data-urlencode "query=$1"; }
down=$(query 'up == 0' | jq '.data.result | length')
[[ $down = 0 ]] || fail "Prometheus cannot scrape $down of the programs"
queries=0
while IFS= read -r expression; do
    asked=${expression//\$__rate_interval/15s}
    asked=${asked//\$job/millstream}
    asked=${asked//\$instance/.*}
    answer=$(query "$asked") || fail "the query is refused: $asked"
    values=$(jq '.data.result | length' <<<"$answer")
    [[ $values -gt 0 ]] || fail "the query returns nothing: $asked"
    queries=$((queries + 1))
done < <(jq -r '.panels[].targets[]?.expr' packaging/grafana/millstream.json)
unhealthy=$(curl -sf 127.0.0.1:9090/api/v1/rules |
    jq '[.data.groups[].rules[] | select(.health != "ok")] | length')
[[ $unhealthy = 0 ]] || fail "$unhealthy alert rules fail"
firing=$(curl -sf 127.0.0.1:9090/api/v1/alerts | jq -r '.data.alerts[].labels.alertname')
[[ -z $firing ]] || fail "alerts of healthy programs: $firing"
echo "monitoring: $queries queries return values; the alert rules are evaluated and none fires"
