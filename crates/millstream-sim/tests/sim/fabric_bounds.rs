//! Bounds on delays through a fabric: values worked out by hand.

use millstream_scenario::Scenario;
use millstream_sim::fabric::{Delivery, FabricListener, NoFabricBound, delay_bounds, prepare};
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
    // Through a crossbar, s1 takes as long: packets of s0 have no other output to wait for.
    let crossbar = format!("{PAIR}\nforwarding = \"store-and-forward\"");
    assert_eq!(bounds(&crossbar, &SOURCES).unwrap(), [10_100, 9_100]);
    // With cut-through, a packet is on both links at once.
    let cut_through = format!("{PAIR}\nforwarding = \"cut-through\"");
    assert_eq!(bounds(&cut_through, &SOURCES).unwrap(), [9_100, 5_100]);
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

/// With buffers for one packet, a link sends the next packet when the credits of the last one
/// return, 16.77 µs after its transmission began. So the second of two packets waits for 6.77 µs.
/// The bound counts that for both, as a wait may have begun before the first one came.
#[test]
fn a_window_of_one_packet_halves_the_rate_and_no_more() {
    let fabric = format!(
        "{PAIR}\nlargest-packet = 1250\nforwarding = \"store-and-forward\"\ninput-buffer = \"1280 \
         B\""
    );
    let one = "bytes = 1250, interval = \"20 us\"";
    assert_eq!(bounds(&fabric, &[one]).unwrap(), [20_100]);
    let two = "bytes = 1250, interval = \"40 us\", load = 0.5";
    assert_eq!(bounds(&fabric, &[two]).unwrap(), [20_100 + 10_000 + 2 * 6_767]);
    // 16.77 µs of each packet are more than there are.
    let more = "bytes = 1250, interval = \"33 us\", load = 0.606";
    assert!(matches!(bounds(&fabric, &[more]).unwrap_err(), NoFabricBound::Credits(..)));
}

/// The longest time from injection to delivery of each stream, ns.
#[derive(Debug, Default)]
struct LongestDelays([u64; 16]);

impl FabricListener for LongestDelays {
    fn delivered(&mut self, delivery: &Delivery) {
        let longest_ns = &mut self.0[usize::from(delivery.class)];
        *longest_ns = (*longest_ns).max(delivery.time_ns - delivery.injected_ns);
    }
}

/// With a little more than half of each link in use, a packet waits for a whole run, however long:
/// its input and its output by turns transfer packets of others, which overlap. With a little less
/// than half, it has a bound. So no theorem bounds all loads, for either arbiter; with cut-through,
/// at no speed-up either.
#[test]
fn a_packet_waits_for_a_whole_run_above_half_of_the_load() {
    let star = "topology = { kind = \"custom\", end-points = 3, switches = [3], cables = [[\"e0\", \
                \"s0:0\"], [\"e1\", \"s0:1\"], [\"e2\", \"s0:2\"]] }";
    let text = |rest: &str, long: u32, ms: u64| {
        format!(
            "[scenario]\nseed = 4\nduration = \"{ms} ms\"\n[link]\nrate = \"1 \
             Gbit/s\"\n[fabric]\n{star}\nlargest-packet = 1500\ninput-buffer = \"64 \
             KB\"\noutput-buffer = \"64 KB\"\n{rest}\n[scheduler]\ndiscipline = \
             \"fifo\"\n[[stream]]\nname = \"long\"\nsource = {{ kind = \"cbr\", bytes = {long}, \
             interval = \"20 us\" }}\n[[stream]]\nname = \"short\"\nsource = {{ kind = \"cbr\", \
             bytes = 64, interval = \"100 us\" }}\n"
        )
    };
    let stored = "forwarding = \"store-and-forward\"\nspeed-up = 1.0";
    let cut = "forwarding = \"cut-through\"\nspeed-up = 3.0";
    for (forwarding, bound_ns, longest_ns) in [
        (stored, 28_769, [4_960_376, 9_960_376, 19_960_376]),
        (cut, 126_902, [4_949_976, 9_949_976, 19_949_976]),
    ] {
        for arbiter in ["round-robin", "islip"] {
            let rest = format!("{forwarding}\narbiter = \"{arbiter}\"");
            let scenario = |long: u32, ms: u64| {
                Scenario::parse("text", &text(&rest, long, ms), Path::new("")).unwrap()
            };
            // 52.5 % of each link.
            for (ms, longest_ns) in [5, 10, 20].into_iter().zip(longest_ns) {
                let scenario = scenario(1_300, ms);
                let mut simulation = prepare(&scenario).unwrap().simulation;
                let reason = delay_bounds(&scenario, &simulation).unwrap_err();
                assert!(matches!(reason, NoFabricBound::Crossbar(_)), "{rest}: {reason}");
                let mut longest = LongestDelays::default();
                simulation.run(u64::MAX, &mut longest).unwrap();
                assert_eq!(longest.0[1], longest_ns, "{rest}, {ms} ms");
            }
            // 46.5 %.
            let scenario = scenario(1_150, 5);
            let simulation = prepare(&scenario).unwrap().simulation;
            assert_eq!(delay_bounds(&scenario, &simulation).unwrap()[1], bound_ns, "{rest}");
        }
    }
}

