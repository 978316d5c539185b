//! A sender against a receiver, packet by packet.

use super::*;
use crate::network::receiver::Receiver;
use crate::network::round_trip::MAX_RTO_NS;
use millstream_scenario::CongestionControl;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn tcp() -> Tcp {
    Tcp {
        connections: 1,
        control: CongestionControl::Reno,
        recovery: LossRecovery::Rack,
        rtt_ns: 100 * MS,
        bytes: 1_500,
        initial_window: 10,
        receive_window: 1_000,
        pacing: false,
        ecn: false,
        hystart: false,
        ack_every: 1,
        min_rto_ns: 200 * MS,
        transfer: None,
        interval_ns: None,
        pause_ns: None,
        start_ns: 0,
        stop_ns: u64::MAX,
    }
}

/// Sends all that the window permits.
fn send(sender: &mut Sender, now_ns: u64) -> Vec<u32> {
    std::iter::from_fn(|| sender.next_packet(now_ns)).collect()
}

/// Delivers packets sent at `sent_ns`, except `lost`, and their acknowledgements at `now_ns`.
/// Returns what is sent for each.
fn deliver(
    (sender, receiver): (&mut Sender, &mut Receiver),
    packets: &[u32],
    lost: &[u32],
    (sent_ns, now_ns): (u64, u64),
) -> Vec<u32> {
    let mut sent = Vec::new();
    for packet in packets.iter().filter(|packet| !lost.contains(packet)) {
        if let Some(ack) = receiver.receive(*packet, sent_ns, false, now_ns) {
            sender.acknowledged(&ack, now_ns);
            sent.extend(send(sender, now_ns));
        }
    }
    sent
}

#[test]
fn slow_start_doubles_the_window_in_a_round_trip() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), u32::MAX, 1), Receiver::new(1));
    let first = send(&mut sender, 0);
    assert_eq!(first, (0..10).collect::<Vec<_>>());
    let second = deliver((&mut sender, &mut receiver), &first, &[], (0, 100 * MS));
    assert_eq!(second, (10..30).collect::<Vec<_>>());
    assert_eq!(sender.window_packets(), 20);
    let third = deliver((&mut sender, &mut receiver), &second, &[], (100 * MS, 200 * MS));
    assert_eq!((third.len(), sender.window_packets()), (40, 40));
}

/// RFC 6675: the third packet above the gap shows the loss, which is repaired without a timeout.
#[test]
fn a_lost_packet_is_sent_again_after_three_later_ones() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), u32::MAX, 1), Receiver::new(1));
    let first = send(&mut sender, 0);
    let sent = deliver((&mut sender, &mut receiver), &first, &[2], (0, 100 * MS));
    // Two acknowledgements in slow start send 2 packets each. Two selective ones send a packet each
    // (RFC 3042), the third sends packet 2 again.
    assert_eq!(sent[..7], [10, 11, 12, 13, 14, 15, 2]);
    assert!(matches!(sender.recovery, Recovery::Fast { point: 16, .. }));
    assert_eq!(sender.slow_start_threshold / PACKET, 6);
    let rest = deliver((&mut sender, &mut receiver), &sent, &[], (100 * MS, 200 * MS));
    assert_eq!(sender.recovery, Recovery::None);
    assert!(rest.windows(2).all(|pair| pair[1] == pair[0] + 1), "{rest:?}");
    assert_eq!((sender.retransmissions, sender.timeouts), (1, 0));
    assert_eq!(sender.window_packets(), 6);
}

