//! Validation of the `[fabric]` table, and of streams and link in combination with it.

use toml::Spanned;

use crate::error::Problem;
use crate::fabric::{CableEnd, Fabric, FabricCrossbar, FabricTopology};
use crate::file::fabric::{
    ArbiterName, BufferingName, FabricTable, ForwardingName, QueueingName, TopologyTable,
};
use crate::file::{File, LateName, StreamTable};
use crate::source::{Source, VideoInput};
use crate::units::Size;

/// The default latency of a switch, from the MinBW paper, ns.
const LATENCY_NS: u64 = 145;
/// The default largest packet, of Advanced Switching, bytes.
const LARGEST_BYTES: u32 = 2_176;
/// The default size of a buffer, in largest packets.
const BUFFERED_PACKETS: u32 = 4;
const CREDIT_BYTES: u64 = 64;

/// Validates the fabric; returns `None` without a valid one.
pub(super) fn fabric(file: &File, problems: &mut Vec<Problem>) -> Option<Fabric> {
    let spanned = file.fabric.as_ref()?;
    let table = spanned.get_ref();
    let before = problems.len();
    let largest_bytes = table.largest_packet.as_ref().map_or(LARGEST_BYTES, |most| *most.get_ref());
    if let Some(most) = &table.largest_packet
        && !(1..=65_535).contains(&largest_bytes)
    {
        let message = format!("a largest packet of {largest_bytes} bytes");
        problems.push(Problem::new(most.span(), message).help("from 1 to 65535"));
    }
    let delay_ns = table.delay.map_or(0, |delay| delay.0);
    let latency_ns = table.latency.map_or(LATENCY_NS, |latency| latency.0);
    if delay_ns + latency_ns == 0 {
        let message = "switches and links without a delay";
        problems.push(
            Problem::new(spanned.span(), message)
                .help("one of `latency` and `delay` must be at least 1 ns"),
        );
    }
    let Some(duration) = file.scenario.duration else {
        let message = "a fabric's traffic never ends by itself";
        problems.push(
            Problem::new(spanned.span(), message)
                .help("give the scenario a `duration`, for example duration = \"10 ms\""),
        );
        return None;
    };
    let warm_up_ns = table.warm_up.as_ref().map_or(0, |warm_up| warm_up.get_ref().0);
    if let Some(warm_up) = table.warm_up.as_ref().filter(|_| warm_up_ns >= duration.0) {
        problems.push(Problem::new(warm_up.span(), "the warm-up is as long as the run"));
    }
    if let Some(credits) = &file.link.credits {
        let message = format!("`link.credits` of {} B in a fabric", credits.buffer.0);
        problems.push(
            Problem::new(spanned.span(), message)
                .help("its buffers define the credits: give `fabric.input-buffer` instead"),
        );
    }
    for class in &file.class {
        let message = "classes share a single link; all streams of a fabric belong to the root";
        problems.push(Problem::new(class.get_ref().name.span(), message));
    }
    let fabric = Fabric {
        topology: topology(&table.topology, problems)?,
        delay_ns,
        latency_ns,
        cut_through: matches!(table.forwarding, None | Some(ForwardingName::CutThrough)),
        crossbar: crossbar(table, file.link.rate.0, largest_bytes, problems),
        largest_bytes,
        warm_up_ns,
    };
    (problems.len() == before).then_some(fabric)
}