/// The virtual links of `examples/fabric/afdx.toml`, with values worked out by hand: 40 µs for each
/// of three transmissions, 16 µs for each of two switches, and 40 µs for each packet waited for.
/// v3 waits for v4 and v5 at the first switch, and for v1 at the second: v4, which comes over the
/// same line, has left by then. Runs from the worst starts of v3 and of v1 come within 2 ns.
#[test]
fn virtual_links_reach_their_bounds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fabric/afdx.toml");
    let text = std::fs::read_to_string(path).unwrap();
    // v1 waits for v2 at the first switch, and for v4 at the second.
    let of_v1 = text.replace("80 us", "3 us").replace("1 ms\" }", "2999 ns\" }");
    let of_v1 = of_v1.replace("start = \"2 ns\"", "start = \"2 ms\"");
    let of_v1 = of_v1.replace("start = \"1 ns\"", "start = \"42998 ns\"");
    for (text, class, longest_ns) in [(&text, 2, 271_998), (&of_v1, 0, 231_998)] {
        let scenario = Scenario::parse("afdx", text, Path::new("")).unwrap();
        let mut simulation = prepare(&scenario).unwrap().simulation;
        let bounds = delay_bounds(&scenario, &simulation).unwrap();
        assert_eq!(bounds, [232_000, 232_000, 272_000, 272_000, 272_000]);
        let mut longest = LongestDelays::default();
        simulation.run(u64::MAX, &mut longest).unwrap();
        assert_eq!(longest.0[class], longest_ns);
    }
}

/// Beside a virtual link of long packets from each end-point that sends, of a later priority, a
/// packet waits for one of them on each link, at most. These wait for all.
#[test]
fn virtual_links_of_an_earlier_priority_wait_for_one_packet_of_a_later_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fabric/afdx.toml");
    let mut text =
        std::fs::read_to_string(path).unwrap().replace("\"fifo\"", "\"static-priority\"");
    for from in 0..5 {
        text += &format!(
            "[[stream]]\nname = \"long{from}\"\npriority = 1\nsource = {{ kind = \"cbr\", bytes = \
             1500, interval = \"2 ms\", from = \"e{from}\", to = \"e{}\" }}\n",
            5 + from % 2
        );
    }
    let scenario = Scenario::parse("afdx", &text, Path::new("")).unwrap();
    let mut simulation = prepare(&scenario).unwrap().simulation;
    let bounds = delay_bounds(&scenario, &simulation).unwrap();
    // v1: 120 + 40 µs, 16 µs, 120 + 2·40 µs, 16 µs, 120 + 3·40 µs.
    assert_eq!(bounds[..5], [632_000, 592_000, 672_000, 672_000, 632_000]);
    // These wait for all others; not worked out by hand.
    assert_eq!(bounds[5..], [985_044, 825_044, 1_075_746, 992_000, 1_075_746]);
    let mut longest = LongestDelays::default();
    simulation.run(u64::MAX, &mut longest).unwrap();
    assert!(bounds.iter().zip(longest.0).all(|(bound_ns, of)| of <= *bound_ns), "{longest:?}");
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

/// The example of 64 end-points and 2,054 connections: with output queues, with crossbars and a
/// third of the load, and with crossbars.
fn large_fabrics() -> [String; 3] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fabric/bounds.toml");
    let output = std::fs::read_to_string(path).unwrap();
    let large = "buffering = \"crossbar\"\ninput-buffer = \"128 KB\"\noutput-buffer = \"64 KB\"";
    let crossbar = output.replace("buffering = \"output\"", large);
    let third = crossbar.replace("100 us", "300 us").replace("26 Mbit/s", "8666666 bit/s");
    let third = third.replace("0.082", "0.0273").replace("0.209", "0.0697");
    [output, third, crossbar]
}

/// Asserts whether a fabric of 2,054 connections has bounds. Prints the time that this takes;
/// `docs/src/guarantees.md` has that of a release build.
fn assert_large(text: &str, bounded: bool) {
    let scenario = Scenario::parse("text", text, Path::new("")).unwrap();
    let prepared = prepare(&scenario).unwrap();
    let connections: u64 = prepared.connections.iter().map(|of| of.admitted).sum();
    assert!(connections > 2_000, "{connections}");
    let start = Instant::now();
    let bounds = delay_bounds(&scenario, &prepared.simulation);
    println!("{connections} connections in {:?}: {bounds:?}", start.elapsed());
    assert_eq!(bounds.is_ok(), bounded);
}

#[test]
fn bounds_of_two_thousand_connections() {
    let [output, third, _] = large_fabrics();
    assert_large(&output, true);
    assert_large(&third, true);
}

#[test]
#[ignore = "takes 16 s without optimisation; make soak runs it"]
fn two_thousand_connections_through_full_crossbars_have_no_bounds() {
    let [_, _, crossbar] = large_fabrics();
    assert_large(&crossbar, false);
}
