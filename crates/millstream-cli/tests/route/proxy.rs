//! Tests of proxies between real interfaces: the kernel's TCP at both ends, packet loss, floods.

use etherparse::PacketBuilder;
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::Network;
use crate::{millstream, number, outcome};

/// The length of the served file, bytes.
const FILE_BYTES: usize = 3 << 20;

/// Returns a router file with two ports of both families, `paths`, and a path for other packets.
fn file(paths: &str) -> String {
    let port = |name: &str, network: u8| {
        format!(
            "[[port]]\nname = \"{name}\"\nkind = \"interface\"\nrate = \"1 Gbps\"\n\
             address = [\"10.{network}.0.1/24\", \"2001:db8:{network}::1/64\"]\n"
        )
    };
    format!(
        "[router]\n{}{}{paths}[[path]]\nname = \"all\"\nqueue = 2048\n",
        port("a1", 1),
        port("b1", 2)
    )
}

/// Configures a client, and starts an HTTP server of `folder`, which has the file `big`.
fn client_and_server(network: &Network, folder: &TempDir) -> crate::network::Program {
    network.require(&["curl", "python3", "sha256sum", "ss"]);
    let ip = |namespace: &str, command: &str| {
        network
            .execute(namespace, &[&["ip"][..], &command.split(' ').collect::<Vec<_>>()].concat());
    };
    for (namespace, device, of) in [("source", "a0", 1), ("sink", "b0", 2)] {
        network.host(namespace, device, &format!("10.{of}.0.2/24"), &format!("10.{of}.0.1"));
        ip(namespace, &format!("address add 2001:db8:{of}::2/64 dev {device} nodad"));
        ip(namespace, &format!("-6 route add default via 2001:db8:{of}::1"));
        ip(namespace, "link set lo up");
    }
    let data: Vec<u8> = (0..FILE_BYTES).map(|k| (k * k % 251).to_le_bytes()[0]).collect();
    fs::write(folder.path().join("big"), data).unwrap();
    let folder = folder.path().to_str().unwrap();
    let serve = ["python3", "-m", "http.server", "--bind", "::", "--directory", folder, "8000"];
    let server = network.spawn("sink", &serve);
    network.await_listener("sink", 8000);
    server
}

/// Returns the checksum of `url`; `more` are options of curl.
fn sum(network: &Network, url: &str, more: &str) -> String {
    let command = format!("curl -s -m 30 {more} '{url}' | sha256sum");
    network.execute("source", &["sh", "-c", &command])
}

/// Returns the checksum of the first `bytes` bytes; the client then closes the connection.
fn part_sum(network: &Network, url: &str, bytes: usize) -> String {
    let command = format!("curl -s -m 30 '{url}' | head -c {bytes} | sha256sum");
    network.execute("source", &["sh", "-c", &command])
}

/// Returns the exit status of curl for `url`; `more` are options of curl.
fn status(network: &Network, url: &str, more: &str) -> String {
    let command = format!("curl -s -o /dev/null -m 30 {more} '{url}'; echo $?");
    network.execute("source", &["sh", "-c", &command]).trim().to_owned()
}

fn right(network: &Network, folder: &TempDir) -> String {
    let file = folder.path().join("big");
    let command = format!("sha256sum < {}", file.display());
    network.execute("source", &["sh", "-c", &command])
}

/// Returns a counter of a path's proxy.
fn proxied(report: &Value, path: &str, key: &str) -> u64 {
    let of = report["paths"].as_array().unwrap().iter().find(|of| of["name"] == path);
    of.unwrap()["proxy"][key].as_u64().unwrap_or_else(|| panic!("{path}, {key}: {report:#}"))
}

