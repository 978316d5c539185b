//! `millstream attach` and `detach`: the scheduler as a qdisc of the Linux kernel.

mod metrics;
#[cfg(feature = "live")]
mod pages;
mod tc;

use millstream::aqm::Aqm;
use millstream::bounds::{EdfAdmission, StreamLimits, Theorem};
use millstream_bpf::Qdisc;
use millstream_bpf::attach::{self as qdisc, AttachError, Attached, Status, StreamStatus};
use millstream_report::human;
use millstream_scenario::{Scenario, Stream, explain};
use serde::{Deserialize, Serialize};
use std::process::Command;

use crate::arguments::{AttachArguments, AttachMeans, DetachArguments};
use crate::check::MAX_ARRIVALS_READ;
use crate::failure::Failure;
use crate::init::interfaces::Interface;
use crate::print;
use crate::terminal::{print_text, say, text_table};
use metrics::metrics;

/// The longest transmission time of a packet without a note, ns.
const LONG_PACKET_NS: u64 = 1_000_000;

/// The length of a segment with its headers, bytes.
const SEGMENT_BYTES: u32 = 1_514;

/// Attaches or changes the qdisc, or prints its counters.
pub(crate) fn attach(arguments: &AttachArguments) -> Result<(), Failure> {
    let interface = &arguments.interface;
    // The parser requires a file without `--status`.
    let Some(file) = arguments.file.as_deref().filter(|_| !arguments.status) else {
        let status = read_status(interface)?;
        #[cfg(feature = "live")]
        if let Some(address) = arguments.listen {
            return pages::serve(interface, address);
        }
        return if arguments.json {
            let output = Output::of(interface, &status);
            print(&(serde_json::to_string_pretty(&output).unwrap_or_default() + "\n"))
        } else if arguments.prometheus {
            print(&metrics(interface, &status))
        } else {
            print_text(&text(interface, &status))
        };
    };
    let scenario = Scenario::load(file)?;
    if arguments.via == Some(AttachMeans::Tc) {
        return tc::attach(arguments, &scenario);
    }
    let mut qdisc = Qdisc::of_scenario(&scenario)?;
    Interface::read(interface)?;
    // The sources are for simulations: the qdisc does not need their files.
    match explain(&scenario, MAX_ARRIVALS_READ) {
        Ok(explained) => {
            let bounds = explained.streams.iter().map(|stream| stream.bounds.worst_delay_ns);
            qdisc.delay_bounds_ns = bounds.collect();
        }
        Err(error) => say(&format!("note: no bounds on delays: {error}")),
    }
    let attached = qdisc::attach(interface, &qdisc).map_err(|error| failure(interface, error))?;
    if let Some(segments) = arguments.gso_max_segs {
        run("ip", &["link", "set", "dev", interface, "gso_max_segs", &segments.to_string()])?;
    }
    let notes = [
        segmentation_note(interface, &scenario),
        marking_note(&scenario),
        deadline_note(&scenario),
    ];
    for note in notes {
        note.iter().for_each(|note| say(note));
    }
    let verb = match attached {
        Attached::New => "attached",
        Attached::Changed => "changed to",
    };
    print_text(&format!(
        "{interface}: {verb} {}, {}, link {}\n",
        scenario.scheduler.discipline.name,
        human::count(scenario.streams.len() as u64, "stream"),
        human::rate(scenario.link.rate_bps),
    ))
}

/// Reads the counters of an interface's qdisc.
pub(crate) fn read_status(interface: &str) -> Result<Status, Failure> {
    Interface::read(interface)?;
    qdisc::status(interface).map_err(|error| failure(interface, error))
}

/// Returns the counters as a line of JSON.
#[cfg(feature = "live")]
pub(crate) fn json_line(interface: &str, status: &Status) -> String {
    serde_json::to_string(&Output::of(interface, status)).unwrap_or_default()
}

/// Removes the qdisc, or the classes of `--via tc`.
pub(crate) fn detach(arguments: &DetachArguments) -> Result<(), Failure> {
    let interface = &arguments.interface;
    let had_classes = tc::detach(interface)?;
    match qdisc::detach(interface) {
        Err(AttachError::Detached(_)) if had_classes => Ok(()),
        result => result.map_err(|error| failure(interface, error)),
    }
}

/// Returns the error with a help.
fn failure(interface: &str, error: AttachError) -> Failure {
    let help = match &error {
        AttachError::Interface(_) => "`ip link` lists the interfaces".to_owned(),
        AttachError::Root => "run the command as root, for example by sudo".to_owned(),
        AttachError::Kernel(_) => format!(
            "the qdisc needs Linux 6.16 or later with CONFIG_NET_SCH_BPF and \
             CONFIG_DEBUG_INFO_BTF; on older kernels, `millstream route` keeps the contracts, and \
             `millstream attach {interface} SCENARIO --via tc` approximates them by HTB"
        ),
        AttachError::Detached(_) => format!("`millstream attach {interface} SCENARIO` attaches it"),
        AttachError::Change(_) | AttachError::Version => {
            format!("`millstream detach {interface}` first; packets that wait are lost then")
        }
        AttachError::Frames(_) => "use other keys than `filter`, such as `protocol` and \
                                   `destination-port`"
            .to_owned(),
        AttachError::NoTc => "install iproute2".to_owned(),
        AttachError::Bpf(..) | AttachError::File(..) => {
            "the qdisc needs the capabilities of root and a BPF file system in /sys/fs/bpf: mount \
             -t bpf bpf /sys/fs/bpf"
                .to_owned()
        }
        AttachError::RootQdisc(..) | AttachError::Tc(_) => {
            format!("`tc qdisc show dev {interface}` shows the present qdisc")
        }
    };
    Failure::Run(miette::miette!(help = help, "{error}"))
}