/// Proportional rate reduction sends about one packet for two that arrive, so that half of the
/// window is in flight at the end.
#[test]
fn a_recovery_halves_what_is_in_flight() {
    let options = Tcp { initial_window: 100, ..tcp() };
    let (mut sender, mut receiver) = (Sender::new(&options, u32::MAX, 1), Receiver::new(1));
    let first = send(&mut sender, 0);
    let sent = deliver((&mut sender, &mut receiver), &first, &[0], (0, 100 * MS));
    assert!((50..=54).contains(&sent.len()), "{}", sent.len());
    assert_eq!(sender.in_flight(), 50);
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let options = Tcp { initial_window: 20, ..tcp() };
    let (mut sender, mut receiver) = (Sender::new(&options, u32::MAX, 1), Receiver::new(1));
    let first = send(&mut sender, 0);
    let second = deliver((&mut sender, &mut receiver), &first, &[5], (0, 100 * MS));
    assert!(second.contains(&5));
    let third = deliver((&mut sender, &mut receiver), &second, &[5], (100 * MS, 200 * MS));
    assert!(third.contains(&5), "{third:?}");
    deliver((&mut sender, &mut receiver), &third, &[], (200 * MS, 300 * MS));
    assert_eq!((sender.retransmissions, sender.timeouts), (2, 0));
    assert!(sender.una > 20);
}

/// RFC 8985, section 6.2: one later packet has arrived. The loss is found a quarter of the round
/// trip later, before a probe.
#[test]
fn a_loss_before_the_last_packet_is_found_by_the_timer_of_rack() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), 10, 1), Receiver::new(1));
    sender.connected(40 * MS, 0);
    let packets = send(&mut sender, 0);
    let sent = deliver((&mut sender, &mut receiver), &packets, &[8], (0, 40 * MS));
    assert_eq!((sent, sender.timer_ns()), (vec![], 50 * MS));
    sender.timer(50 * MS);
    assert_eq!(send(&mut sender, 50 * MS), [8]);
    assert!(matches!(sender.recovery, Recovery::Fast { point: 10, .. }));
    deliver((&mut sender, &mut receiver), &[8], &[], (50 * MS, 90 * MS));
    assert!(sender.is_complete());
    assert_eq!((sender.timeouts, sender.retransmissions), (0, 1));
}

/// RFC 8985, section 6.2, step 4: in a recovery, one later packet shows a loss at once, here that
/// of a retransmission. The timeout begins again when it is sent.
#[test]
fn in_a_recovery_one_later_packet_shows_a_loss() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), 17, 1), Receiver::new(1));
    let first = send(&mut sender, 0);
    let second = deliver((&mut sender, &mut receiver), &first, &[2], (0, 100 * MS));
    assert_eq!(second, [10, 11, 12, 13, 14, 15, 2, 16]);
    let third = deliver((&mut sender, &mut receiver), &second, &[2], (100 * MS, 200 * MS));
    assert_eq!(third, [2]);
    assert_eq!((sender.timeouts, sender.retransmissions), (0, 2));
    assert_eq!(sender.timer_ns(), 200 * MS + sender.times.timeout_ns());
}

/// A timeout sends the first packet, and leaves a later one in flight that was sent just now.
#[test]
fn a_timeout_of_rack_keeps_recent_packets_in_flight() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), 5, 1), Receiver::new(1));
    sender.connected(100 * MS, 0);
    let packets = send(&mut sender, 0);
    deliver((&mut sender, &mut receiver), &packets[..1], &[], (0, 100 * MS));
    sender.extend(6);
    assert_eq!(send(&mut sender, 250 * MS), [5]);
    sender.probe_ns = u64::MAX;
    assert_eq!(sender.timer_ns(), 350 * MS);
    sender.timer(350 * MS);
    assert_eq!((sender.timeouts, sender.in_flight()), (1, 1));
    assert_eq!(send(&mut sender, 350 * MS), [1]);
    assert_eq!(sender.window_packets(), 2);
}

fn rfc6675() -> Tcp {
    Tcp { recovery: LossRecovery::Rfc6675, ..tcp() }
}

/// RFC 6675 sends each lost packet once; no other packet shows that it is lost again.
#[test]
fn with_rfc6675_a_lost_retransmission_waits_for_the_timeout() {
    let options = Tcp { initial_window: 20, ..rfc6675() };
    let (mut sender, mut receiver) = (Sender::new(&options, u32::MAX, 1), Receiver::new(1));
    let mut packets = send(&mut sender, 0);
    for round in 1..=4 {
        let times = ((round - 1) * 100 * MS, round * 100 * MS);
        packets = deliver((&mut sender, &mut receiver), &packets, &[5], times);
        assert_eq!(packets.contains(&5), round == 1, "{packets:?}");
    }
    assert_eq!((sender.una, sender.retransmissions, sender.timeouts), (5, 1, 0));
    // Packet 4 was acknowledged at 100 ms, with a round-trip time of 100 ms and no variation.
    assert_eq!(sender.timer_ns(), 300 * MS);
    sender.timer(400 * MS);
    assert_eq!(send(&mut sender, 400 * MS), [5]);
    assert_eq!((sender.window_packets(), sender.timeouts), (1, 1));
}

