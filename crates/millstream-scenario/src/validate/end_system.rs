//! Validation of the end-system's keys, and of contracts against the fields of its card.

use millstream::Contract;
use toml::Spanned;

use super::rtl;
use crate::error::Problem;
use crate::file::{BusName, File, RealisationName, StreamTable};
use crate::scenario::{EndSystem, Link};

/// The exclusive limit of periods and first deadlines, packet-times: a quarter of the range of 16
/// bits.
const MAX_TICKS: u64 = 1 << 14;

/// The clock of the paper's card, Hz.
const CLOCK_HZ: u64 = 23_000_000;

/// The packet length that defines the default packet-time, bytes.
const PACKET_BYTES: u32 = 1_500;

/// Returns the end-system of the file; `None` without `realisation = "end-system"`.
pub(super) fn end_system(
    file: &File,
    link: &Link,
    problems: &mut Vec<Problem>,
) -> Option<EndSystem> {
    let keys = &file.scheduler;
    let requested =
        keys.realisation.as_ref().filter(|name| *name.get_ref() == RealisationName::EndSystem);
    if let Some(name) = keys.realisation.as_ref().filter(|_| !rtl::is_requested(file)) {
        problems.push(
            Problem::new(name.span(), "a `realisation` needs the hardware structure")
                .help("structure = \"rtl\", or take it out"),
        );
        return None;
    }
    if requested.is_none() {
        let spans = [
            ("bus", keys.bus.as_ref().map(Spanned::span)),
            ("clock", keys.clock.as_ref().map(Spanned::span)),
            ("packet-time", keys.packet_time.as_ref().map(Spanned::span)),
        ];
        for (key, span) in spans.into_iter().filter_map(|(key, span)| Some((key, span?))) {
            problems.push(
                Problem::new(span, format!("`{key}` needs the end-system card"))
                    .help("structure = \"rtl\" with realisation = \"end-system\", or take it out"),
            );
        }
        return None;
    }
    let packet_time_ns = match &keys.packet_time {
        Some(time) if time.get_ref().0 == 0 => {
            let message = "a packet time of 0 ns: time would not advance";
            let help = "the transmission time of a packet, for example \"12 us\"";
            problems.push(Problem::new(time.span(), message).help(help));
            return None;
        }
        Some(time) => time.get_ref().0,
        None => link.transmission_ns(PACKET_BYTES),
    };
    Some(EndSystem {
        bus: match keys.bus.as_ref().map(Spanned::get_ref) {
            None | Some(BusName::Pci33) => "pci-33",
            Some(BusName::PcieGen3X4) => "pcie-gen3-x4",
            Some(BusName::None) => "none",
        },
        clock_hz: keys.clock.as_ref().map_or(CLOCK_HZ, |clock| clock.get_ref().0),
        packet_time_ns,
    })
}

/// Checks that a stream's contract fits the registers of the card.
pub(super) fn check(
    stream: &StreamTable,
    contract: &Contract,
    card: &EndSystem,
    problems: &mut Vec<Problem>,
) {
    let name = stream.name.get_ref();
    let terms = contract.terms();
    let tick_ns = card.packet_time_ns;
    let mut ticks = |what: &str, time_ns: u64, span: std::ops::Range<usize>| {
        if time_ns.is_multiple_of(tick_ns) && time_ns / tick_ns < MAX_TICKS {
            return;
        }
        let message = format!("stream `{name}`: the card cannot count {what} of {time_ns} ns");
        let below = time_ns / tick_ns * tick_ns;
        let near = if time_ns / tick_ns >= MAX_TICKS {
            format!("it must be below {} ns, or `packet-time` longer", MAX_TICKS * tick_ns)
        } else if below == 0 {
            format!("the nearest is {tick_ns} ns")
        } else {
            format!("the nearest are {below} ns and {} ns", below + tick_ns)
        };
        problems.push(Problem::new(span, message).help(format!(
            "it counts packet-times of {tick_ns} ns (`packet-time`), by default the transmission \
             time of {PACKET_BYTES} bytes; {near}"
        )));
    };
    if let (Some(period), Some(period_ns)) = (&stream.period, terms.period_ns) {
        ticks("a period", period_ns, period.span());
    }
    if let Some(deadline_ns) = terms.first_deadline_ns {
        ticks("a first deadline", deadline_ns, stream.name.span());
    }
    if terms.priority >= 1 << 15 {
        let message = format!("stream `{name}`: priority {} does not fit the card", terms.priority);
        problems.push(Problem::new(stream.name.span(), message).help("priorities are below 32768"));
    }
}