fn crossbar(
    table: &FabricTable,
    rate_bps: u64,
    largest_bytes: u32,
    problems: &mut Vec<Problem>,
) -> Option<FabricCrossbar> {
    if matches!(table.buffering, Some(BufferingName::Output)) {
        for (key, span) in [
            ("speed-up", table.speed_up.as_ref().map(Spanned::span)),
            ("input-buffer", table.input_buffer.as_ref().map(Spanned::span)),
            ("output-buffer", table.output_buffer.as_ref().map(Spanned::span)),
        ] {
            if let Some(span) = span {
                let message = format!("`{key}` without a crossbar");
                let problem = Problem::new(span, message);
                problems.push(problem.help("take it out, or use buffering = \"crossbar\""));
            }
        }
        return None;
    }
    let speed_up = table.speed_up.as_ref().map_or(1.5, |speed_up| *speed_up.get_ref());
    if let Some(given) = table.speed_up.as_ref().filter(|_| !(1.0..=1_000.0).contains(&speed_up)) {
        let message = format!("a speed-up of {speed_up}");
        problems.push(Problem::new(given.span(), message).help("at least 1, at most 1000"));
    }
    let mut buffer = |given: &Option<Spanned<Size>>| {
        let least = u64::from(largest_bytes).div_ceil(CREDIT_BYTES);
        let Some(given) = given else {
            return u32::try_from(least).unwrap_or(u32::MAX).saturating_mul(BUFFERED_PACKETS);
        };
        let bytes = given.get_ref().0;
        let credits = bytes / CREDIT_BYTES;
        if credits < least {
            let message = format!("a buffer of {bytes} B for packets of {largest_bytes} bytes");
            let least = least * CREDIT_BYTES;
            let help = format!("at least {least} B, or a smaller `largest-packet`");
            problems.push(Problem::new(given.span(), message).help(help));
        }
        u32::try_from(credits).unwrap_or(u32::MAX)
    };
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let crossbar_bps = (rate_bps as f64 * speed_up.clamp(1.0, 1_000.0)) as u64;
    Some(FabricCrossbar {
        rate_bps: crossbar_bps.max(rate_bps),
        input_credits: buffer(&table.input_buffer),
        output_credits: buffer(&table.output_buffer),
        fifo: matches!(table.queueing, Some(QueueingName::Fifo)),
        islip: matches!(table.arbiter, Some(ArbiterName::Islip)),
    })
}

fn topology(table: &Spanned<TopologyTable>, problems: &mut Vec<Problem>) -> Option<FabricTopology> {
    Some(match table.get_ref().clone() {
        TopologyTable::FoldedShuffle { arity, levels } => {
            FabricTopology::FoldedShuffle { arity, levels }
        }
        TopologyTable::Shuffle { radix, stages } => FabricTopology::Shuffle { radix, stages },
        TopologyTable::FatTree { ports } => FabricTopology::FatTree { ports },
        TopologyTable::Mesh { sizes, concentration } => FabricTopology::Grid {
            sizes,
            concentration: concentration.unwrap_or(1),
            wrapped: false,
        },
        TopologyTable::Torus { sizes, concentration } => {
            FabricTopology::Grid { sizes, concentration: concentration.unwrap_or(1), wrapped: true }
        }
        TopologyTable::Dragonfly { end_points, switches, globals } => {
            FabricTopology::Dragonfly { end_points, switches, globals }
        }
        TopologyTable::Custom { end_points, switches, cables } => {
            let mut joined = Vec::with_capacity(cables.len());
            for [one, other] in &cables {
                for end in [one, other].into_iter().filter(|end| cable_end(end).is_none()) {
                    let message = format!("`{end}` is not an end of a cable");
                    problems.push(Problem::new(table.span(), message).help(
                        "an end-point such as \"e0\", or a switch and its port such as \"s0:3\"",
                    ));
                }
                joined.push((cable_end(one)?, cable_end(other)?));
            }
            FabricTopology::Custom { end_points, switches, cables: joined }
        }
    })
}

/// Parses the end of a cable, such as "e0" or "s0:3".
fn cable_end(text: &str) -> Option<CableEnd> {
    if let Some(number) = text.strip_prefix('e') {
        return number.parse().ok().map(CableEnd::EndPoint);
    }
    let (switch, port) = text.strip_prefix('s')?.split_once(':')?;
    Some(CableEnd::Switch(switch.parse().ok()?, port.parse().ok()?))
}