/// RFC 6675, section 4, `NextSeg` without new data: after lost packets, rule 4 sends the last
/// packet once, and rule 3 a gap that is not lost yet.
#[test]
fn with_rfc6675_the_end_of_the_data_is_sent_again() {
    let (mut sender, mut receiver) = (Sender::new(&rfc6675(), 10, 1), Receiver::new(1));
    let packets = send(&mut sender, 0);
    let sent = deliver((&mut sender, &mut receiver), &packets, &[2, 7, 9], (0, 100 * MS));
    assert_eq!(sent, [2, 9, 7]);
    assert_eq!((sender.retransmissions, sender.in_flight()), (3, 3));
    assert!(send(&mut sender, 100 * MS).is_empty());
}

/// There are no probes, and the timeout doubles.
#[test]
fn with_rfc6675_lost_last_packets_wait_for_the_timeout() {
    let (mut sender, mut receiver) = (Sender::new(&rfc6675(), 10, 1), Receiver::new(1));
    sender.connected(50 * MS, 0);
    let packets = send(&mut sender, 0);
    deliver((&mut sender, &mut receiver), &packets, &[7, 8, 9], (0, 50 * MS));
    assert_eq!(sender.timer_ns(), 250 * MS);
    sender.timer(250 * MS);
    assert_eq!(send(&mut sender, 250 * MS), [7]);
    assert_eq!(sender.timer_ns(), 650 * MS);
}

/// RFC 3465, section 2.3: the acknowledgement of a retransmission after a timeout covers packets
/// that arrived long ago, and the window grows by one packet.
#[test]
fn packets_that_arrived_before_a_timeout_do_not_open_the_window() {
    let options = Tcp { initial_window: 20, ..rfc6675() };
    let (mut sender, mut receiver) = (Sender::new(&options, u32::MAX, 1), Receiver::new(1));
    let first = send(&mut sender, 0);
    deliver((&mut sender, &mut receiver), &first, &[0], (0, 100 * MS));
    sender.timer(1_000 * MS);
    assert_eq!((send(&mut sender, 1_000 * MS), sender.sacked.count()), (vec![0], 19));
    let sent = deliver((&mut sender, &mut receiver), &[0], &[], (1_000 * MS, 1_100 * MS));
    assert_eq!((sender.una, sender.window_packets(), sent.len()), (20, 2, 2));
}

/// RFC 5681, section 3.1: the threshold is held if the packet has timed out before, and no other.
#[test]
fn a_timeout_of_another_packet_lowers_the_threshold() {
    let options = Tcp { initial_window: 20, ..rfc6675() };
    let (mut sender, mut receiver) = (Sender::new(&options, u32::MAX, 1), Receiver::new(1));
    send(&mut sender, 0);
    sender.timer(1_000 * MS);
    assert_eq!(sender.slow_start_threshold, 10 * PACKET);
    sender.timer(3_000 * MS);
    assert_eq!(sender.slow_start_threshold, 10 * PACKET);
    assert_eq!(send(&mut sender, 3_000 * MS), [0]);
    let sent = deliver((&mut sender, &mut receiver), &[0], &[], (3_000 * MS, 3_100 * MS));
    assert_eq!(sent, [1, 2]);
    sender.timer(sender.timer_ns());
    assert_eq!((sender.slow_start_threshold, sender.timeouts), (2 * PACKET, 3));
}

