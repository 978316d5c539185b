//! The queue management of a path or a stream.

use std::ops::Range;

use millstream::aqm::Aqm;
use millstream::aqm::cobalt::CobaltOptions;
use millstream::aqm::codel::CodelOptions;
use millstream::aqm::dual_pi2::{DualPi2Options, DualSchedule};
use millstream::aqm::pie::PieOptions;
use millstream::aqm::red::RedOptions;

use crate::error::Problem;
use crate::file::aqm::{AqmName, AqmTable, AqmText};

/// Returns the queue management of `text`, which is at `span`.
pub(super) fn aqm(text: &AqmText, span: &Range<usize>, problems: &mut Vec<Problem>) -> Aqm {
    let default = AqmTable::default();
    let (name, of) = match text {
        AqmText::Name(name) => (*name, &default),
        AqmText::Table(table) => (table.kind, &**table),
    };
    check_kind(name, of, span, problems);
    let mut problem = |message: String, help: &str| {
        problems.push(Problem::new(span.clone(), message).help(help));
    };
    match name {
        AqmName::None => Aqm::None,
        AqmName::Codel | AqmName::Cobalt => {
            let CodelOptions { target_ns, interval_ns, ecn } = CodelOptions::default();
            let target_ns = of.target.map_or(target_ns, |target| target.0);
            let interval_ns = of.interval.map_or(interval_ns, |interval| interval.0);
            let ecn = of.ecn.unwrap_or(ecn);
            if target_ns == 0 || target_ns >= interval_ns {
                let kind = if name == AqmName::Codel { "CoDel" } else { "COBALT" };
                problem(
                    format!("a `target` that is 0 or not below the `interval` of {kind}"),
                    "about a twentieth of the interval, for example target = \"5 ms\"",
                );
            }
            match name {
                AqmName::Codel => Aqm::Codel(CodelOptions { target_ns, interval_ns, ecn }),
                _ => Aqm::Cobalt(CobaltOptions { target_ns, interval_ns, ecn }),
            }
        }
        AqmName::Pie => {
            let default = PieOptions::default();
            let of = PieOptions {
                target_ns: of.target.map_or(default.target_ns, |target| target.0),
                update_ns: of.update.map_or(default.update_ns, |update| update.0),
                burst_ns: of.max_burst.map_or(default.burst_ns, |burst| burst.0),
                ecn: of.ecn.unwrap_or(default.ecn),
                derandomize: of.derandomize.unwrap_or(default.derandomize),
                ..default
            };
            if of.target_ns < 1_000 || of.update_ns < 1_000 {
                problem(
                    "a `target` or `update` of PIE below 1 us".to_owned(),
                    "for example target = \"15 ms\", update = \"15 ms\"",
                );
            }
            Aqm::Pie(of)
        }
        AqmName::Red => {
            let default = RedOptions::default();
            let min = of.min.map_or(u64::from(default.min_bytes), |min| min.0);
            let max = of.max.map_or(min.saturating_mul(3), |max| max.0);
            let percent = of.max_percent.unwrap_or(default.max_percent);
            let most = u64::from(u32::MAX);
            if min >= max || max > most {
                let help = "about a third of it, for example min = \"30 kB\", max = \"90 kB\"";
                problem(
                    format!("a `min` of {min} B that is not below `max`, {max} B, or 4 GiB"),
                    help,
                );
            }
            if !(1..=100).contains(&percent) {
                problem(format!("a `max-percent` of {percent}"), "from 1 to 100");
            }
            let bytes = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
            Aqm::Red(RedOptions {
                min_bytes: bytes(min),
                max_bytes: bytes(max),
                max_percent: percent,
                packet_ns: of.packet_time.map_or(default.packet_ns, |time| time.0.max(1)),
                gentle: of.gentle.unwrap_or(default.gentle),
                ecn: of.ecn.unwrap_or(default.ecn),
                ..default
            })
        }
        AqmName::Dualpi2 => {
            let default = DualPi2Options::default();
            let target_ns = of.target.map_or(default.target_ns, |target| target.0);
            let rtt_ns = of.rtt.map_or(DualPi2Options::RTT_NS, |rtt| rtt.0);
            if target_ns < 1_000 || !(100_000..=10_000_000_000).contains(&rtt_ns) {
                problem(
                    "a `target` of DualPI2 below 1 us, or an `rtt` outside 0.1 ms to 10 s"
                        .to_owned(),
                    "for example target = \"15 ms\", rtt = \"100 ms\"",
                );
            }
            let coupling = of.coupling.unwrap_or(default.coupling);
            if !(1..=16).contains(&coupling) {
                problem(format!("a `coupling` of {coupling}"), "from 1 to 16; 2 in RFC 9332");
            }
            let schedule = match (of.classic_percent, of.time_shift) {
                (Some(_), Some(_)) => {
                    problem(
                        "a `classic-percent` and a `time-shift`".to_owned(),
                        "keep one: each schedules the two queues",
                    );
                    default.schedule
                }
                (None, Some(shift)) => DualSchedule::TimeShift { shift_ns: shift.0 },
                (Some(classic_percent), None) => {
                    if !(1..=99).contains(&classic_percent) {
                        let message = format!("a `classic-percent` of {classic_percent}");
                        problem(message, "from 1 to 99");
                    }
                    DualSchedule::Weighted { classic_percent }
                }
                (None, None) => default.schedule,
            };
            let ramp = (default.ramp_start_ns, default.ramp_ns);
            let (ramp_start_ns, ramp_ns) = of.step.map_or(ramp, |step| (step.0, 0));
            let gains = DualPi2Options::for_rtt(target_ns.max(1), rtt_ns.max(1));
            Aqm::DualPi2(DualPi2Options { coupling, ramp_start_ns, ramp_ns, schedule, ..gains })
        }
    }
}

