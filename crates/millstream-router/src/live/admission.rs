//! Admission control: checks the configured CPU reservations and builds the router's plan.

use millstream::catalogue::Options;
use millstream_scenario::{InputMode, PathAction, PortKind, Reservation, RouterScenario};

use crate::error::PortError;
use crate::ids::{CoreId, IdVec, OutputId, ProcessId};
use crate::router::plan::{
    Batch, InputPlan, OutputPlan, PathPlan, Plan, ReadMode, Stages, WhenFull,
};
use crate::router::throttle::ThrottlePlan;

/// Cycles per second per unit of reservation in the CPU scheduler.
const CYCLES_PER_UNIT: u64 = 1_000;
/// The divisor of the minimum CPU share of a process without a reservation: 1/100 of the frequency.
/// Admission refuses reservations that leave less.
const MIN_SHARE_DIVISOR: u64 = 100;
/// The divisor of the input processes' share, which bounds the cost of overload. All input
/// processes without a reservation together get 1/32 of the share of another process without one.
const INPUT_SHARE_DIVISOR: u64 = 32;

/// Returns the reservation of each process, cycles per second, in the router's order. Forwarding
/// and output processes without a reservation share the remainder equally. Input processes without
/// one run in unused cycles, so excess packets are dropped by the device at no cost.
pub(super) fn admit(
    scenario: &RouterScenario,
    frequency: u64,
) -> Result<IdVec<ProcessId, u64>, PortError> {
    let mut reserved = IdVec::repeat(0, 2 * scenario.ports.len() + scenario.paths.len());
    for core in (0..scenario.cores).map(CoreId) {
        admit_on(scenario, frequency, core, &mut reserved)?;
    }
    Ok(reserved)
}

/// The core of a process and its reservation, cycles per second; `None` without one.
struct ProcessReservation {
    core: CoreId,
    cycles: Option<u64>,
}

fn process_reservations(scenario: &RouterScenario, frequency: u64) -> Vec<ProcessReservation> {
    let cycles = |reservation: Option<Reservation>| {
        reservation.map(|reservation| match reservation {
            Reservation::Cycles(cycles) => cycles,
            Reservation::Packets { pps, cost_ns } => {
                let cycles = u128::from(pps) * u128::from(cost_ns) * u128::from(frequency);
                u64::try_from(cycles / 1_000_000_000).unwrap_or(u64::MAX)
            }
        })
    };
    let of_port =
        |core, reservation| ProcessReservation { core: CoreId(core), cycles: cycles(reservation) };
    let inputs = scenario.ports.iter().map(|port| of_port(port.core, port.input));
    let paths = scenario.paths.iter().map(|path| ProcessReservation {
        core: CoreId(path.core),
        cycles: match path.action {
            PathAction::Forward => cycles(path.reservation),
            // Its process never runs.
            PathAction::Drop => Some(0),
        },
    });
    let outputs = scenario.ports.iter().map(|port| of_port(port.core, port.output));
    inputs.chain(paths).chain(outputs).collect()
}

/// Admits the processes of one core.
fn admit_on(
    scenario: &RouterScenario,
    frequency: u64,
    core: CoreId,
    reserved: &mut IdVec<ProcessId, u64>,
) -> Result<(), PortError> {
    let ports = scenario.ports.len();
    let all = process_reservations(scenario, frequency).into_iter().enumerate();
    let here: Vec<_> = all.filter(|(_, of)| of.core == core).collect();
    let least = frequency / MIN_SHARE_DIVISOR;
    let without = here.iter().filter(|(_, of)| of.cycles.is_none());
    let (without, inputs) =
        (without.clone().count() as u64, without.filter(|(at, _)| *at < ports).count() as u64);
    let total = here.iter().filter_map(|(_, of)| of.cycles).fold(0, u64::saturating_add);
    let have = frequency.saturating_sub(without * least);
    if total > have {
        let of_core = if scenario.cores > 1 { format!(" of core {core}") } else { String::new() };
        let message = format!(
            "the reservations{of_core} total {} Mcps, {} Mcps more than available",
            total / 1_000_000,
            (total - have).div_ceil(1_000_000)
        );
        let help = format!(
            "the CPU has {} Mcps; each of the {without} processes without a reservation keeps 1 %",
            frequency / 1_000_000
        );
        return Err(PortError::new(&scenario.ports[0].name, message).help(help));
    }
    let (left, others) = (frequency - total, (without - inputs).max(1));
    let input = (left / others / INPUT_SHARE_DIVISOR / inputs.max(1)).min(least);
    let other = (left - inputs * input) / others;
    let part = |at: usize| if at < ports { input } else { other };
    for (at, of) in here {
        reserved[ProcessId(at)] = of.cycles.unwrap_or(part(at));
    }
    Ok(())
}