#[test]
fn a_timeout_sends_everything_again_in_slow_start() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), u32::MAX, 1), Receiver::new(1));
    sender.connected(100 * MS, 0);
    send(&mut sender, 0);
    assert_eq!(sender.timer_ns(), 200 * MS);
    sender.timer(200 * MS);
    assert_eq!(send(&mut sender, 200 * MS), [10], "a probe");
    assert_eq!(sender.timer_ns(), 500 * MS);
    sender.timer(500 * MS);
    assert_eq!(send(&mut sender, 500 * MS), [0]);
    assert_eq!(sender.timer_ns(), 500 * MS + 600 * MS, "the timeout has doubled");
    let sent = deliver((&mut sender, &mut receiver), &[0], &[], (500 * MS, 600 * MS));
    assert_eq!(sent, [1, 2]);
    let sent = deliver((&mut sender, &mut receiver), &sent, &[], (600 * MS, 700 * MS));
    assert_eq!(sent, [3, 4, 5, 6]);
    assert_eq!((sender.timeouts, sender.retransmissions), (1, 7));
    assert_eq!(sender.slow_start_threshold / PACKET, 5);
}

/// RFC 8985, section 7: the last packets of a transfer are lost. The last one is sent again after
/// two round trips, and shows the loss of the others.
#[test]
fn a_probe_finds_the_loss_of_the_last_packets() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), 10, 1), Receiver::new(1));
    sender.connected(50 * MS, 0);
    let packets = send(&mut sender, 0);
    let sent = deliver((&mut sender, &mut receiver), &packets, &[7, 8, 9], (0, 50 * MS));
    assert_eq!((sent, sender.timer_ns()), (vec![], 150 * MS));
    sender.timer(150 * MS);
    assert_eq!(send(&mut sender, 150 * MS), [9]);
    let sent = deliver((&mut sender, &mut receiver), &[9], &[], (150 * MS, 200 * MS));
    assert_eq!(sent, [7, 8]);
    assert!(matches!(sender.recovery, Recovery::Fast { point: 10, .. }));
    deliver((&mut sender, &mut receiver), &sent, &[], (200 * MS, 250 * MS));
    assert!(sender.is_complete());
    assert_eq!((sender.timeouts, sender.retransmissions), (0, 3));
}

/// A probe that repairs the only loss reduces the window, once more data is acknowledged. If its
/// packet had arrived before, it does not.
#[test]
fn a_probe_that_repairs_a_loss_reduces_the_window() {
    for is_lost in [true, false] {
        let (mut sender, mut receiver) = (Sender::new(&tcp(), 10, 1), Receiver::new(1));
        sender.connected(50 * MS, 0);
        let packets = send(&mut sender, 0);
        deliver((&mut sender, &mut receiver), &packets[..9], &[], (0, 50 * MS));
        let alone_ns = sender.timer_ns();
        assert_eq!(alone_ns, 190 * MS, "two round trips and the delay of an acknowledgement");
        sender.timer(alone_ns);
        assert_eq!(send(&mut sender, alone_ns), [9]);
        let window = sender.window_packets();
        let arrivals: &[u32] = if is_lost { &[9] } else { &[9, 9] };
        deliver((&mut sender, &mut receiver), arrivals, &[], (0, alone_ns + 50 * MS));
        assert!(sender.is_complete());
        sender.extend(12);
        let now_ns = alone_ns + 50 * MS;
        let more = send(&mut sender, now_ns);
        deliver((&mut sender, &mut receiver), &more, &[], (now_ns, now_ns + 50 * MS));
        let reduced = sender.window_packets() < window;
        assert_eq!(reduced, is_lost, "{} of {window}", sender.window_packets());
    }
}

#[test]
fn a_transfer_ends_when_all_its_packets_are_acknowledged() {
    let (mut sender, mut receiver) = (Sender::new(&tcp(), 7, 1), Receiver::new(1));
    let packets = send(&mut sender, 0);
    assert_eq!(packets.len(), 7);
    assert!(!sender.is_complete());
    deliver((&mut sender, &mut receiver), &packets, &[], (0, 100 * MS));
    assert!(sender.is_complete());
    assert_eq!(sender.timer_ns(), u64::MAX);
}

