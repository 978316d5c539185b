//! Validation of `tcp` and `adaptive` sources.

use toml::Spanned;

use crate::error::Problem;
use crate::file::SourceTable;
use crate::network::{Adaptive, CongestionControl, Tcp};
use crate::validate::check_range;

/// The default length of a data packet: Ethernet's MTU.
const BYTES: u32 = 1_500;
const INITIAL_WINDOW: u32 = 10;
const RECEIVE_WINDOW: u64 = 16 << 20;
const MIN_RTO_NS: u64 = 200_000_000;

/// Validates the keys of a `tcp` source that runs in `times`.
pub(super) fn tcp(
    keys: &SourceTable,
    (start_ns, stop_ns): (u64, u64),
    problems: &mut Vec<Problem>,
) -> Option<Tcp> {
    let (least, most) = (Tcp::HEADER_BYTES + 1, 65_535);
    let bytes = check_range(keys.bytes.as_ref(), BYTES, least..=most, "packets", problems);
    let segment_bytes = u64::from(bytes.saturating_sub(Tcp::HEADER_BYTES)).max(1);
    let connections = keys.connections.as_ref();
    let window = keys.initial_window.as_ref();
    let rtt_ns = rtt_ns(keys, problems)?;
    let control = keys.control.as_ref().map_or(CongestionControl::default(), |of| *of.get_ref());
    let scalable = matches!(control, CongestionControl::Dctcp | CongestionControl::Prague);
    let is_set =
        |key: &Option<Spanned<bool>>, default| key.as_ref().map_or(default, |k| *k.get_ref());
    let ecn = is_set(&keys.ecn, scalable);
    if let Some(given) = keys.ecn.as_ref().filter(|_| scalable && !ecn) {
        let message = "a control that reacts to marks, without ECN";
        let help = "leave out `ecn`, or choose control = \"cubic\"";
        problems.push(Problem::new(given.span(), message).help(help));
    }
    let packets = |bytes: u64| bytes.div_ceil(segment_bytes).max(1);
    let transfer = keys.transfer.as_ref().map(|size| packets(size.get_ref().0));
    let packets_of_transfer = transfer.map(u32::try_from).transpose();
    if let (Err(_), Some(given)) = (&packets_of_transfer, &keys.transfer) {
        let message = "a `transfer` of more than 4,294,967,295 packets";
        let help = "leave it out: the connection then sends until `stop`";
        problems.push(Problem::new(given.span(), message).help(help));
    }
    if let (Some(pause), None) = (&keys.pause, &keys.transfer) {
        let message = "`pause` without `transfer`: the connection has no end";
        let help = "give its size, for example transfer = \"100 KB\"";
        problems.push(Problem::new(pause.span(), message).help(help));
    }
    let receive = keys.receive_window.as_ref().map_or(RECEIVE_WINDOW, |size| size.get_ref().0);
    Some(Tcp {
        connections: check_range(connections, 1, 1..=65_536, "`connections`", problems),
        control,
        rtt_ns,
        bytes,
        initial_window: check_range(
            window,
            INITIAL_WINDOW,
            1..=65_536,
            "`initial-window`",
            problems,
        ),
        receive_window: u32::try_from(packets(receive)).unwrap_or(u32::MAX),
        pacing: is_set(&keys.pacing, control == CongestionControl::Prague),
        ecn,
        hystart: is_set(&keys.hystart, true),
        ack_every: check_range(keys.ack_every.as_ref(), 2, 1..=64, "`ack-every`", problems),
        min_rto_ns: keys.min_rto.as_ref().map_or(MIN_RTO_NS, |time| time.get_ref().0.max(1)),
        packets: packets_of_transfer.unwrap_or(None),
        pause_ns: keys.pause.as_ref().map(|pause| pause.get_ref().0),
        start_ns,
        stop_ns,
    })
}

/// Returns the round-trip time, ns, and checks that it is not 0.
fn rtt_ns(keys: &SourceTable, problems: &mut Vec<Problem>) -> Option<u64> {
    let rtt = keys.rtt.as_ref()?;
    if rtt.get_ref().0 == 0 {
        let problem = Problem::new(rtt.span(), "a round-trip time of 0");
        problems.push(problem.help("for example rtt = \"40 ms\""));
    }
    Some(rtt.get_ref().0)
}

/// The default time between frames, and the default length of a packet.
const FRAME_NS: u64 = 40_000_000;
const MEDIA_BYTES: u32 = 1_200;

/// Validates the keys of an `adaptive` source that runs in `times`.
pub(super) fn adaptive(
    keys: &SourceTable,
    (start_ns, stop_ns): (u64, u64),
    problems: &mut Vec<Problem>,
) -> Option<Adaptive> {
    let rates = keys.rates.as_ref()?;
    let rates_bps: Vec<u64> = rates.get_ref().iter().map(|rate| rate.0).collect();
    if rates_bps.first().is_none_or(|rate| *rate == 0) || !rates_bps.is_sorted_by(|a, b| a < b) {
        let message = "`rates` that are not in increasing order, or none";
        let help = "for example rates = [\"400 kbit/s\", \"1 Mbit/s\", \"2.5 Mbit/s\"]";
        problems.push(Problem::new(rates.span(), message).help(help));
        return None;
    }
    let bytes = keys.bytes.as_ref();
    Some(Adaptive {
        rates_bps,
        interval_ns: keys
            .interval
            .as_ref()
            .map_or(FRAME_NS, |interval| interval.get_ref().0.max(1)),
        bytes: check_range(bytes, MEDIA_BYTES, 1..=65_535, "packets", problems),
        rtt_ns: rtt_ns(keys, problems)?,
        start_ns,
        stop_ns,
    })
}
