//! Validation of `tcp`, `web` and `adaptive` sources.

use millstream_traffic::SizeDistribution;
use toml::Spanned;

use super::sizes::sizes;
use crate::error::Problem;
use crate::file::SourceTable;
use crate::network::{Adaptive, CongestionControl, LossRecovery, Tcp, Web};
use crate::validate::check_range;

/// The default length of a data packet: Ethernet's MTU.
const BYTES: u32 = 1_500;
const INITIAL_WINDOW: u32 = 10;
const RECEIVE_WINDOW: u64 = 16 << 20;
const MIN_RTO_NS: u64 = 200_000_000;
/// The default of the most connections at once of transfers that do not wait for others.
const MOST_CONNECTIONS: u32 = 1_000;

/// Validates the keys of a `tcp` source that runs in `times`.
pub(super) fn tcp(
    keys: &SourceTable,
    times: (u64, u64),
    problems: &mut Vec<Problem>,
) -> Option<Tcp> {
    let is_open = keys.interval.is_some() || keys.rate.is_some();
    let number = if is_open { MOST_CONNECTIONS } else { 1 };
    let mut tcp = connections(keys, times, (number, 65_536), problems)?;
    let segment_bytes = tcp.segment_bytes().into();
    let transfer = keys.transfer.as_ref();
    tcp.transfer = transfer.and_then(|given| sizes(given, "transfer", segment_bytes, problems));
    tcp.interval_ns = interval_ns(keys, tcp.transfer.as_ref(), problems);
    tcp.pause_ns = keys.pause.as_ref().map(|pause| pause.get_ref().0);
    Some(tcp)
}

/// Validates the keys of connections, `number` by default and up to `limit`, without those of their
/// transfers.
fn connections(
    keys: &SourceTable,
    (start_ns, stop_ns): (u64, u64),
    (number, limit): (u32, u32),
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
    let paces = matches!(control, CongestionControl::Prague | CongestionControl::Bbr);
    if let Some(given) =
        keys.pacing.as_ref().filter(|given| control == CongestionControl::Bbr && !*given.get_ref())
    {
        let message = "control = \"bbr\" without pacing";
        let help = "leave out `pacing`: its pace is that of its model";
        problems.push(Problem::new(given.span(), message).help(help));
    }
    let receive = keys.receive_window.as_ref().map_or(RECEIVE_WINDOW, |size| size.get_ref().0);
    let receive_window = receive.div_ceil(segment_bytes).max(1);
    Some(Tcp {
        connections: check_range(connections, number, 1..=limit, "`connections`", problems),
        control,
        recovery: keys.recovery.as_ref().map_or(LossRecovery::default(), |of| *of.get_ref()),
        rtt_ns,
        bytes,
        initial_window: check_range(
            window,
            INITIAL_WINDOW,
            1..=65_536,
            "`initial-window`",
            problems,
        ),
        receive_window: u32::try_from(receive_window).unwrap_or(u32::MAX),
        pacing: is_set(&keys.pacing, paces),
        ecn,
        hystart: is_set(&keys.hystart, true),
        ack_every: check_range(keys.ack_every.as_ref(), 2, 1..=64, "`ack-every`", problems),
        min_rto_ns: keys.min_rto.as_ref().map_or(MIN_RTO_NS, |time| time.get_ref().0.max(1)),
        transfer: None,
        interval_ns: None,
        pause_ns: None,
        start_ns,
        stop_ns,
    })
}

/// Returns the mean time between the beginnings of transfers of these sizes, ns; `None` without
/// `interval` or `rate`.
fn interval_ns(
    keys: &SourceTable,
    transfer: Option<&SizeDistribution>,
    problems: &mut Vec<Problem>,
) -> Option<u64> {
    let pause = keys.pause.as_ref().map(|pause| ("pause", pause.span()));
    let interval = keys.interval.as_ref().map(|interval| ("interval", interval.span()));
    let rate = keys.rate.as_ref().map(|rate| ("rate", rate.span()));
    let mut given = [pause, interval, rate].into_iter().flatten();
    let (key, span) = given.next()?;
    if keys.transfer.is_none() {
        let message = format!("`{key}` without `transfer`: the connection has no end");
        let help = "give its size, for example transfer = \"100 KB\"";
        problems.push(Problem::new(span, message).help(help));
        return None;
    }
    if let Some((other, span)) = given.next() {
        let message = format!("`{key}` and `{other}`: both say when transfers begin");
        let help = "`pause` after the end of the last one; `interval` or `rate` at random times";
        problems.push(Problem::new(span, message).help(help));
    }
    if let Some(interval) = &keys.interval {
        return Some(interval.get_ref().0);
    }
    let rate_bps = keys.rate.as_ref()?.get_ref().0;
    // At least 1 ns, so that time passes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    let interval_ns = (transfer?.mean() * 8e9 / rate_bps as f64).round().max(1.0) as u64;
    Some(interval_ns)
}

/// The defaults of pages: the medians of desktop home pages in the HTTP Archive of 2024 (Web
/// Almanac 2024, chapter "Page Weight": 71 requests, 2,652 kB, of which 18 kB HTML). The shape is
/// that of the body of file sizes in Barford and Crovella (SIGMETRICS 1998); the pause is the
/// reading time of IEEE 802.16m-08/004r5.
const HTML_BYTES: u64 = 18_000;
const OBJECTS: u32 = 70;
const OBJECT_BYTES: u64 = 37_600;
const OBJECT_SIGMA: f64 = 1.3;
const REQUEST_BYTES: u32 = 500;
const READING_NS: u64 = 30_000_000_000;
/// The most connections of a client to a server in browsers with HTTP/1.1.
const PARALLEL: u32 = 6;

/// Validates the keys of a `web` source that runs in `times`.
pub(super) fn web(
    keys: &SourceTable,
    times: (u64, u64),
    problems: &mut Vec<Problem>,
) -> Option<Web> {
    let tcp = connections(keys, times, (PARALLEL, 64), problems)?;
    let segment_bytes = tcp.segment_bytes().into();
    let html = keys.html.as_ref().map(|given| sizes(given, "html", segment_bytes, problems));
    let object = keys.object.as_ref().map(|given| sizes(given, "object", segment_bytes, problems));
    Some(Web {
        tcp,
        clients: check_range(keys.clients.as_ref(), 1, 1..=10_000, "`clients`", problems),
        html: html.unwrap_or_else(|| Some(SizeDistribution::fixed(HTML_BYTES)))?,
        objects: check_range(keys.objects.as_ref(), OBJECTS, 0..=1_000, "`objects`", problems),
        object: object.unwrap_or_else(|| {
            Some(SizeDistribution::lognormal(OBJECT_BYTES, OBJECT_SIGMA, None))
        })?,
        request_bytes: check_range(
            keys.request.as_ref(),
            REQUEST_BYTES,
            1..=65_535,
            "`request`",
            problems,
        ),
        pause_ns: keys.pause.as_ref().map_or(READING_NS, |pause| pause.get_ref().0),
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