#[test]
fn paced_packets_leave_at_twice_the_window_per_round_trip_in_slow_start() {
    let options = Tcp { pacing: true, ..tcp() };
    let mut sender = Sender::new(&options, u32::MAX, 1);
    sender.connected(100 * MS, 0);
    assert_eq!(send(&mut sender, 0), [0]);
    assert_eq!(sender.timer_ns(), 5 * MS);
    assert_eq!(send(&mut sender, 5 * MS), [1]);
    assert!(send(&mut sender, 9 * MS).is_empty());
}

/// A window is reduced once per round trip, whatever number of its packets were marked.
#[test]
fn marks_reduce_the_window_once_per_round_trip() {
    let options = Tcp { control: CongestionControl::Cubic, ecn: true, ..tcp() };
    let mut sender = Sender::new(&options, u32::MAX, 1);
    send(&mut sender, 0);
    for packet in 0..5 {
        let ack = Ack { cumulative: packet + 1, marks: packet + 1, ..Ack::default() };
        sender.acknowledged(&ack, 100 * MS);
    }
    // 11 packets after the first acknowledgement, then 0.7 of them; the others are limited.
    assert_eq!(sender.window_packets(), 7);
}

/// Transfers 60 packets over a link of a packet a millisecond and a round trip of 40 ms, which
/// loses the transmissions that `lost` names. Returns when everything is acknowledged, ns. Each
/// loss may cost the longest timeout.
fn transfer(options: &Tcp, lost: &[bool]) -> u64 {
    let losses = lost.iter().map(|&is_lost| u64::from(is_lost)).sum::<u64>();
    let limit_ns = (losses + 1) * MAX_RTO_NS;
    let (mut sender, mut receiver) = (Sender::new(options, 60, 1), Receiver::new(2));
    sender.connected(40 * MS, 0);
    let (mut data, mut acks) = (VecDeque::new(), VecDeque::new());
    let (mut now_ns, mut free_ns, mut sent) = (0, 0, 0);
    while !sender.is_complete() {
        for number in send(&mut sender, now_ns) {
            free_ns = now_ns.max(free_ns) + MS;
            if !lost.get(sent).copied().unwrap_or(false) {
                data.push_back((free_ns + 20 * MS, number, now_ns));
            }
            sent += 1;
        }
        let arrival_ns = data.front().map_or(u64::MAX, |packet| packet.0);
        let ack_ns = acks.front().map_or(u64::MAX, |ack: &(u64, Ack)| ack.0);
        now_ns = arrival_ns.min(ack_ns).min(sender.timer_ns()).min(receiver.due_ns());
        assert!(now_ns < limit_ns, "{sender:?}");
        if sender.timer_ns() <= now_ns {
            sender.timer(now_ns);
        } else if ack_ns <= now_ns {
            sender.acknowledged(&acks.pop_front().unwrap().1, now_ns);
        } else {
            let ack = if arrival_ns <= now_ns {
                let (_, number, sent_ns) = data.pop_front().unwrap();
                receiver.receive(number, sent_ns, false, now_ns)
            } else {
                Some(receiver.acknowledge())
            };
            acks.extend(ack.map(|ack| (now_ns + 20 * MS, ack)));
        }
    }
    assert_eq!((receiver.received(), sender.in_flight()), (60, 0));
    now_ns
}

/// The first ten packets are lost, then the first one again eight times. Its timeout doubles from
/// 200 ms to 51.2 s, so it arrives after 102.2 s; every later loss costs 60 s.
#[test]
fn a_transfer_ends_after_many_losses_of_the_same_packet() {
    for (losses, ended_s) in [(18, 102), (19, 162), (25, 522), (29, 762)] {
        let ended_ns = transfer(&rfc6675(), &vec![true; losses]);
        assert_eq!(ended_ns / (1_000 * MS), ended_s, "{losses} losses");
    }
}

proptest! {
    /// Whatever is lost, a transfer ends with nothing in flight.
    #[test]
    fn a_transfer_ends_whatever_is_lost(lost in prop::collection::vec(any::<bool>(), 0..150)) {
        let bbr = Tcp { control: CongestionControl::Bbr, pacing: true, ..tcp() };
        for options in [tcp(), rfc6675(), bbr] {
            transfer(&options, &lost);
        }
    }
}
