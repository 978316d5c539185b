//! A stream's contract, and what the file gives that its discipline does not use.

use millstream::catalogue::DisciplineRow;
use millstream::{CREDIT_BYTES, Contract, Late, MaxRate};
use std::num::NonZeroU64;
use toml::Spanned;

use crate::error::Problem;
use crate::file::{File, LateName, SourceTable, StreamTable};

/// The largest packet of sources that do not say how long theirs are: an Ethernet frame.
const USUAL_LARGEST_BYTES: u32 = 1514;

/// What contracts take from the rest of the file.
pub(super) struct Defaults {
    largest_bytes: u32,
    overhead: u32,
    smallest_weight: u32,
    credits: Option<u64>,
}

impl Defaults {
    pub(super) fn of(file: &File) -> Self {
        let streams = || file.stream.iter().map(Spanned::get_ref);
        let weights = streams().map(weight);
        Self {
            largest_bytes: streams().map(|s| largest_bytes(s.source.get_ref())).max().unwrap_or(0),
            overhead: file.link.overhead,
            smallest_weight: weights.min().unwrap_or(1).max(1),
            credits: file.link.credits.as_ref().map(|c| c.buffer.0 / u64::from(CREDIT_BYTES)),
        }
    }

    /// weight × the largest packet on the wire / smallest weight.
    fn quantum(&self, stream: &StreamTable) -> u32 {
        let largest = u64::from(self.largest_bytes) + u64::from(self.overhead);
        let quantum = largest.max(1) * u64::from(weight(stream)) / u64::from(self.smallest_weight);
        u32::try_from(quantum).unwrap_or(u32::MAX)
    }
}

fn weight(stream: &StreamTable) -> u32 {
    stream.weight.as_ref().map_or(1, |weight| *weight.get_ref())
}

/// The largest packet that a source is known to make, or may make.
fn largest_bytes(source: &SourceTable) -> u32 {
    let said = source.bytes.as_ref().or(source.packet_bytes.as_ref());
    said.map_or(USUAL_LARGEST_BYTES, |bytes| *bytes.get_ref())
}

/// The rate cap, if the stream has one.
fn max_rate(
    stream: &StreamTable,
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> Option<MaxRate> {
    let Some(rate) = &stream.max_rate else {
        if let Some(burst) = &stream.burst {
            problems.push(
                Problem::new(burst.span(), "a `burst` without a `max-rate`")
                    .help("the two are one token bucket, for example max-rate = \"20 Mbps\""),
            );
        }
        return None;
    };
    let largest = u64::from(largest_bytes(stream.source.get_ref())) + u64::from(defaults.overhead);
    let burst_bytes = stream.burst.as_ref().map_or(largest, |burst| burst.get_ref().0);
    Some(MaxRate { rate_bps: NonZeroU64::new(rate.get_ref().0)?, burst_bytes })
}

/// Validates what a stream is promised.
pub(super) fn contract(
    table: &Spanned<StreamTable>,
    discipline: Option<&DisciplineRow>,
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> Option<Contract> {
    let stream = table.get_ref();
    let before = problems.len();
    for (key, value) in [("weight", &stream.weight), ("quantum", &stream.quantum)] {
        if let Some(value) = value.as_ref().filter(|value| *value.get_ref() == 0) {
            problems.push(Problem::new(value.span(), format!("`{key}` is 0; it must be positive")));
        }
    }
    let mut contract = Contract::new().priority(stream.priority.unwrap_or(0));
    if let Some(weight) = &stream.weight
        && let Ok(weighted) = contract.clone().weight(*weight.get_ref())
    {
        contract = weighted;
    }
    let quantum = stream.quantum.as_ref().map_or(defaults.quantum(stream), |q| *q.get_ref());
    if let Ok(with_quantum) = contract.clone().quantum_bytes(quantum) {
        contract = with_quantum;
    }
    if let Some(max_rate) = max_rate(stream, defaults, problems) {
        contract = contract.max_rate(max_rate);
    }
    if let Some(credits) = defaults.credits {
        contract = contract.credits(credits);
    }
    if let Some(period) = &stream.period {
        match contract.clone().period_ns(period.get_ref().0) {
            Ok(with_period) => contract = with_period,
            Err(error) => problems.push(Problem::new(period.span(), error.to_string())),
        }
    } else if let Some(row) = discipline.filter(|row| row.needs.contains(&"period")) {
        let message = format!("stream `{}` has no `period`", stream.name.get_ref());
        problems.push(Problem::new(stream.name.span(), message).label("this stream").help(
            format!("{} needs the request period T, for example period = \"40 ms\"", row.name),
        ));
    }
    if let Some(window) = stream.window {
        contract = contract.window(window.0);
    }
    if let Some(deadline) = stream.first_deadline {
        contract = contract.first_deadline_ns(deadline.0);
    }
    if let Some(queue) = stream.queue {
        contract = contract.queue(queue);
    }
    contract = contract.late(match stream.late {
        Some(LateName::Drop) => Late::Drop,
        Some(LateName::Send) | None => Late::Send,
    });
    (problems.len() == before).then_some(contract)
}

/// Attributes that streams give and the discipline ignores, with how many streams give them.
#[derive(Default)]
pub(super) struct Unused(Vec<(&'static str, usize)>);

impl Unused {
    pub(super) fn note(&mut self, stream: &StreamTable, discipline: &DisciplineRow) {
        let given = [
            ("period", stream.period.is_some()),
            ("window", stream.window.is_some()),
            ("first-deadline", stream.first_deadline.is_some()),
            ("late", stream.late.is_some()),
            ("weight", stream.weight.is_some()),
            ("quantum", stream.quantum.is_some()),
            ("priority", stream.priority.is_some()),
        ];
        for (attribute, given) in given {
            if given
                && !discipline.needs.contains(&attribute)
                && !discipline.uses.contains(&attribute)
            {
                match self.0.iter_mut().find(|entry| entry.0 == attribute) {
                    Some(entry) => entry.1 += 1,
                    None => self.0.push((attribute, 1)),
                }
            }
        }
    }

    pub(super) fn into_notes(self, discipline: &DisciplineRow) -> Vec<String> {
        let note = |(attribute, streams): (&str, usize)| {
            let plural = if streams == 1 { "stream gives" } else { "streams give" };
            format!("{streams} {plural} `{attribute}`, which {} does not use", discipline.name)
        };
        self.0.into_iter().map(note).collect()
    }
}
