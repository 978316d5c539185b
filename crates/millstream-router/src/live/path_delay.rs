//! Bounds on the delay of paths from the reception of a packet to the end of its transmission.
//!
//! ```text
//! device ── input process ──> [ ] ── forwarding process ──> [ ] ── output process ── link
//!        2 cycles                  burst, start, run              start, run         link bound
//! ```
//!
//! Premises: the router has its core to itself, and its sleeps end in time: late wake-ups by the
//! kernel are not in the bound. A run of n packets takes at most n times the `cost` of its process.
//! A port receives at most `batch` packets at once, and `input-reservation` packets
//! per second. The path's packets are within its `max-rate` and `burst`; each has an IP header.
//!
//! - *Input.* A cycle of an input process is its longest sleep, a run in which it cannot wake, its
//!   wait for the CPU ([`CpuBound`]) and its run, which reads `batch` packets or all. If no more
//!   than `batch` packets arrive in a cycle, every packet is read by the second run after its
//!   arrival.
//! - *Forwarding.* The process is eligible from the first packet in its queue to the last. Packet n
//!   waits for n − 1 packets' `cost` at the process's share, for the start, and for its own run.
//! - *Output.* The process has sent a run when it has woken, waited and run, after the link has
//!   room. If that time is at most a tenth of `line-burst` less a packet, and no longer than a
//!   batch of the shortest packets, the link is busy from its first packet until none waits. So the
//!   delay is that of the link, after a late start.
//!
//! The input delays by up to its bound, so the forwarding process has a burst that is larger by the
//! path's rate times that. The link counts packets from when they are within the bucket: those that
//! come later leave as much later.

use millstream::bounds::Source;
use millstream_scenario::{
    InputMode, PathAction, Reservation, RouterPath, RouterScenario, SHORTEST_PACKET_BYTES,
};

use crate::ids::{IdVec, ProcessId};
use crate::live::admission::{admit, weight};
use crate::router::cpu_bound::{CpuBound, ProcessLimits};

/// ns in a second.
const SECOND_NS: u128 = 1_000_000_000;

/// A reservation in packets per second.
#[derive(Clone, Copy)]
struct PacketReservation {
    pps: u64,
    cost_ns: u64,
}

/// The processes of a router on one core.
struct Processes<'a> {
    scenario: &'a RouterScenario,
    bound: CpuBound,
    /// In the order of processes; `None` for paths that drop.
    reservations: Vec<Option<PacketReservation>>,
    link_delays_ns: Vec<Result<u64, String>>,
}

/// Returns the longest time from the reception of a packet of each path to the end of its
/// transmission, ns, or why it is not known, on a CPU of `frequency` cycles per second.
/// `longest_bytes` has the longest frame of each port.
///
/// # Errors
/// Returns why no path has a bound.
pub fn path_delays_ns(
    scenario: &RouterScenario,
    frequency: u64,
    longest_bytes: &[u32],
) -> Result<Vec<Result<u64, String>>, String> {
    let processes = Processes::new(scenario, frequency, longest_bytes)?;
    let paths = 0..scenario.paths.len();
    Ok(paths.map(|path| processes.delay_ns(path, longest_bytes)).collect())
}