/// Runs a program of iproute2; returns its output.
fn run(program: &str, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    let failed = |error: String| {
        Failure::Run(miette::miette!(
            help = "the programs ip and tc are in the package iproute2, and need root",
            "{program} {}: {error}",
            arguments.join(" ")
        ))
    };
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The limits of packets that the interface or the kernel segments, as `ip` shows them.
#[derive(Deserialize)]
struct Offload {
    gso_max_size: u32,
    gso_max_segs: u32,
}

impl Offload {
    /// Returns the length of the longest packet of several segments, bytes.
    fn longest_bytes(&self) -> Option<u32> {
        let longest = self.gso_max_segs.saturating_mul(SEGMENT_BYTES).min(self.gso_max_size);
        (self.gso_max_segs > 1).then_some(longest)
    }
}

/// Returns a note if a packet of many segments holds the link for long.
fn segmentation_note(interface: &str, scenario: &Scenario) -> Option<String> {
    let shown = run("ip", &["-json", "-details", "link", "show", "dev", interface]).ok()?;
    let [offload]: [Offload; 1] = serde_json::from_slice(&shown).ok()?;
    let bytes = offload.longest_bytes()?;
    let time_ns = scenario.link.transmission_ns(bytes);
    let time = human::time(time_ns);
    (time_ns > LONG_PACKET_NS).then(|| {
        format!(
            "note: a TCP packet of {bytes} bytes holds the link for {time}; `--gso-max-segs 1` \
             makes TCP of this host send segments one by one"
        )
    })
}

/// Returns a note if the scenario marks packets, which the qdisc does not.
fn marking_note(scenario: &Scenario) -> Option<String> {
    let marks = |of: &Stream| {
        let flows = of.contract.flow_options();
        flows.is_some_and(|of| matches!(of.aqm, Aqm::Codel(codel) if codel.ecn))
    };
    let stream = scenario.streams.iter().find(|of| marks(of))?;
    Some(format!(
        "note: CoDel of stream `{}` drops packets of ECN-capable senders: the kernel gives a BPF \
         qdisc no means to mark them; `aqm = {{ kind = \"codel\", ecn = false }}` says so",
        stream.name
    ))
}

/// Returns a note if packets of one segment may miss their deadlines, and no window allows it.
fn deadline_note(scenario: &Scenario) -> Option<String> {
    let deadlines = scenario.scheduler.discipline.guarantee.deadlines()?;
    let allowed = |stream: &Stream| !deadlines.every_request && stream.window.0 > 0;
    let ordered = deadlines.theorems.contains(&Theorem::EdfDemand) && scenario.classes.is_empty();
    if !ordered || scenario.streams.iter().any(allowed) {
        return None;
    }
    let mut admission = EdfAdmission::new(scenario.link.wire());
    let mut refused = scenario.streams.iter().filter_map(|stream| {
        let limits = StreamLimits::of(&stream.contract, SEGMENT_BYTES, SEGMENT_BYTES);
        Some((stream, admission.admit(&limits).err()?))
    });
    refused.next().map(|(stream, why)| {
        let name = &stream.name;
        format!(
            "note: deadlines may be missed if packets have {SEGMENT_BYTES} bytes: with `{name}`, \
             {why}"
        )
    })
}

/// The counters as JSON.
#[derive(Serialize)]
struct Output<'a> {
    interface: &'a str,
    discipline: &'a str,
    rate_bps: u64,
    timer_late_longest_ns: u64,
    streams: Vec<StreamOutput<'a>>,
}

#[derive(Serialize)]
struct StreamOutput<'a> {
    #[serde(flatten)]
    status: &'a StreamStatus,
    sojourn_p50_bound_ns: Option<u64>,
    sojourn_p99_bound_ns: Option<u64>,
}

impl<'a> Output<'a> {
    fn of(interface: &'a str, status: &'a Status) -> Self {
        let streams = status.streams.iter().map(|status| StreamOutput {
            status,
            sojourn_p50_bound_ns: status.sojourn_bound_ns(50),
            sojourn_p99_bound_ns: status.sojourn_bound_ns(99),
        });
        let Status { discipline, rate_bps, timer_late_longest_ns, .. } = *status;
        let streams = streams.collect();
        Self { interface, discipline, rate_bps, timer_late_longest_ns, streams }
    }
}

