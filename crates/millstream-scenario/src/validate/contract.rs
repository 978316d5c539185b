//! Validation of a stream's contract, and notes about attributes that its discipline ignores.

use millstream::catalogue::DisciplineRow;
use millstream::{CREDIT_BYTES, Contract, Late, MaxRate};
use std::num::NonZeroU64;
use toml::Spanned;

use crate::error::Problem;
use crate::file::{ClassTable, File, LateName, StreamTable};
use crate::units::{Duration, Rate, Size, WindowText};

/// The keys of a stream or a class that define its contract.
pub(super) struct ContractKeys<'a> {
    /// The kind of table for messages: "stream" or "class".
    what: &'static str,
    name: &'a Spanned<String>,
    period: Option<&'a Spanned<Duration>>,
    window: Option<WindowText>,
    first_deadline: Option<Duration>,
    weight: Option<&'a Spanned<u32>>,
    quantum: Option<&'a Spanned<u32>>,
    priority: Option<u32>,
    max_rate: Option<&'a Spanned<Rate>>,
    burst: Option<&'a Spanned<Size>>,
    late: Option<LateName>,
    queue: Option<u32>,
    fmc: Option<bool>,
    /// The largest packet of a stream's source, bytes; `None` for a class.
    largest_bytes: Option<u32>,
}

macro_rules! contract_keys {
    ($what:literal, $table:expr, $($rest:tt)*) => {
        ContractKeys {
            what: $what,
            name: &$table.name,
            period: $table.period.as_ref(),
            window: $table.window,
            first_deadline: $table.first_deadline,
            weight: $table.weight.as_deref(),
            quantum: $table.quantum.as_deref(),
            priority: $table.priority,
            max_rate: $table.max_rate.as_deref(),
            burst: $table.burst.as_deref(),
            $($rest)*
        }
    };
}

impl<'a> ContractKeys<'a> {
    pub(super) fn of_stream(table: &'a StreamTable) -> Self {
        contract_keys! {
            "stream", table,
            late: table.late,
            queue: table.queue,
            fmc: table.fmc,
            largest_bytes: Some(table.source.largest_bytes),
        }
    }

    pub(super) fn of_class(table: &'a ClassTable) -> Self {
        contract_keys!("class", table, late: None, queue: None, fmc: None, largest_bytes: None,)
    }
}

/// Values of the rest of the file that contracts depend on.
pub(super) struct Defaults {
    largest_bytes: u32,
    link: millstream::Link,
    smallest_weight: u32,
    credits: Option<u64>,
    /// Whether the file has a fabric, which serves a management channel before any discipline.
    in_fabric: bool,
}

impl Defaults {
    pub(super) fn of(file: &File) -> Self {
        let streams = || file.stream.iter().map(Spanned::get_ref);
        let classes = file.class.iter().map(|class| ContractKeys::of_class(class.get_ref()));
        let weights = streams().map(ContractKeys::of_stream).chain(classes).map(|p| weight(&p));
        Self {
            largest_bytes: streams().map(|s| s.source.largest_bytes).max().unwrap_or(0),
            link: file.link.wire(),
            smallest_weight: weights.min().unwrap_or(1).max(1),
            in_fabric: file.fabric.is_some(),
            credits: file.link.credits.as_ref().map(|c| c.buffer.0 / u64::from(CREDIT_BYTES)),
        }
    }

    /// Returns the default quantum, bytes: weight × largest packet on the wire / smallest weight.
    fn quantum(&self, keys: &ContractKeys) -> u32 {
        let largest = self.link.wire_bytes(self.largest_bytes);
        let quantum = largest.max(1) * u64::from(weight(keys)) / u64::from(self.smallest_weight);
        u32::try_from(quantum).unwrap_or(u32::MAX)
    }
}

fn weight(keys: &ContractKeys) -> u32 {
    keys.weight.map_or(1, |weight| *weight.get_ref())
}