#[cfg(test)]
mod tests {
    use crate::{EndSystem, Scenario};
    use std::path::Path;

    fn parse(scheduler: &str, stream: &str) -> Result<Option<EndSystem>, String> {
        let text = format!(
            "[link]\nrate = \"1 Gbit/s\"\n[scheduler]\ndiscipline = \"dwcs\"\n{scheduler}\n\
             [[stream]]\nname = \"a\"\n{stream}\n\
             source = {{ kind = \"backlog\", packets = 1, bytes = 100 }}\n"
        );
        let parsed = Scenario::parse("a.toml", &text, Path::new(""));
        parsed.map(|scenario| scenario.end_system).map_err(|error| {
            let problems = error.problems.iter();
            problems.map(|p| format!("{p}; {}", p.help.clone().unwrap_or_default())).collect()
        })
    }

    const CARD: &str = "structure = \"rtl\"\nrealisation = \"end-system\"\n";

    #[test]
    fn defaults_are_the_papers_card_and_the_links_packet_time() {
        let card = EndSystem { bus: "pci-33", clock_hz: 23_000_000, packet_time_ns: 12_000 };
        assert_eq!(parse(CARD, "period = \"24 us\""), Ok(Some(card)));
        let keys = "bus = \"pcie-gen3-x4\"\nclock = \"100 MHz\"\npacket-time = \"1 us\"";
        let card = EndSystem { bus: "pcie-gen3-x4", clock_hz: 100_000_000, packet_time_ns: 1_000 };
        assert_eq!(parse(&format!("{CARD}{keys}"), "period = \"7 us\""), Ok(Some(card)));
        assert_eq!(parse("structure = \"rtl\"", "period = \"7 us\""), Ok(None));
        let core = "structure = \"rtl\"\nrealisation = \"core\"";
        assert_eq!(parse(core, "period = \"7 us\""), Ok(None));
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        let card = |keys: &str| format!("{CARD}{keys}");
        let period = "period = \"24 us\"";
        for (scheduler, stream, parts) in [
            ("realisation = \"end-system\"".into(), period, ["hardware", "structure = \"rtl\""]),
            ("bus = \"pci-33\"".into(), period, ["`bus` needs the end-system", "realisation ="]),
            ("structure = \"rtl\"\nclock = \"1 MHz\"".into(), period, ["`clock`", "end-system"]),
            (card("bus = \"isa\""), period, ["isa", "pci-33"]),
            (card("clock = \"0 MHz\""), period, ["frequency of 0", "at least 1 Hz"]),
            (card("packet-time = \"0 ns\""), period, ["packet time of 0", "12 us"]),
            (card(""), "period = \"30 us\"", ["a period of 30000 ns", "24000 ns and 36000 ns"]),
            (card(""), "period = \"1 us\"", ["a period of 1000 ns", "the nearest is 12000 ns"]),
            (card(""), "period = \"1 s\"", ["1000000000 ns", "below 196608000 ns"]),
            (
                card(""),
                "period = \"24 us\"\nfirst-deadline = \"1 us\"",
                ["first deadline of 1000 ns", "packet-times of 12000 ns"],
            ),
            (card(""), "period = \"24 us\"\npriority = 40000", ["priority 40000", "below 32768"]),
        ] {
            let error = parse(&scheduler, stream).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }
}