fn text(interface: &str, status: &Status) -> String {
    let rate = human::rate(status.rate_bps);
    let header = [
        "stream",
        "waiting",
        "flows",
        "arrivals",
        "sent",
        "bytes",
        "late",
        "queue full",
        "aqm",
        "longest flow",
        "missed",
        "violations",
        "p50 delay ≤",
        "p99 delay ≤",
        "longest",
        "bound",
    ];
    let time = |ns: Option<u64>| ns.map_or("–".into(), human::time);
    let rows = status.streams.iter().map(|stream| {
        let bound = |percent| time(stream.sojourn_bound_ns(percent));
        let counts = [
            stream.waiting.into(),
            stream.flows.into(),
            stream.arrivals,
            stream.sent,
            stream.sent_bytes,
            stream.dropped_late,
            stream.dropped_full,
            stream.dropped_by_aqm,
            stream.dropped_from_longest,
            stream.missed,
            stream.violations,
        ];
        let counts = counts.map(|count: u64| count.to_string());
        let longest_ns = (stream.sent > 0).then_some(stream.sojourn_longest_ns);
        let times = [bound(50), bound(99), time(longest_ns), time(stream.delay_bound_ns)];
        [stream.name.clone()].into_iter().chain(counts).chain(times).collect()
    });
    let timer = human::time(status.timer_late_longest_ns);
    let Status { discipline, .. } = status;
    format!("{interface}: {discipline}, link {rate}, timer at most {timer} late\n")
        + &text_table(&header, rows)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn status() -> Status {
        let mut voice = StreamStatus {
            name: "voice \"a\"".into(),
            waiting: 1,
            arrivals: 6,
            sent: 3,
            sent_bytes: 642,
            dropped_late: 2,
            missed: 2,
            violations: 1,
            sojourn: vec![0; 40],
            sojourn_sum_ns: 1_503_000,
            sojourn_longest_ns: 901_000,
            delay_bound_ns: Some(1_200_000),
            ..StreamStatus::default()
        };
        // 1 µs to 2 µs, and 0.5 ms to 1 ms.
        (voice.sojourn[10], voice.sojourn[19]) = (1, 2);
        let streams = vec![voice];
        let (rate_bps, timer_late_longest_ns) = (20_000_000, 9_000);
        Status { discipline: "dwcs", rate_bps, timer_late_longest_ns, streams }
    }

    #[test]
    fn counters_are_shown_as_json_with_stable_names() {
        let output = serde_json::to_string(&Output::of("eth0", &status())).unwrap();
        assert_eq!(
            output,
            concat!(
                r#"{"interface":"eth0","discipline":"dwcs","rate_bps":20000000,"#,
                r#""timer_late_longest_ns":9000,"#,
                r#""streams":[{"name":"voice \"a\"","waiting":1,"flows":0,"arrivals":6,"sent":3,"#,
                r#""sent_bytes":642,"dropped_late":2,"dropped_full":0,"dropped_by_aqm":0,"#,
                r#""dropped_from_longest":0,"missed":2,"violations":1,"#,
                r#""sojourn_sum_ns":1503000,"sojourn_longest_ns":901000,"#,
                r#""delay_bound_ns":1200000,"sojourn_p50_bound_ns":1048576,"#,
                r#""sojourn_p99_bound_ns":1048576}]}"#
            )
        );
    }

    #[test]
    fn errors_of_the_system_say_what_is_needed() {
        let text = |error| match failure("eth0", error) {
            Failure::Run(report) => {
                format!(
                    "{report}; {}",
                    report.help().map_or(String::new(), |help| help.to_string())
                )
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(
            text(AttachError::Kernel("6.12.0-amd64".into())),
            "the kernel, Linux 6.12.0-amd64, has no BPF qdiscs; the qdisc needs Linux 6.16 or \
             later with CONFIG_NET_SCH_BPF and CONFIG_DEBUG_INFO_BTF; on older kernels, \
             `millstream route` keeps the contracts, and `millstream attach eth0 SCENARIO --via \
             tc` approximates them by HTB"
        );
        assert_eq!(
            text(AttachError::Root),
            "the qdisc needs root; run the command as root, for example by sudo"
        );
        assert_eq!(
            text(AttachError::Change("x".into())),
            "the attached qdisc cannot change: x; `millstream detach eth0` first; packets that \
             wait are lost then"
        );
        assert_eq!(
            text(AttachError::Frames("tun0".into())),
            "`filter` needs Ethernet frames, which tun0 does not have; use other keys than \
             `filter`, such as `protocol` and `destination-port`"
        );
        assert_eq!(text(AttachError::NoTc), "the program tc is not installed; install iproute2");
    }

    #[test]
    fn a_packet_of_one_segment_has_no_note() {
        let longest =
            |gso_max_size, gso_max_segs| Offload { gso_max_size, gso_max_segs }.longest_bytes();
        assert_eq!(longest(65_536, 65_535), Some(65_536));
        assert_eq!(longest(65_536, 2), Some(3_028));
        assert_eq!(longest(65_536, 1), None);
    }
}