/// Returns the rate cap, or `None` without `max-rate`.
fn max_rate(
    keys: &ContractKeys,
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> Option<MaxRate> {
    let Some(rate) = keys.max_rate else {
        if let Some(burst) = keys.burst {
            problems.push(
                Problem::new(burst.span(), "a `burst` without a `max-rate`")
                    .help("both define a token bucket, for example max-rate = \"20 Mbit/s\""),
            );
        }
        return None;
    };
    let largest = keys.largest_bytes.unwrap_or(defaults.largest_bytes);
    let largest = || defaults.link.wire_bytes(largest);
    let burst_bytes = keys.burst.map_or_else(largest, |burst| burst.get_ref().0);
    Some(MaxRate { rate_bps: NonZeroU64::new(rate.get_ref().0)?, burst_bytes })
}

/// Validates the contract of a stream or class with `discipline`.
pub(super) fn contract(
    keys: &ContractKeys,
    discipline: Option<&DisciplineRow>,
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> Option<Contract> {
    let before = problems.len();
    for (key, value) in [("weight", keys.weight), ("quantum", keys.quantum)] {
        if let Some(value) = value.filter(|value| *value.get_ref() == 0) {
            let message = format!("`{key}` is 0; it must be an integer from 1 to {}", u32::MAX);
            problems.push(Problem::new(value.span(), message));
        }
    }
    let mut contract = Contract::new().priority(keys.priority.unwrap_or(0));
    if let Ok(weighted) = contract.clone().weight(weight(keys)) {
        contract = weighted;
    }
    let quantum = keys.quantum.map_or(defaults.quantum(keys), |q| *q.get_ref());
    if let Ok(with_quantum) = contract.clone().quantum_bytes(quantum) {
        contract = with_quantum;
    }
    if let Some(max_rate) = max_rate(keys, defaults, problems) {
        contract = contract.max_rate(max_rate);
    }
    if let Some(credits) = defaults.credits.filter(|_| keys.largest_bytes.is_some()) {
        contract = contract.credits(credits);
    }
    if keys.fmc == Some(true) {
        contract = contract.fmc();
    }
    if let Some(period) = keys.period {
        match contract.clone().period_ns(period.get_ref().0) {
            Ok(with_period) => contract = with_period,
            Err(error) => problems.push(Problem::new(period.span(), error.to_string())),
        }
    } else if let Some(row) = discipline.filter(|row| row.needs.contains(&"period"))
        && !(defaults.in_fabric && keys.fmc == Some(true))
    {
        let ContractKeys { what, name, .. } = keys;
        let message = format!("{what} `{}` has no `period`", name.get_ref());
        problems.push(Problem::new(name.span(), message).label(format!("this {what}")).help(
            format!("{} needs the request period T, for example period = \"40 ms\"", row.name),
        ));
    }
    if let Some(window) = keys.window {
        contract = contract.window(window.0);
    }
    if let Some(deadline) = keys.first_deadline {
        contract = contract.first_deadline_ns(deadline.0);
    }
    if let Some(queue) = keys.queue {
        contract = contract.queue(queue);
    }
    contract = contract.late(match keys.late {
        Some(LateName::Drop) => Late::Drop,
        Some(LateName::Send) | None => Late::Send,
    });
    (problems.len() == before).then_some(contract)
}

/// Counts of given attributes that the discipline ignores.
pub(super) struct IgnoredAttributes {
    /// Whether the scenario has a fabric; every discipline then uses a management channel.
    in_fabric: bool,
    /// The disciplines of hops, which may use what that of `[link]` does not.
    of_hops: Vec<&'static DisciplineRow>,
    ignored: Vec<(Ignored, usize)>,
}

/// The kind of table, the attribute, and the discipline that ignores it.
type Ignored = (&'static str, &'static str, &'static str);

impl IgnoredAttributes {
    pub(super) fn new(file: &File) -> Self {
        let hops = file.hop.iter().filter_map(|hop| hop.get_ref().discipline.as_ref());
        let of_hops = hops.filter_map(|name| DisciplineRow::parse(name.get_ref())).collect();
        Self { in_fabric: file.fabric.is_some(), of_hops, ignored: Vec::new() }
    }

    pub(super) fn note(&mut self, keys: &ContractKeys, discipline: &DisciplineRow) {
        let given = [
            ("period", keys.period.is_some()),
            ("window", keys.window.is_some()),
            ("first-deadline", keys.first_deadline.is_some()),
            ("late", keys.late.is_some()),
            ("weight", keys.weight.is_some()),
            ("quantum", keys.quantum.is_some()),
            ("priority", keys.priority.is_some()),
            ("fmc", keys.fmc.is_some() && !self.in_fabric),
        ];
        for (attribute, given) in given {
            let uses =
                |of: &DisciplineRow| of.needs.contains(&attribute) || of.uses.contains(&attribute);
            if given && !uses(discipline) && !self.of_hops.iter().any(|of| uses(of)) {
                let ignored = (keys.what, attribute, discipline.name);
                match self.ignored.iter_mut().find(|entry| entry.0 == ignored) {
                    Some(entry) => entry.1 += 1,
                    None => self.ignored.push((ignored, 1)),
                }
            }
        }
    }

    pub(super) fn into_notes(self) -> Vec<String> {
        let note = |((what, attribute, discipline), count): (Ignored, usize)| {
            let subject = match (count, what) {
                (1, _) => format!("1 {what} gives"),
                (_, "class") => format!("{count} classes give"),
                _ => format!("{count} {what}s give"),
            };
            format!("{subject} `{attribute}`, which {discipline} does not use")
        };
        self.ignored.into_iter().map(note).collect()
    }
}
