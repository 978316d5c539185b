//! Tests the spacing of packets that leave a slow port, by kernel timestamps at the far end.
//!
//! The test holds on a machine that stalls: a router that wakes late sends late, and catches up
//! within the bound. `benches/peers/pacing.py` measures the delay of voice.

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use std::fs;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

use crate::network::Network;
use crate::packet;

const BYTES: usize = 1_500;
/// The number of consecutive packets per check.
const WINDOW: usize = 4;
/// The smallest allowed spacing, as a share of the line time.
const SPACING: f64 = 0.9;

fn file(rate_mbps: u64) -> String {
    format!(
        r#"
[router]
[[port]]
name = "a1"
kind = "interface"
rate = "1 Gbps"
[[port]]
name = "b1"
kind = "interface"
rate = "{rate_mbps} Mbps"
address = "10.2.0.1/24"
[[path]]
name = "all"
queue = 32
"#
    )
}

/// Returns the arrival times of the first `most` packets at the socket's device, ns.
fn arrivals(socket: &UdpSocket, most: usize) -> Vec<u64> {
    let mut times = Vec::new();
    let mut buffer = [0; BYTES];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    while times.len() < most {
        let mut data = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::empty();
        let fd = socket.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut data, Some(&mut control), flags).unwrap();
        for of in message.cmsgs().unwrap() {
            if let ControlMessageOwned::ScmTimestampns(time) = of {
                times.push(u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_nsec()).unwrap());
            }
        }
    }
    times
}

#[test]
fn packets_of_a_flood_leave_with_the_spacing_of_the_line_rate() {
    let network = Network::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("router.toml");
    network.execute("sink", &["ip", "address", "add", "10.2.0.2/24", "dev", "b0"]);
    let frame = packet(network.mac("router", "a1"), [10, 2, 0, 2], 0, BYTES);
    for (rate_mbps, packets, pause_us) in [(1, 60, 2_000), (20, 1_000, 200), (100, 4_000, 20)] {
        fs::write(&path, file(rate_mbps)).unwrap();
        let router = network.start(env!("CARGO_BIN_EXE_millstream"), &path);
        let (ready, listening) = mpsc::channel();
        let receiving = network.within("sink", move || {
            let socket = UdpSocket::bind("10.2.0.2:5001").unwrap();
            setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
            setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            ready.send(()).unwrap();
            arrivals(&socket, packets)
        });
        listening.recv().unwrap();
        // More packets than the line carries, until enough arrived: a stalled router loses some.
        let pause = Duration::from_micros(pause_us);
        let flood = network.flood_by("source", "a0", vec![frame.clone()], pause);
        let times = receiving.join().unwrap();
        flood.stop();
        let report = router.stop();
        let takes_ns = (BYTES * 8 * 1_000) as f64 / rate_mbps as f64;
        let least_ns = SPACING * takes_ns * (WINDOW - 1) as f64;
        for window in times.windows(WINDOW) {
            let apart_ns = (window[WINDOW - 1] - window[0]) as f64;
            assert!(
                // Clock steering changes the clocks of packets and router by at most 0.1 %.
                apart_ns >= 0.999 * least_ns,
                "{rate_mbps} Mbit/s: four packets within {apart_ns} ns, {least_ns} expected"
            );
        }
        let dropped = report["paths"][0]["dropped_full"].as_u64().unwrap();
        assert!(dropped > 0, "the line was never full: {report:#}");
        assert_eq!(report["unaccounted"], 0, "{report:#}");
    }
}