/// Returns how the inputs of `scenario` are read. In interrupt mode, the port with the shortest
/// sleep limit sets the interval at which an idle router polls its devices.
pub fn read_mode(scenario: &RouterScenario) -> ReadMode {
    let longest = scenario.ports.iter().map(|port| port.longest_sleep_ns);
    match scenario.input {
        InputMode::Polled => ReadMode::Polled,
        InputMode::Interrupt => ReadMode::Interrupt { longest_sleep_ns: longest.min() },
    }
}

/// Deprecated alias of [`read_mode`].
#[deprecated(note = "renamed to `read_mode`")]
pub fn reading(scenario: &RouterScenario) -> ReadMode {
    read_mode(scenario)
}

/// Returns the weight of a reservation in the CPU scheduler.
pub(super) fn weight(cycles: u64) -> u32 {
    u32::try_from(cycles / CYCLES_PER_UNIT).unwrap_or(u32::MAX).max(1)
}

/// Returns the plan of `scenario` with these reservations, cycles per second.
pub(super) fn plan(scenario: &RouterScenario, reserved: &IdVec<ProcessId, u64>) -> Plan {
    let reservations: Vec<u32> = reserved.iter().map(|cycles| weight(*cycles)).collect();
    let (ports, paths) = (scenario.ports.len(), scenario.paths.len());
    let batch = scenario.batch;
    let inputs = scenario.ports.iter().zip(&reservations).map(|(port, reservation)| InputPlan {
        reservation: *reservation,
        throttle: Some(ThrottlePlan {
            least: batch / 4,
            most: batch / 2,
            cap_ns: port.longest_sleep_ns,
        }),
        // A capture file can wait; a device cannot.
        when_full: match port.kind {
            PortKind::Pcap(..) => WhenFull::Wait,
            PortKind::Interface(..)
            | PortKind::Tap(_)
            | PortKind::Tun(_)
            | PortKind::Ingress(_) => WhenFull::Drop,
        },
    });
    let path_plans =
        scenario.paths.iter().zip(&reservations[ports..]).map(|(path, reservation)| {
            let drops = path.action == PathAction::Drop;
            let outputs = (0..ports).filter(|port| scenario.may_pass(path, *port));
            let queue = if drops { 0 } else { path.queue };
            PathPlan {
                reservation: *reservation,
                drops,
                input_queue: queue,
                output_queue: queue,
                outputs: outputs.map(|port| (OutputId(port), path.contract.clone())).collect(),
            }
        });
    let outputs = scenario.ports.iter().zip(&reservations[ports + paths..]);
    let outputs = outputs.map(|(port, reservation)| OutputPlan {
        reservation: *reservation,
        throttle: None,
        discipline: port.discipline,
        options: Options { link: port.fastest_link(), ..Options::default() },
        structure: port.structure,
        is_ingress: port.is_ingress(),
    });
    Plan {
        stages: Stages::Three,
        batch: Batch {
            packets: batch,
            time_ns: scenario.slice_ns,
            batch_wait_ns: scenario.gather_ns,
        },
        inputs: inputs.collect(),
        paths: path_plans.collect(),
        outputs: outputs.collect(),
    }
}

/// Returns the plan of `scenario` on a CPU of `frequency` cycles per second.
///
/// # Errors
/// Fails if the reservations exceed the CPU's cycles.
pub fn admitted(scenario: &RouterScenario, frequency: u64) -> Result<Plan, PortError> {
    Ok(plan(scenario, &admit(scenario, frequency)?))
}