/// Connects to an address of the router, to an unused address, by IPv6 to an IPv4 server, and
/// through a queue that is short enough to lose packets.
#[test]
fn a_classical_proxy_carries_files_despite_packet_loss() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let text = file(
        "[[path]]\nname = \"web\"\nmatch = { protocol = \"tcp\", destination-port = 80 }\n\
         proxy = { kind = \"classical\", host-connections = 1, to = \"10.2.0.2:8000\" }\n\
         [[path]]\nname = \"lossy\"\nmatch = { protocol = \"tcp\", destination-port = 81 }\nqueue \
         = 6\n\
         proxy = { kind = \"classical\", to = \"[2001:db8:2::2]:8000\", buffer = \"128 KiB\" }\n\
         [[path]]\nname = \"refusing\"\nmatch = { protocol = \"tcp\", destination-port = 82 }\n\
         proxy = { kind = \"classical\", to = \"10.2.0.2:8001\" }\n",
    );
    fs::write(&path, text).unwrap();
    let server = client_and_server(&network, &folder);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let right = right(&network, &folder);
    // One connection at a time, because `host-connections` is 1.
    for host in ["10.1.0.1", "10.2.0.77", "[2001:db8:1::1]"] {
        assert_eq!(sum(&network, &format!("http://{host}/big"), ""), right, "{host}");
    }
    // Each loss may cost a second, the minimum retransmission timeout of smoltcp.
    let part = format!("head -c 400000 < {} | sha256sum", folder.path().join("big").display());
    let part = network.execute("source", &["sh", "-c", &part]);
    // The server does not support ranges: the client closes the connection after the part.
    assert_eq!(part_sum(&network, "http://10.1.0.1:81/big", 400_000), part, "with losses");
    // The server refuses, so the proxy resets the client's connection: while it connects (7), or
    // later (56).
    let refused = status(&network, "http://10.1.0.1:82/", "");
    assert!(refused == "7" || refused == "56", "{refused}");
    let (report, log) = router.stop_with_log();
    drop(server);
    assert_eq!(report["unaccounted"], 0, "{report:#}\n{log}");
    assert_eq!(proxied(&report, "web", "opened"), 3, "{report:#}");
    assert!(proxied(&report, "web", "to-client-bytes") > 3 * FILE_BYTES as u64, "{report:#}");
    assert_eq!(proxied(&report, "web", "broken"), 0, "{report:#}");
    assert!(number(&report, "paths", "lossy", "dropped_full") > 0, "nothing was lost: {report:#}");
    assert_eq!(proxied(&report, "refusing", "broken"), 1, "{report:#}");
    assert!(number(&report, "paths", "web", "made") > 2_000, "{report:#}");
}

/// A SYN flood from unused addresses fills the table of its path and uses only the path's share of
/// the processor. Another proxy is not affected.
#[test]
fn a_syn_flood_affects_only_its_own_path() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let text = file(
        "[[path]]\nname = \"flooded\"\nmatch = { protocol = \"tcp\", destination-port = 81 }\n\
         proxy = { kind = \"classical\", to = \"10.2.0.2:8000\", connections = 64 }\n\
         [[path]]\nname = \"web\"\nmatch = { protocol = \"tcp\", destination-port = 80 }\n\
         proxy = { kind = \"classical\", to = \"10.2.0.2:8000\" }\n",
    ) + "[[port]]\nname = \"f1\"\nkind = \"interface\"\nrate = \"1 Gbps\"\naddress \
     = \"10.3.0.1/24\"\n\
         [[route]]\nprefix = \"10.4.0.0/16\"\nport = \"f1\"\nneighbour = \"02:00:00:00:00:99\"\n";
    fs::write(&path, text).unwrap();
    let server = client_and_server(&network, &folder);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let to = network.mac("router", "f1");
    let syns = (0..2_000u16).map(|k| {
        let [high, low] = k.to_be_bytes();
        let ip = PacketBuilder::ethernet2([4; 6], to).ipv4([10, 4, high, low], [10, 1, 0, 1], 9);
        let mut frame = Vec::new();
        ip.tcp(40_000, 81, 7, 1_000).syn().write(&mut frame, &[]).unwrap();
        frame
    });
    let flood = network.flood_by("source", "f0", syns.collect(), Duration::ZERO);
    let right = right(&network, &folder);
    for _ in 0..3 {
        assert_eq!(sum(&network, "http://10.1.0.1/big", ""), right);
    }
    let sent = flood.stop();
    let report = router.stop();
    drop(server);
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    assert!(sent > 2_000 && proxied(&report, "flooded", "refused-full") > 0, "{report:#}");
    assert!(proxied(&report, "flooded", "connections") <= 64, "{report:#}");
    assert_eq!(number(&report, "paths", "web", "dropped_full"), 0, "{report:#}");
    assert_eq!(proxied(&report, "web", "opened"), 3, "{report:#}");
    // No handshake was completed, so the proxy opened no server connection.
    assert_eq!(proxied(&report, "flooded", "to-server-bytes"), 0, "{report:#}");
}

