//! The model on a path with one bottleneck, packet by packet.

use super::*;

const MS: u64 = 1_000_000;

/// A path: the time of a packet at the bottleneck, the round-trip time without a queue, and the
/// packets that the bottleneck can hold.
struct Path {
    packet_ns: u64,
    rtt_ns: u64,
    buffer: usize,
}

/// What happened on a path.
#[derive(Default)]
struct Run {
    /// The states in their order, with the time of each beginning, ms.
    states: Vec<(State, u64)>,
    delivered: u64,
    lost: u64,
    /// The longest queue after 2 s, packets.
    queue: usize,
}

/// Sends on a path until `until_ms`.
fn run(path: &Path, until_ms: u64) -> Run {
    let mut bbr = Bbr::new(10, 1);
    let mut run = Run::default();
    let (mut now_ns, mut paced_ns, mut free_ns) = (path.rtt_ns, 0, 0);
    bbr.connected(now_ns, path.rtt_ns);
    // The packets that leave the bottleneck, by the time of their acknowledgement.
    let mut acks = VecDeque::<(u64, u32)>::new();
    let (mut next, mut resend) = (0, VecDeque::new());
    let mut lost = VecDeque::<(u64, u32)>::new();
    let mut in_flight = 0;
    run.states.push((bbr.state, 0));
    while now_ns < until_ms * MS {
        let may_send = u64::from(in_flight) < bbr.window() / PACKET;
        let send_ns = paced_ns.max(now_ns);
        let event_ns = acks.front().map_or(u64::MAX, |ack| ack.0);
        if may_send && send_ns <= event_ns {
            now_ns = send_ns;
            let number = resend.pop_front().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            in_flight += 1;
            bbr.sent(number, in_flight, now_ns);
            paced_ns = now_ns + bbr.pace_ns();
            let waiting = usize::try_from((free_ns.max(now_ns) - now_ns) / path.packet_ns).unwrap();
            if now_ns > 2_000 * MS {
                run.queue = run.queue.max(waiting);
            }
            if waiting < path.buffer {
                free_ns = free_ns.max(now_ns) + path.packet_ns;
                acks.push_back((free_ns + path.rtt_ns, number));
            } else {
                // Found when the next packet is acknowledged.
                lost.push_back((free_ns + path.rtt_ns, number));
            }
            continue;
        }
        let Some((at_ns, number)) = acks.pop_front() else { break };
        now_ns = at_ns;
        if !may_send {
            bbr.limited_by_window();
        }
        in_flight -= 1;
        run.delivered += 1;
        bbr.delivered(number, now_ns);
        while let Some((_, number)) = lost.pop_front_if(|lost| lost.0 < now_ns) {
            in_flight -= 1;
            run.lost += 1;
            bbr.lost(number, now_ns);
            resend.push_back(number);
        }
        bbr.acknowledged(in_flight, now_ns);
        if run.states.last().is_none_or(|last| last.0 != bbr.state) {
            run.states.push((bbr.state, now_ns / MS));
        }
    }
    run
}

/// 20 Mbit/s with packets of 1,500 bytes, 40 ms: a product of 67 packets.
const PATH: Path = Path { packet_ns: 600_000, rtt_ns: 40 * MS, buffer: 10_000 };

/// The states follow each other as in the draft. A probe of the round-trip time begins 5 s after
/// the last one has ended, and lasts 200 ms and a round trip.
#[test]
fn the_states_of_a_connection_alone() {
    let run = run(&PATH, 31_000);
    use State::*;
    let first = [(Startup, 0), (Drain, 479), (Cruise, 561), (Refill, 3_079), (Up, 3_119)];
    assert_eq!(run.states[..5], first);
    let probes = run.states.iter().filter(|state| state.0 == ProbeRtt);
    let probes: Vec<u64> = probes.map(|state| state.1).collect();
    assert_eq!(probes, [5_040, 10_264, 15_488, 20_711, 25_952]);
    for pair in run.states.windows(2) {
        let follows = match pair[0].0 {
            Startup => Drain,
            // Down ends with the acknowledgement that begins it if the queue is empty.
            Drain | ProbeRtt | Down => Cruise,
            Up => Down,
            Cruise => Refill,
            Refill => Up,
        };
        assert!(pair[1].0 == follows || pair[1].0 == ProbeRtt, "{pair:?}");
    }
    // The link can send 51,600 packets; the product is 67 packets.
    assert_eq!((run.delivered, run.lost, run.queue), (49_913, 0, 60));
}

/// A buffer of a tenth of the product: the long-term model keeps losses low.
#[test]
fn losses_in_a_short_buffer_lower_the_long_term_model() {
    let run = run(&Path { buffer: 7, ..PATH }, 30_000);
    assert_eq!((run.delivered, run.lost), (46_362, 291));
}

#[test]
fn a_windowed_maximum_forgets_old_values() {
    let mut filter = WindowedMax::default();
    let values = [(0, 5), (0, 3), (1, 4), (2, 1), (3, 2), (9, 1)];
    let maxima = values.map(|(time, value)| filter.update(time, value, 2));
    assert_eq!(maxima, [5, 5, 5, 4, 2, 1]);
    assert!(filter.entries.len() == 1);
}

/// The draft's `InflightAtLoss`: the second of 99 packets is one too many at 2 %.
#[test]
fn the_volume_at_which_losses_are_too_many() {
    let mut bbr = Bbr::new(100, 1);
    bbr.connected(40 * MS, 40 * MS);
    for number in 0..100 {
        bbr.sent(number, number + 1, 40 * MS);
    }
    bbr.is_probe_sample = true;
    bbr.lost(97, 80 * MS);
    assert_eq!((bbr.long_term, bbr.was_too_high), (u64::MAX, false));
    // 2 of 99 packets are more than 2 %. Before the last, 1 of 98 was lost: (0.02 × 98 − 1) / 0.98
    // of a packet more is at the limit.
    bbr.lost(98, 80 * MS);
    assert_eq!((bbr.long_term, bbr.was_too_high), (98 * PACKET + 96 * PACKET / 98, true));
    assert!(!bbr.is_probe_sample);
}