/// Reports the parameters that the queue management does not have.
fn check_kind(name: AqmName, of: &AqmTable, span: &Range<usize>, problems: &mut Vec<Problem>) {
    use AqmName::{Cobalt, Codel, Dualpi2, Pie, Red};
    let keys: [(&str, bool, &[AqmName]); 16] = [
        ("target", of.target.is_some(), &[Codel, Cobalt, Pie, Dualpi2]),
        ("interval", of.interval.is_some(), &[Codel, Cobalt]),
        ("ecn", of.ecn.is_some(), &[Codel, Pie, Red, Cobalt]),
        ("update", of.update.is_some(), &[Pie]),
        ("max-burst", of.max_burst.is_some(), &[Pie]),
        ("derandomize", of.derandomize.is_some(), &[Pie]),
        ("min", of.min.is_some(), &[Red]),
        ("max", of.max.is_some(), &[Red]),
        ("max-percent", of.max_percent.is_some(), &[Red]),
        ("gentle", of.gentle.is_some(), &[Red]),
        ("packet-time", of.packet_time.is_some(), &[Red]),
        ("rtt", of.rtt.is_some(), &[Dualpi2]),
        ("step", of.step.is_some(), &[Dualpi2]),
        ("coupling", of.coupling.is_some(), &[Dualpi2]),
        ("classic-percent", of.classic_percent.is_some(), &[Dualpi2]),
        ("time-shift", of.time_shift.is_some(), &[Dualpi2]),
    ];
    for (key, given, kinds) in keys {
        if given && !kinds.contains(&name) {
            let kinds: Vec<_> = kinds.iter().map(|kind| format!("\"{}\"", kind.text())).collect();
            let message = format!("`{key}` with queue management \"{}\"", name.text());
            let help = format!("take it out; it is a parameter of kind {}", kinds.join(", "));
            problems.push(Problem::new(span.clone(), message).help(help));
        }
    }
}