/// The client connects to the server by IPv4 and IPv6 through a path with packet loss. The host
/// name decides whether the proxy allows the connection.
#[test]
fn a_transparent_proxy_filters_by_host_name_and_splices_the_connection() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let text = file(
        "[[path]]\nname = \"web\"\nmatch = { protocol = \"tcp\", port = \"a1\", destination-port \
         = 8000 }\nqueue = 24\n\
         proxy = { kind = \"transparent\", allow = [\"a.example\", \"*.b.example\"], deny = \
         [\"x.b.example\"] }\n\
         [[path]]\nname = \"tls\"\nmatch = { protocol = \"tcp\", port = \"a1\", destination-port \
         = 443 }\n\
         proxy = { kind = \"transparent\", deny = [\"x.example\"] }\n",
    );
    fs::write(&path, text).unwrap();
    let server = client_and_server(&network, &folder);
    let folder_text = folder.path().to_str().unwrap();
    let make = format!(
        "cd {folder_text} && openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=a.example -days \
         9 -keyout key -out cert"
    );
    network.execute("sink", &["sh", "-c", &make]);
    let serve = format!(
        "cd {folder_text} && exec openssl s_server -accept 443 -key key -cert cert -WWW -quiet"
    );
    let secured = network.spawn("sink", &["sh", "-c", &serve]);
    network.await_listener("sink", 443);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let right = right(&network, &folder);
    for (host, name) in [("10.2.0.2", "a.example"), ("[2001:db8:2::2]", "u.B.example:8000")] {
        let url = format!("http://{host}:8000/big");
        assert_eq!(sum(&network, &url, &format!("-H 'Host: {name}'")), right, "{host}");
        for refused in ["b.example", "x.b.example", "a.example.org"] {
            let status = status(&network, &url, &format!("-H 'Host: {refused}'"));
            assert_eq!(status, "56", "{host}, {refused}: a reset");
        }
    }
    let to = "--resolve '*:443:10.2.0.2' -k";
    assert_eq!(sum(&network, "https://a.example/big", to), right);
    assert_eq!(
        status(&network, "https://x.example/big", to),
        "35",
        "a reset during the TLS handshake"
    );
    let (report, log) = router.stop_with_log();
    drop((server, secured));
    assert_eq!(report["unaccounted"], 0, "{report:#}\n{log}");
    assert_eq!(proxied(&report, "web", "refused-host"), 6, "{report:#}");
    assert_eq!(proxied(&report, "tls", "refused-host"), 1, "{report:#}");
    assert!(proxied(&report, "web", "to-client-bytes") > 2 * FILE_BYTES as u64, "{report:#}");
    let (received, made) =
        (number(&report, "paths", "web", "received"), number(&report, "paths", "web", "made"));
    assert!(made < 100 && received > 2_000, "packets pass: {report:#}");
    assert!(number(&report, "paths", "web", "dropped_full") > 0, "nothing was lost: {report:#}");
}

