//! Bounds on delays through a fabric: values worked out by hand.

use millstream_scenario::Scenario;
use millstream_sim::fabric::{NoFabricBound, delay_bounds, prepare};
use std::path::Path;
use std::time::Instant;

/// Returns the bounds of a fabric with links of 1 Gbit/s and a stream for each of `sources`.
fn bounds(fabric: &str, sources: &[&str]) -> Result<Vec<u64>, NoFabricBound> {
    let mut text = format!(
        "[scenario]\nduration = \"1 ms\"\n[link]\nrate = \"1 Gbit/s\"\n[fabric]\nlatency = \"100 \
         ns\"\n{fabric}\n[scheduler]\ndiscipline = \"wf2q+\"\n"
    );
    for (number, source) in sources.iter().enumerate() {
        text +=
            &format!("[[stream]]\nname = \"s{number}\"\nsource = {{ kind = \"cbr\", {source} }}\n");
    }
    let scenario = Scenario::parse("text", &text, Path::new("")).unwrap();
    delay_bounds(&scenario, &prepare(&scenario).unwrap().simulation)
}

/// Two end-points at a switch.
const PAIR: &str = "topology = { kind = \"custom\", end-points = 2, switches = [2], cables = \
                    [[\"e0\", \"s0:0\"], [\"e1\", \"s0:1\"]] }";

/// Packets of 1 µs and of 4 µs from each end-point to the other; input 0 has packets for output 1
/// only.
const SOURCES: [&str; 2] =
    ["bytes = 125, interval = \"100 us\"", "bytes = 500, interval = \"200 us\""];

#[test]
fn a_packet_waits_for_one_of_the_other_stream_on_each_link() {
    let output = format!("{PAIR}\nbuffering = \"output\"\nforwarding = \"store-and-forward\"");
    // On the first link, each waits for the other. On the second, s0 waits for the other again; s1
    // does not, since all before it have left when the line delivers it.
    // s0: 4 + 1 µs, 100 ns, 4 + 1 µs; s1: 1 + 4 µs, 100 ns, 4 µs. On both links together, s0 waits
    // for a packet of 4 µs on each, but at the rate of 98 % that the other leaves: 4 µs for the
    // packet that the switch stores, (4 + 2 % of 4)/0.98 µs for the burst, and 1/0.98 µs.
    assert_eq!(bounds(&output, &SOURCES).unwrap(), [4_000 + 4_164 + 1_021 + 100, 9_100]);
    // A crossbar may still hold a packet of s0 that came before, so s1 waits for 1 µs more.
    let crossbar = format!("{PAIR}\nforwarding = \"store-and-forward\"");
    assert_eq!(bounds(&crossbar, &SOURCES).unwrap(), [10_100, 10_100]);
    // With cut-through, a packet is on both links at once.
    let cut_through = format!("{PAIR}\nforwarding = \"cut-through\"");
    assert_eq!(bounds(&cut_through, &SOURCES).unwrap(), [9_100, 6_100]);
}

#[test]
fn credits_that_run_out_are_named_with_the_buffer_that_suffices() {
    // Twenty packets of 10 µs from each end-point in 201 µs, and buffers for one of them.
    let fabric = format!(
        "{PAIR}\nlargest-packet = 1250\nforwarding = \"store-and-forward\"\ninput-buffer = \"1280 \
         B\"\ndelay = \"50 us\""
    );
    let source = "bytes = 1250, interval = \"201 us\", load = 0.995";
    let reason = bounds(&fabric, &[source]).unwrap_err();
    let NoFabricBound::Credits(link, bytes) = &reason else { panic!("{reason}") };
    assert_eq!((link.as_str(), *bytes), ("end-point 0 to switch 0", 12 * 1_280), "{reason}");
    let fabric = fabric.replace("1280 B", &format!("{bytes} B"));
    assert!(bounds(&fabric, &[source]).is_ok());
}

/// Times of years saturate: no bound is shorter than they are.
#[test]
fn long_delays_of_links_do_not_wrap() {
    let far = "delay = \"9300000000000000000 ns\"";
    for buffering in ["output", "crossbar"] {
        let fabric = format!("{PAIR}\nbuffering = \"{buffering}\"\n{far}");
        let bounds = bounds(&fabric, &SOURCES);
        assert!(bounds.iter().flatten().all(|ns| *ns == u64::MAX), "{bounds:?}");
    }
}

/// The example of 64 end-points and 2,054 connections, and the same with crossbars and a third of
/// the load. Prints the time of each; `docs/src/guarantees.md` has that of a release build.
#[test]
fn bounds_of_two_thousand_connections() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fabric/bounds.toml");
    let output = std::fs::read_to_string(path).unwrap();
    let large = "buffering = \"crossbar\"\ninput-buffer = \"128 KB\"\noutput-buffer = \"64 KB\"";
    let crossbar = output.replace("buffering = \"output\"", large);
    let third = crossbar.replace("100 us", "300 us").replace("26 Mbit/s", "8666666 bit/s");
    let third = third.replace("0.082", "0.0273").replace("0.209", "0.0697");
    let cases = [("output queues", output), ("crossbars", third), ("not known", crossbar)];
    for (name, text) in cases {
        let scenario = Scenario::parse("text", &text, Path::new("")).unwrap();
        let prepared = prepare(&scenario).unwrap();
        let connections: u64 = prepared.connections.iter().map(|of| of.admitted).sum();
        assert!(connections > 2_000, "{name}: {connections}");
        let start = Instant::now();
        let bounds = delay_bounds(&scenario, &prepared.simulation);
        println!("{name}: {connections} connections in {:?}: {bounds:?}", start.elapsed());
        assert_eq!(bounds.is_ok(), name != "not known");
    }
}
