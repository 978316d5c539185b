//! Writes packet paths as a trace file, with a row for each packet, link and crossbar output.
//!
//! | group | row | slices |
//! |---|---|---|
//! | packets | a packet | its stages, which add up to its latency, inside the whole path |
//! | links | a link | transmissions, from first to last bit |
//! | crossbars | the link behind the output | transfers |
//! | buffers | – | counters: backlog before links, occupancy behind them |
//!
//! An arrow joins a packet's transmissions and transfers.

use millstream_report::{ArrowPart, TraceEventsWriter, TraceRow};
use millstream_sim::fabric::topology::Topology;
use millstream_sim::fabric::{Journey, Journeys, SampledQuantity, StageKind};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{self, Write};

const PACKETS: u32 = 1;
const LINKS: u32 = 2;
const CROSSBARS: u32 = 3;
const BUFFERS: u32 = 4;

/// Writes the recorded `journeys`. `streams` are the names of the classes.
pub(crate) fn write_journeys(
    output: impl Write,
    journeys: &Journeys,
    topology: &Topology,
    streams: &[String],
) -> io::Result<()> {
    let names: Vec<String> =
        topology.links().iter().map(|link| format!("{} to {}", link.from, link.to)).collect();
    let mut writer = TraceEventsWriter::new(output)?;
    for (group, name) in
        [(PACKETS, "packets"), (LINKS, "links"), (CROSSBARS, "crossbars"), (BUFFERS, "buffers")]
    {
        writer.group(group, name)?;
    }
    let hops = || journeys.journeys().iter().flat_map(|journey| &journey.hops);
    let sending = hops().filter(|hop| hop.sent.is_some()).map(|hop| hop.link);
    for link in sending.collect::<BTreeSet<_>>() {
        writer.row(TraceRow { group: LINKS, row: link }, &names[link as usize])?;
    }
    let crossed = hops().filter(|hop| hop.transfer.is_some()).map(|hop| hop.link);
    for link in crossed.collect::<BTreeSet<_>>() {
        let name = format!("output of {}", names[link as usize]);
        writer.row(TraceRow { group: CROSSBARS, row: link }, &name)?;
    }
    for (number, journey) in (1..).zip(journeys.journeys()) {
        write_journey(&mut writer, number, journey, streams, &names)?;
    }
    for sample in journeys.samples() {
        let link = &names[sample.link as usize];
        let (name, unit) = match sample.quantity {
            SampledQuantity::BacklogBytes => (format!("backlog before {link}"), "bytes"),
            SampledQuantity::OccupiedCredits => (format!("occupancy behind {link}"), "credits"),
        };
        writer.counter(BUFFERS, &name, unit, sample.time_ns, sample.amount)?;
    }
    let kept = journeys.journeys().len() as u64;
    writer.finish(&json!({
        "packets_kept": kept,
        "packets_selected_but_not_kept": journeys.allowed() - kept,
        "buffer_samples_not_kept": journeys.samples_dropped(),
    }))
}

fn write_journey(
    writer: &mut TraceEventsWriter<impl Write>,
    number: u32,
    journey: &Journey,
    streams: &[String],
    names: &[String],
) -> io::Result<()> {
    let stream = &streams[usize::from(journey.class)];
    let row = TraceRow { group: PACKETS, row: number };
    let title = format!("{stream} {number}");
    writer.row(row, &title)?;
    let stages = journey.stages();
    let end_ns = stages.last().map_or(journey.injected_ns, |stage| stage.ends_ns);
    let whole = json!({
        "stream": stream,
        "source": journey.source,
        "destination": journey.destination,
        "connection": journey.connection,
        "bytes": journey.bytes,
        "latency_ns": journey.delivered_ns.map(|delivered_ns| delivered_ns - journey.injected_ns),
    });
    let path = format!("end-point {} to {}", journey.source, journey.destination);
    writer.slice(row, ("journey", &path), (journey.injected_ns, end_ns), whole)?;
    for stage in stages {
        let name = match stage.kind {
            StageKind::SourceWait => "waits at the source",
            StageKind::InputWait => "waits at an input",
            StageKind::OutputWait => "waits at an output",
            StageKind::Link => "link and switch",
            StageKind::LastLink => "last link",
        };
        let more = json!({ "link": names[stage.link as usize] });
        writer.slice(row, ("stage", name), (stage.begins_ns, stage.ends_ns), more)?;
    }
    // The points of the arrow: transfers and transmissions, in order.
    let mut points = Vec::new();
    for hop in &journey.hops {
        if let Some(transfer) = hop.transfer {
            let at = TraceRow { group: CROSSBARS, row: hop.link };
            points.push((at, "transfer", transfer.begins_ns, transfer.ends_ns));
        }
        if let Some(sent) = hop.sent {
            let at = TraceRow { group: LINKS, row: hop.link };
            points.push((at, "transmission", sent.begins_ns, sent.ends_ns));
        }
    }
    let last = points.len().saturating_sub(1);
    for (index, (at, category, begins_ns, ends_ns)) in points.into_iter().enumerate() {
        let more = json!({ "stream": stream, "bytes": journey.bytes, "packet": number });
        writer.slice(at, (category, &title), (begins_ns, ends_ns), more)?;
        if last > 0 {
            let part = match index {
                0 => ArrowPart::Begin,
                index if index == last => ArrowPart::End,
                _ => ArrowPart::Step,
            };
            writer.arrow(at, part, ("packet", "packet"), u64::from(number), begins_ns)?;
        }
    }
    Ok(())
}