/// Connections of both kinds survive a reload, and new ones follow the new rules.
#[test]
fn connections_survive_a_reload() {
    const STATUS: &str = "127.0.0.1:9819";
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    let paths = |rules: &str| {
        let text = file(&format!(
            "[[path]]\nname = \"classical\"\nmatch = {{ protocol = \"tcp\", destination-port = 80 \
             }}\n\
             proxy = {{ kind = \"classical\", to = \"10.2.0.2:8000\"{rules} }}\n\
             [[path]]\nname = \"transparent\"\nmatch = {{ protocol = \"tcp\", port = \"a1\", \
             destination-port = 8000 }}\n\
             proxy = {{ kind = \"transparent\"{rules} }}\n"
        ));
        text.replacen("[router]\n", &format!("[router]\nstatus = \"{STATUS}\"\n"), 1)
    };
    fs::write(&path, paths("")).unwrap();
    let server = client_and_server(&network, &folder);
    network.execute("router", &["ip", "link", "set", "lo", "up"]);
    let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
    let right = right(&network, &folder);
    let urls = ["http://10.1.0.1/big", "http://10.2.0.2:8000/big"];
    let clients = urls.map(|url| {
        let command = format!("curl -s -m 50 --limit-rate 1M '{url}' | sha256sum");
        network.spawn("source", &["sh", "-c", &command])
    });
    // Waits until the metrics show both transfers.
    let is_running = |path: &str| {
        let event = format!("path_proxy_events_total{{path=\"{path}\",event=\"opened\"}} 1\n");
        network.get("router", STATUS, "/metrics").contains(&event)
    };
    network
        .wait_until("both transfers run", || is_running("classical") && is_running("transparent"));
    fs::write(&path, paths(", deny = [\"a.example\"], host-connections = 9")).unwrap();
    router.reload();
    let reloaded = || network.get("router", STATUS, "/metrics").contains("reloads_total{} 1\n");
    network.wait_until("the reload", reloaded);
    for url in urls {
        assert_eq!(status(&network, url, "-H 'Host: a.example'"), "56", "{url}");
    }
    for client in clients {
        assert_eq!(client.finish(), right);
    }
    let report = router.stop();
    drop(server);
    assert_eq!(report["unaccounted"], 0, "{report:#}");
    for path in ["classical", "transparent"] {
        assert_eq!(proxied(&report, path, "opened"), 2, "{report:#}");
        assert_eq!(proxied(&report, path, "refused-host"), 1, "{report:#}");
    }
}

#[test]
fn the_example_is_valid_and_wrong_proxies_are_errors_with_a_suggestion() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/router/proxy.toml");
    let (status, text, errors) = outcome(millstream().args(["check", example]));
    assert_eq!(status, 0, "{errors}");
    assert!(text.contains("sites"), "{text}");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    for (rule, proxy, message, help) in [
        ("tcp", "kind = \"classical\"", "a classical proxy without a server", "for example to ="),
        (
            "tcp",
            "kind = \"classical\", to = \"10.2.0.9\"",
            "not an address and a port",
            "10.2.0.9:80",
        ),
        (
            "tcp",
            "kind = \"classical\", to = \"0.0.0.0:80\"",
            "no host can listen at 0.0.0.0:80",
            "a host's",
        ),
        ("udp", "kind = \"transparent\"", "matches more than TCP", "protocol = \"tcp\""),
        (
            "tcp",
            "kind = \"transparent\", to = \"10.2.0.9:80\"",
            "`to` of a transparent",
            "take it out",
        ),
        (
            "tcp",
            "kind = \"transparent\", deny = [\"a b\"]",
            "`a b` is not a host name",
            "*.example",
        ),
        ("tcp", "kind = \"transparent\", connections = 0", "`connections` of 0", "from 1 to 16384"),
        (
            "tcp",
            "kind = \"classical\", to = \"10.2.0.9:80\", buffer = \"1 KiB\"",
            "a buffer of 1024 bytes",
            "4 KiB",
        ),
        ("tcp", "kind = \"other\"", "unknown variant `other`", ""),
    ] {
        let text = file(&format!(
            "[[path]]\nname = \"p\"\nmatch = {{ protocol = \"{rule}\" }}\nproxy = {{ {proxy} }}\n"
        ));
        fs::write(&path, text).unwrap();
        let (status, _, errors) = outcome(millstream().arg("check").arg(&path));
        assert_eq!(status, 2, "{proxy}: {errors}");
        assert!(errors.contains(message) && errors.contains(help), "{proxy}: {errors}");
    }
}
