//! The rules of the header: ownership, errors without effect, bursts, marks.

use millstream_c::*;
use std::mem::offset_of;

use crate::driver::{Handle, contract};
use crate::random_calls;

#[test]
fn packets_are_conserved_under_random_calls() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut made = 0;
    for _ in 0..3_000 {
        let input: Vec<_> = (0..random.usize(20..900)).map(|_| random.u8(..)).collect();
        made += u32::from(random_calls::run(&input));
    }
    assert!(made > 1_000, "{made}");
}

#[test]
fn messages_name_the_stream_the_value_and_what_is_allowed() {
    let fails = |names, options: Options, contract: Contract| {
        Handle::new(names, options, &[contract]).err().unwrap()
    };
    let default = Options::default;
    let (status, text) = fails(("wf3q", ""), default(), contract());
    assert_eq!(status, MS_ERROR_DISCIPLINE);
    assert!(text.starts_with("no discipline `wf3q`; there are fifo, static-priority"), "{text}");
    assert!(text.ends_with("minbw"), "{text} is longer than the message");
    let unset = fails(("", ""), default(), contract());
    let text = "discipline is null; it must be a name, for example \"wf2q+\"";
    assert_eq!(unset, (MS_ERROR_POINTER, text.to_owned()));
    let no_period = fails(("edf", ""), default(), contract());
    let text = "stream 0: the discipline requires `period`, which the stream does not set";
    assert_eq!(no_period, (MS_ERROR_CONTRACT, text.to_owned()));
    let (status, text) = fails(("drr", "hilq"), default(), contract());
    let expected = "drr does not support structure `hilq`, but ring, scan, heap, dual-heap";
    assert_eq!((status, &*text), (MS_ERROR_STRUCTURE, expected));
    let hilq = fails(("dwcs", "hilq"), default(), contract());
    assert_eq!(hilq.0, MS_ERROR_STRUCTURE, "an approximation");
    for (of, expected) in [
        (Options { packet_limit: 0, ..default() }, "packet_limit is 0; it must be 1 to 16,777,216"),
        (Options { dwcs_rules: 2, ..default() }, "dwcs_rules is 2; it must be 0 or 1"),
        (Options { link_rate_bps: 0, ..default() }, "link_rate_bps is 0; it must be 1 to 10^13"),
    ] {
        assert_eq!(fails(("fifo", ""), of, contract()), (MS_ERROR_RANGE, expected.to_owned()));
    }
    let late = Contract { late: 9, ..contract() };
    let (status, text) = fails(("fifo", ""), default(), late);
    let expected = "stream 0: late is 9; it must be MS_LATE_SEND or MS_LATE_DROP";
    assert_eq!((status, &*text), (MS_ERROR_RANGE, expected));
    let window = Contract { window_lost: 3, window_of: 2, ..contract() };
    assert_eq!(fails(("fifo", ""), default(), window).0, MS_ERROR_CONTRACT);
    let old = Contract { size: 8, ..contract() };
    assert_eq!(fails(("fifo", ""), default(), old).0, MS_ERROR_SIZE);
    assert_eq!(offset_of!(Contract, size), 0);
    assert_eq!(offset_of!(Options, size), 0);
}

#[test]
fn errors_have_no_effect() {
    let scheduler = Handle::new(("fifo", ""), Options::default(), &[contract()]).unwrap();
    assert_eq!(scheduler.enqueue(0, 1, 100, 50), MS_OK);
    assert_eq!(scheduler.enqueue(0, 2, 100, 49), MS_ERROR_TIME);
    assert_eq!(scheduler.enqueue(1, 2, 100, 60), MS_ERROR_STREAM);
    let ecn = Packet { ecn: 4, ..Packet::default() };
    assert_eq!(scheduler.enqueue_packet(&ecn, 60), MS_ERROR_RANGE);
    let mut burst = [Packet::default(), Packet { stream: 1, ..Packet::default() }];
    assert_eq!(scheduler.enqueue_burst(&mut burst, 60), Err(MS_ERROR_STREAM));
    assert_eq!(scheduler.dequeue(49), Err(MS_ERROR_TIME));
    assert_eq!(scheduler.charge(0, 1, 50), MS_ERROR_UNSUPPORTED);
    assert_eq!(scheduler.counters(1).err(), Some(MS_ERROR_STREAM));
    let counters = scheduler.counters(0).unwrap();
    assert_eq!((counters.arrived, scheduler.backlog()), (1, 1));
    assert_eq!(scheduler.dequeue(50).unwrap().unwrap().handle, 1);
    assert_eq!(scheduler.dequeue(50), Ok(None));
}