/// Checks the keys of a stream that depend on the fabric, and returns its load.
///
/// The load is a share of each end-point's link; 0 is a single connection.
pub(super) fn stream(
    table: &StreamTable,
    source: Option<&Source>,
    fabric: Option<&Fabric>,
    in_fabric: bool,
    problems: &mut Vec<Problem>,
) -> f64 {
    let keys = &table.source;
    let load = keys.load.as_ref().map_or(0.0, |load| *load.get_ref());
    if let Some(given) = &keys.load {
        if !in_fabric {
            let message = "`load` is a share of an end-point's link; there is no fabric";
            let help = "give a `rate`, or the scenario a [fabric]";
            problems.push(Problem::new(given.span(), message).help(help));
        } else if !(0.0..=1.0).contains(&load) {
            let message = format!("a load of {load}");
            problems.push(Problem::new(given.span(), message).help("from 0 to 1"));
        }
    }
    let Some(fabric) = fabric else { return load };
    if let Some(queue) = table.queue {
        let message = format!("a fabric drops no packet, so `queue = {queue}` has no effect");
        problems.push(Problem::new(table.name.span(), message).help("take it out"));
    }
    if matches!(table.late, Some(LateName::Drop)) {
        let message = "a fabric drops no packet, so `late = \"drop\"` has no effect";
        problems.push(Problem::new(table.name.span(), message).help("late = \"send\""));
    }
    let mut refuse = |message: String, help: &str| {
        problems.push(Problem::new(keys.span.clone(), message).help(help));
    };
    let largest = match source {
        None => return load,
        Some(Source::Cbr { bytes, .. } | Source::Poisson { bytes, .. }) => *bytes,
        Some(Source::Pareto { bytes, largest, .. }) => largest.unwrap_or(*bytes),
        Some(Source::Mpeg { input: VideoInput::Model { .. }, packet_bytes, frames, .. }) => {
            if frames != "IPB" {
                refuse("videos in a fabric have all frames".into(), "take `frames` out");
            }
            packet_bytes.unwrap_or(fabric.largest_bytes)
        }
        Some(
            Source::Mpeg { .. }
            | Source::Live(_)
            | Source::Trace { .. }
            | Source::Pcap { .. }
            | Source::Tcp(_)
            | Source::Web(_)
            | Source::Echo(_)
            | Source::Adaptive(_)
            | Source::Backlog { .. }
            | Source::Generator { .. },
        ) => {
            let kind = keys.kind.map_or("", |kind| kind.name);
            refuse(
                format!("a {kind} source of this kind is not supported in a fabric"),
                "supported: cbr, poisson, pareto, and mpeg with a model",
            );
            return load;
        }
    };
    if largest > fabric.largest_bytes || largest == 0 {
        refuse(
            format!(
                "packets of {largest} bytes in a fabric for 1 to {} bytes",
                fabric.largest_bytes
            ),
            "give the fabric a `largest-packet`",
        );
    }
    let starts = keys.virtual_link.is_some() && !keys.stops;
    if keys.has_times && !starts {
        refuse(
            "all sources of a fabric run from start to end".into(),
            "take `start` and `stop` out; a source with `from` and `to` may have a `start`",
        );
    }
    load
}

/// Returns the end-points of a stream's only connection, if it has `from` and `to`.
pub(super) fn virtual_link(
    table: &StreamTable,
    in_fabric: bool,
    problems: &mut Vec<Problem>,
) -> Option<(u32, u32)> {
    let keys = &table.source;
    let ends = keys.virtual_link.as_ref()?;
    let mut refuse = |message: String, help: &str| {
        problems.push(Problem::new(keys.span.clone(), message).help(help));
        None
    };
    if !in_fabric {
        return refuse(
            "`from` and `to` are end-points; there is no fabric".into(),
            "take them out",
        );
    }
    if keys.load.is_some() {
        let help = "give an `interval` or a `rate` instead of `load`";
        return refuse("a source with `from` and `to` is one connection".into(), help);
    }
    let [Some(from), Some(to)] = ends.as_ref() else {
        return refuse("one of `from` and `to`".into(), "give both, or none");
    };
    let mut numbers = [0; 2];
    for (number, end) in numbers.iter_mut().zip([from, to]) {
        let Some(CableEnd::EndPoint(found)) = cable_end(end.get_ref()) else {
            let message = format!("`{}` is not an end-point", end.get_ref());
            return refuse(message, "such as \"e0\"");
        };
        *number = found;
    }
    if numbers[0] == numbers[1] {
        let message = format!("end-point {} sends to itself", numbers[0]);
        return refuse(message, "give another one as `to`");
    }
    Some((numbers[0], numbers[1]))
}
