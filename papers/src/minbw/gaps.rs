//! Figure 1: WFQ-CA's virtual time stops while the management channel transmits.
//!
//! The figure maps the real time t to t′, which leaves out the management channel's transmissions;
//! events within such a gap count at its start. Hence a link with management packets must serve
//! its other packets in the order in which a link without them does if they arrive at t′.

use miette::{IntoDiagnostic, miette};
use millstream::{Packet, StreamId};

use super::network::{LARGEST_BYTES, LINK, egress};

/// Time of a byte on the link, ns.
const BYTE_NS: u64 = 4;
/// Fair-queuing channels, from 1 on; channel 0 is the management channel.
const CHANNELS: u64 = 6;

/// A packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    time_ns: u64,
    channel: u32,
    bytes: u32,
}

/// A packet's transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Service {
    begins_ns: u64,
    ends_ns: u64,
    channel: u32,
    /// Index of the packet's arrival.
    arrival: usize,
}

/// The order of service with and without management packets.
pub(super) struct Orders {
    /// Packets of the fair-queuing channels.
    pub(super) packets: usize,
    /// Positions that differ from the order on a link without management packets, arrivals at t′.
    pub(super) differ: usize,
    /// Positions that differ from the order with arrivals at t, of a virtual time without gaps.
    pub(super) differ_in_real_time: usize,
    /// Gaps in t.
    pub(super) gaps: usize,
}

/// Serves `arrivals`, in order of time, on a link under WFQ-CA.
fn serve(arrivals: &[Arrival]) -> miette::Result<Vec<Service>> {
    let wfq = 0;
    let mut scheduler = egress(wfq)?.scheduler(&LINK, 1, None).into_diagnostic()?;
    let mut services = Vec::with_capacity(arrivals.len());
    let (mut now_ns, mut next) = (0, 0);
    while services.len() < arrivals.len() {
        while let Some(arrival) = arrivals.get(next).filter(|of| of.time_ns <= now_ns) {
            let packet = Packet { bytes: arrival.bytes, tag: next as u64 };
            let refused = scheduler.enqueue(arrival.time_ns, StreamId(arrival.channel), packet);
            refused.map_err(|_| miette!("an unlimited queue rejected a packet"))?;
            next += 1;
        }
        let Some(departure) = scheduler.decide(now_ns, &mut ()) else {
            let arrival = arrivals.get(next).ok_or_else(|| miette!("a packet was lost"))?;
            now_ns = arrival.time_ns;
            continue;
        };
        let ends_ns = now_ns + u64::from(departure.bytes) * BYTE_NS;
        services.push(Service {
            begins_ns: now_ns,
            ends_ns,
            channel: departure.stream.0,
            arrival: usize::try_from(departure.tag).into_diagnostic()?,
        });
        // Arrivals during the transmission reach the scheduler in time order, before the decision.
        now_ns = ends_ns;
    }
    Ok(services)
}

/// Returns t′ of a time t, given the gaps in t in order.
fn without_gaps(time_ns: u64, gaps: &[(u64, u64)]) -> u64 {
    let passed = gaps.iter().take_while(|(begins_ns, _)| *begins_ns < time_ns);
    time_ns - passed.map(|(begins_ns, ends_ns)| time_ns.min(*ends_ns) - begins_ns).sum::<u64>()
}

/// Returns random arrivals: a load of about 95 %, a tenth of the packets in channel 0.
fn arrivals(count: usize) -> Vec<Arrival> {
    let mut state = 1_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % limit
    };
    let mut time_ns = 0;
    let mut arrival = |_| {
        time_ns += below(2 * 4_900);
        let channel = if below(10) == 0 { 0 } else { 1 + below(CHANNELS) };
        let bytes = 64 + below(u64::from(LARGEST_BYTES) - 63);
        let narrow = |of: u64| u32::try_from(of).unwrap_or(u32::MAX);
        Arrival { time_ns, channel: narrow(channel), bytes: narrow(bytes) }
    };
    (0..count).map(&mut arrival).collect()
}

/// Compares the orders of `count` random packets.
pub(super) fn compare(count: usize) -> miette::Result<Orders> {
    let all = arrivals(count);
    let services = serve(&all)?;
    let (management, others): (Vec<Service>, Vec<Service>) =
        services.into_iter().partition(|service| service.channel == 0);
    let gaps: Vec<(u64, u64)> = management.iter().map(|gap| (gap.begins_ns, gap.ends_ns)).collect();
    let numbers: Vec<usize> = (0..count).filter(|number| all[*number].channel > 0).collect();
    let differ = |time: &dyn Fn(u64) -> u64| -> miette::Result<usize> {
        let moved: Vec<Arrival> = numbers
            .iter()
            .map(|number| Arrival { time_ns: time(all[*number].time_ns), ..all[*number] })
            .collect();
        let services = serve(&moved)?;
        let pairs = services.iter().zip(&others);
        Ok(pairs.filter(|(one, other)| numbers[one.arrival] != other.arrival).count())
    };
    Ok(Orders {
        packets: others.len(),
        differ: differ(&|time_ns| without_gaps(time_ns, &gaps))?,
        differ_in_real_time: differ(&|time_ns| time_ns)?,
        gaps: gaps.len(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{compare, without_gaps};

    #[test]
    fn events_within_a_gap_count_at_its_start() {
        let gaps = [(100, 150), (200, 300)];
        let mapped = [50, 100, 120, 150, 199, 200, 250, 300, 400].map(|t| without_gaps(t, &gaps));
        assert_eq!(mapped, [50, 100, 100, 100, 149, 150, 150, 150, 250]);
    }

    #[test]
    fn the_order_is_that_of_a_link_without_management_packets() {
        let orders = compare(2_000).unwrap();
        assert_eq!(orders.differ, 0);
        assert!(orders.gaps > 100 && orders.differ_in_real_time > 100);
        assert_eq!(orders.packets + orders.gaps, 2_000);
    }
}