#[test]
fn dropped_packets_of_a_burst_are_at_its_beginning() {
    let contracts = [Contract { queue_packets: 2, ..contract() }, contract()];
    let scheduler = Handle::new(("fifo", ""), Options::default(), &contracts).unwrap();
    let mut burst: Vec<_> = [0, 0, 0, 1, 0, 1]
        .into_iter()
        .zip(10..)
        .map(|(stream, handle)| Packet { handle, stream, bytes: 9, ..Packet::default() })
        .collect();
    assert_eq!(scheduler.enqueue_burst(&mut burst, 5), Ok(2));
    assert_eq!((burst[0].handle, burst[1].handle), (12, 14));
    let mut decisions = [Decision::default(); 9];
    assert_eq!(scheduler.dequeue_burst(6, &mut decisions), Ok(4));
    let sent: Vec<_> = decisions[..4].iter().map(|of| of.handle).collect();
    assert_eq!(sent, [10, 11, 13, 15]);
}

#[test]
fn late_packets_wait_for_their_owner_and_enqueues_fail_if_it_does_not_come() {
    let drops = Contract { period_ns: 10, late: MS_LATE_DROP, ..contract() };
    let options = Options { packet_limit: 3, ..Options::default() };
    let scheduler = Handle::new(("edf", ""), options, &[drops]).unwrap();
    for handle in 0..3 {
        assert_eq!(scheduler.enqueue(0, handle, 100, 0), MS_OK);
    }
    assert_eq!(scheduler.enqueue(0, 3, 100, 0), MS_DROPPED_FULL);
    // Deadlines 10, 20 and 30: all have passed.
    assert_eq!(scheduler.dequeue(40), Ok(None));
    assert_eq!((scheduler.backlog(), scheduler.pending_drops()), (0, 3));
    assert_eq!(scheduler.enqueue(0, 4, 100, 40), MS_ERROR_DROPS);
    let mut decisions = [Decision::default(); 2];
    assert_eq!(scheduler.take_drops(&mut decisions), 2);
    let first = decisions[0];
    assert_eq!((first.handle, first.event, first.deadline_ns), (0, MS_EVENT_LATE, 10));
    assert_eq!(scheduler.enqueue(0, 5, 100, 40), MS_OK);
    assert_eq!(scheduler.take_drops(&mut decisions), 1);
    let counters = scheduler.counters(0).unwrap();
    assert_eq!((counters.arrived, counters.dropped_full, counters.dropped_late), (5, 1, 3));
    assert_eq!(counters.missed, 3);
}

#[test]
fn queue_management_marks_packets_that_can_be_marked() {
    let flows = Contract { flows: 8, aqm: MS_AQM_CODEL, ..contract() };
    let scheduler = Handle::new(("fifo", ""), Options::default(), &[flows]).unwrap();
    let (mut sent, mut marks, mut dropped) = (0, 0, 0);
    let mut decisions = [Decision::default(); 64];
    for step in 0..4_000u64 {
        let now_ns = step * 1_000_000;
        for flow_hash in 0..2 {
            let ecn = if flow_hash == 0 { MS_ECN_CAPABLE } else { MS_ECN_NOT_CAPABLE };
            let packet = Packet { handle: step, bytes: 1500, flow_hash, ecn, ..Packet::default() };
            assert_eq!(scheduler.enqueue_packet(&packet, now_ns), MS_OK);
        }
        let count = scheduler.dequeue_burst(now_ns, &mut decisions[..1]).unwrap();
        sent += count;
        marks += decisions[..count].iter().map(|of| of.mark).sum::<u32>();
        let taken = scheduler.take_drops(&mut decisions);
        dropped += taken;
        assert!(decisions[..taken].iter().all(|of| of.event == MS_EVENT_AQM && of.mark == 0));
    }
    assert!(sent > 3_900 && marks > 10 && dropped > 10, "{sent} {marks} {dropped}");
}