impl<'a> Processes<'a> {
    fn new(
        scenario: &'a RouterScenario,
        frequency: u64,
        longest_bytes: &[u32],
    ) -> Result<Self, String> {
        let reserved = admit(scenario, frequency).map_err(|error| error.to_string())?;
        if scenario.cores > 1 {
            return Err("`cores` is above 1: packets change cores in unbounded time".to_owned());
        }
        if scenario.input == InputMode::Interrupt {
            return Err("`input = \"interrupt\"` reads packets before all other work".to_owned());
        }
        if scenario.gather_ns > 0 {
            return Err("paths wait for full batches; `gather = \"0 us\"` ends that".to_owned());
        }
        if let Some(port) = scenario.ports.iter().find(|port| port.is_ingress()) {
            return Err(format!("`{}` schedules packets a second time", port.name));
        }
        if let Some(path) = scenario.paths.iter().find(|path| path.proxy.is_some()) {
            return Err(format!("the proxy of `{}` makes packets", path.name));
        }
        let inputs = scenario
            .ports
            .iter()
            .map(|port| in_packets(port.input).ok_or(("input-reservation", port.name.as_str())));
        let paths = scenario.paths.iter().map(|path| match path.action {
            PathAction::Drop => Ok(None),
            PathAction::Forward => {
                in_packets(path.reservation).map(Some).ok_or(("reservation", path.name.as_str()))
            }
        });
        let outputs = scenario
            .ports
            .iter()
            .map(|port| in_packets(port.output).ok_or(("output-reservation", port.name.as_str())));
        let all = inputs.map(|of| of.map(Some)).chain(paths).chain(outputs.map(|of| of.map(Some)));
        let reservations = all.collect::<Result<Vec<_>, _>>().map_err(|(key, name)| {
            format!("`{name}` has no `{key}` in packets, with the `cost` of a packet")
        })?;
        let limits = reserved.iter().zip(&reservations).map(|(cycles, of)| ProcessLimits {
            weight: weight(*cycles),
            longest_run_ns: of.map_or(0, |of| of.cost_ns.saturating_mul(scenario.batch.into())),
        });
        let bound = CpuBound { processes: limits.collect::<IdVec<ProcessId, _>>() };
        let link_delays_ns = scenario.link_delays_ns(longest_bytes);
        Ok(Self { scenario, bound, reservations, link_delays_ns })
    }

    /// Returns the bound on the delay of a path, ns.
    fn delay_ns(&self, path: usize, longest_bytes: &[u32]) -> Result<u64, String> {
        let of = &self.scenario.paths[path];
        if of.action == PathAction::Drop {
            return Err("it drops its packets".to_owned());
        }
        if of.contract.flow_options().is_some() {
            return Err("its flows are scheduled".to_owned());
        }
        let Some(bucket) = of.contract.rate_cap() else {
            return Err("it has no `max-rate`: any burst may arrive".to_owned());
        };
        let bucket = Source { rate_bps: bucket.rate_bps.get(), burst_bytes: bucket.burst_bytes };
        let received = (0..self.scenario.ports.len())
            .filter(|port| of.matches.port.is_none_or(|from| from == *port))
            .map(|port| self.input_ns(port))
            .try_fold(0, |longest: u64, input| Ok::<_, String>(longest.max(input?)))?;
        // Of packets that were within the bucket up to `ns` ago.
        let packets = |ns| bucket.bytes_in(ns).div_ceil(SHORTEST_PACKET_BYTES.into());
        let forwarded = received.saturating_add(self.forwarding_ns(path, packets(received))?);
        let leaves = |port: &usize| self.scenario.may_pass(of, *port);
        let started = (0..self.scenario.ports.len())
            .filter(leaves)
            .map(|port| self.output_ns(port, longest_bytes[port]))
            .try_fold(0, |longest: u64, output| Ok::<_, String>(longest.max(output?)))?;
        let jitter_ns = forwarded.saturating_add(started);
        let delay_ns = jitter_ns.saturating_add(self.link_delays_ns[path].clone()?);
        let waiting = packets(delay_ns);
        if waiting > u64::from(of.queue) {
            return Err(format!("`queue` is {}, and {waiting} packets may wait", of.queue));
        }
        Ok(delay_ns)
    }

    /// Returns the longest time from a packet's reception by a port's device to the end of the run
    /// that reads it, ns.
    fn input_ns(&self, port: usize) -> Result<u64, String> {
        let of = &self.scenario.ports[port];
        let process = ProcessId(port);
        let cycle_ns = of.longest_sleep_ns.saturating_add(self.woken_ns(process));
        let pps = self.reservations[port].map_or(0, |of| of.pps);
        let arrived = (u128::from(pps) * u128::from(cycle_ns)).div_ceil(SECOND_NS);
        if arrived > u128::from(self.scenario.batch) {
            let batch = self.scenario.batch;
            return Err(format!(
                "{arrived} packets may arrive at `{}` between two reads of at most {batch}: \
                 `longest-sleep` or the batches of other processes are too long",
                of.name
            ));
        }
        Ok(cycle_ns.saturating_mul(2))
    }

    /// Returns the longest time from a packet's arrival in the input queue of a path to the end of
    /// the run that forwards it, with a burst of this many packets, ns.
    fn forwarding_ns(&self, path: usize, burst: u64) -> Result<u64, String> {
        let RouterPath { name, contract, .. } = &self.scenario.paths[path];
        let process = ProcessId(self.scenario.ports.len() + path);
        let Some(of) = self.reservations[process.0] else { return Ok(0) };
        let rate_bps = contract.rate_cap().map_or(0, |cap| cap.rate_bps.get());
        let needs = rate_bps.div_ceil(8 * u64::from(SHORTEST_PACKET_BYTES));
        // Its share of the core, which is what its weight is of all.
        let weights: u128 = self.bound.processes.iter().map(|of| u128::from(of.weight)).sum();
        let weight = u128::from(self.bound.processes[process].weight);
        let used = u128::from(needs) * u128::from(of.cost_ns) * weights;
        if needs > of.pps || used > weight * SECOND_NS {
            return Err(format!(
                "`max-rate` of `{name}` is up to {needs} packets/s, its `reservation` {}",
                of.pps
            ));
        }
        let ahead_ns = burst.saturating_sub(1).saturating_mul(of.cost_ns);
        let run_ns = self.bound.processes[process].longest_run_ns;
        Ok(self.bound.start_ns(process, ahead_ns).saturating_add(run_ns))
    }

    /// Returns the longest time from when a link has room to the end of the next run of its output
    /// process, ns.
    fn output_ns(&self, port: usize, longest_bytes: u32) -> Result<u64, String> {
        let of = &self.scenario.ports[port];
        let process = ProcessId(self.scenario.ports.len() + self.scenario.paths.len() + port);
        let late_ns = self.woken_ns(process);
        let ahead_ns = of.line_burst_ns;
        let longest_ns = of.slowest_link().transmission_ns(longest_bytes);
        if late_ns > ahead_ns.saturating_sub(longest_ns) / 10 {
            let needs_ns = late_ns.saturating_mul(10).saturating_add(longest_ns);
            return Err(format!(
                "the link of `{}` may wait for its output process; a `line-burst` of {} us \
                 prevents it",
                of.name,
                needs_ns.div_ceil(1_000)
            ));
        }
        let shortest_ns = of.fastest_link().transmission_ns(SHORTEST_PACKET_BYTES).max(1);
        if late_ns > shortest_ns.saturating_mul(self.scenario.batch.into()) {
            return Err(format!(
                "the link of `{}` may wait for its output process; a `batch` of {} prevents it",
                of.name,
                late_ns.div_ceil(shortest_ns)
            ));
        }
        Ok(late_ns)
    }

    /// Returns the longest time from when a process wants to wake to the end of its run, ns: a run
    /// in which it cannot wake, its wait and its run.
    fn woken_ns(&self, process: ProcessId) -> u64 {
        let run_ns = self.bound.processes[process].longest_run_ns;
        let start_ns = self.bound.start_ns(process, 0);
        self.bound.longest_run_ns().saturating_add(start_ns).saturating_add(run_ns)
    }
}

/// Returns the reservation if it is in packets.
fn in_packets(reservation: Option<Reservation>) -> Option<PacketReservation> {
    match reservation? {
        Reservation::Packets { pps, cost_ns } => Some(PacketReservation { pps, cost_ns }),
        Reservation::Cycles(_) => None,
    }
}

#[cfg(test)]
mod tests;
