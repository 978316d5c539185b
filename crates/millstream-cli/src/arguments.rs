//! The command line, declared once: parser, help and completions derive from it.

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The greatest number of updates.
const MOST: u64 = u32::MAX as u64;

/// Packet and stream scheduling: each stream gets the bandwidth, deadlines and loss bounds it was
/// promised.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done; 1 the run failed; 2 the command line or a file is \
                        wrong; 3 from `check`: a contract cannot be kept; 130 interrupted.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a commented scenario or router file to start from
    ///
    /// Asks for what the options leave open, on a terminal. `millstream check` accepts the file.
    Init(InitArguments),
    /// List the example scenarios, or copy some of them
    Examples(ExamplesArguments),
    /// Run a scenario to its end on a simulated link or fabric; print the per-stream table
    Run(RunArguments),
    /// Run a scenario with every combination of settings and seeds; print means and intervals
    Sweep(SweepArguments),
    /// Validate a scenario or router file; print what will run and the verdict on each contract
    ///
    /// A contract is guaranteed (by a theorem whose premises were checked), infeasible, or not
    /// known. The exit status is 3 if a contract is infeasible.
    Check(CheckArguments),
    /// Route packets between Linux interfaces, TAP devices or captures
    Route(RouteArguments),
    /// Schedule the egress of an interface inside the Linux kernel, or show the counters
    ///
    /// The qdisc stays when the command ends, until `millstream detach` or the next boot.
    Attach(AttachArguments),
    /// Remove the qdisc of `attach` from an interface
    Detach(DetachArguments),
    /// Show a live view of a running router, media server or attached qdisc
    Top(TopArguments),
    /// Serve a scenario's video files to RTSP players
    Serve(ServeArguments),
    /// The data plane process that `serve` starts
    #[command(hide = true)]
    Ni,
    /// The frame reader process that `serve` starts
    #[command(hide = true)]
    Producer,
    /// The process of hooks that `serve` starts
    #[command(hide = true)]
    Hooks,
    /// Measure the cost of a scheduling decision on this machine
    Bench(BenchArguments),
    /// List the structures and hardware that keep up with a number of streams at a line rate
    Plan(PlanArguments),
    /// Print the JSON Schema of scenario files, for editors
    Schema(SchemaArguments),
}

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// What the file describes
    #[arg(value_enum)]
    pub(crate) kind: InitKind,
    /// The file to write ("-": standard output); default: KIND.toml
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Rate of the link; default: the interface's speed, or 10 Mbit/s, in a fabric 1 Gbit/s
    #[arg(long, value_name = "RATE", value_parser = millstream_scenario::parse_rate_bps)]
    pub(crate) rate: Option<u64>,
    /// Read speed and addresses of this interface; uplink: give one, router: the inner one, then
    /// the outer one
    #[arg(long = "interface", value_name = "NAME")]
    pub(crate) interfaces: Vec<String>,
    /// uplink: a pcap or pcapng capture to schedule instead of generated packets
    #[arg(long, value_name = "FILE.pcap", value_hint = ValueHint::FilePath)]
    pub(crate) capture: Option<PathBuf>,
    /// media: the video file to serve (MPEG-1/2, H.264, H.265, AV1, VP8 or VP9); default: a live
    /// stream
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) video: Option<PathBuf>,
    /// voice: number of calls
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1000))]
    pub(crate) calls: Option<u32>,
    /// fabric: number of end-points
    #[arg(long, value_name = "N", value_parser = ["16", "64", "256"])]
    pub(crate) end_points: Option<String>,
    /// router: rate up the line behind the outer interface, a little below the line's own; default:
    /// the interface's speed
    #[arg(long, value_name = "RATE", value_parser = millstream_scenario::parse_rate_bps)]
    pub(crate) upload: Option<u64>,
    /// router: rate down that line, a little below the line's own: what arrives there is scheduled,
    /// too
    #[arg(long, value_name = "RATE", value_parser = millstream_scenario::parse_rate_bps)]
    pub(crate) download: Option<u64>,
    /// router: overhead of that line, bytes beyond the Ethernet frame, or a name such as
    /// "pppoe-ptm"; default: 24, Ethernet
    #[arg(long, value_name = "OVERHEAD", allow_hyphen_values = true,
          value_parser = millstream_scenario::parse_overhead)]
    pub(crate) overhead: Option<String>,
    /// router: a path for each tin of CAKE's preset of this name, by code point
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) preset: Option<DiffservPreset>,
    /// Do not ask; use the defaults
    #[arg(long)]
    pub(crate) yes: bool,
    /// Overwrite the file
    #[arg(long)]
    pub(crate) force: bool,
}

/// What a new file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitKind {
    /// An uplink with voice, control, web and bulk traffic
    Uplink,
    /// Telephone calls beside a flood
    Voice,
    /// A router between two interfaces
    Router,
    /// A media server
    Media,
    /// A fabric of switches
    Fabric,
    /// A comparison of disciplines
    Sweep,
}

/// The presets of tc-cake(8) that divide packets into tins by code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffservPreset {
    /// One tin for all packets
    Besteffort,
    /// Four tins: bulk, best effort, video, voice
    Diffserv4,
    /// Eight tins, from background to network control
    Diffserv8,
}

#[derive(Debug, Args)]
pub(crate) struct ExamplesArguments {
    /// Names of examples to copy, or "all"; default: list the examples
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The directory to copy to
    #[arg(long, value_name = "DIR", default_value = "millstream-examples",
          value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,
    /// Overwrite files with other contents
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArguments {
    /// Print the schema of router files instead
    #[arg(long)]
    pub(crate) router: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct RouteArguments {
    #[command(subcommand)]
    pub(crate) command: Option<RouteCommand>,
    /// The router file (TOML)
    #[arg(value_hint = ValueHint::FilePath, required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Stop after this time, for example "10 s"; default: at Ctrl-C, or when all captures have
    /// ended
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) time: Option<String>,
    /// Print counters as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RouteCommand {
    /// Measure the `cost` of each port and path of a router file on this machine
    Calibrate(CalibrateArguments),
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// The router file (TOML); its ports are not opened
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print the costs as JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArguments {
    /// The network interface
    pub(crate) interface: String,
    /// The scenario file (TOML) of a link and its streams, with their `match`; on an attached
    /// interface, it changes the contracts without losing a packet
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::FilePath,
          required_unless_present = "status", conflicts_with = "status")]
    pub(crate) file: Option<PathBuf>,
    /// Also limit packets of segmentation offload on the interface to N segments: with 1, TCP of
    /// this host does not hold a slow link for many packets
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=65535),
          conflicts_with = "status")]
    pub(crate) gso_max_segs: Option<u32>,
    /// Approximate the scenario by other means of the kernel; prints the commands, and what they
    /// do not keep
    #[arg(long, value_enum, value_name = "MEANS", conflicts_with = "status")]
    pub(crate) via: Option<AttachMeans>,
    /// Print the commands of --via only, as a shell script; needs neither root nor the interface
    #[arg(long, requires = "via")]
    pub(crate) dry_run: bool,
    /// Print the counters of the attached qdisc
    #[arg(long)]
    pub(crate) status: bool,
    /// Print the counters as JSON instead of a table
    #[arg(long, requires = "status", conflicts_with = "file")]
    pub(crate) json: bool,
    /// Print the counters in Prometheus' text format, for the textfile collector of node_exporter
    #[arg(long, requires = "status", conflicts_with_all = ["file", "json"])]
    pub(crate) prometheus: bool,
    /// Serve the counters at an address, such as 127.0.0.1:9817, until Ctrl-C: a dashboard,
    /// `/status` as JSON and `/metrics` for Prometheus
    #[cfg(feature = "live")]
    #[arg(long, value_name = "ADDRESS", requires = "status",
          conflicts_with_all = ["file", "json", "prometheus"])]
    pub(crate) listen: Option<SocketAddr>,
}

/// What approximates a scenario in a kernel without BPF qdiscs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttachMeans {
    /// Classes of HTB with fq_codel, by tc(8)
    Tc,
}

#[derive(Debug, Args)]
pub(crate) struct DetachArguments {
    /// The network interface
    pub(crate) interface: String,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// The address of the status page: `status` in a router file, `http` in a media server file;
    /// or the interface of an attached qdisc
    #[arg(value_name = "ADDRESS|INTERFACE", default_value = "127.0.0.1:9817",
          value_parser = top_target)]
    pub(crate) target: TopTarget,
    /// Time between updates
    #[arg(long = "interval", alias = "every", value_name = "DURATION", default_value = "1 s")]
    pub(crate) interval: String,
    /// Stop after N updates; default: at Ctrl-C, or when the program ends
    #[arg(long, alias = "looks", value_name = "N", value_parser = whole::<u32>(1..=MOST))]
    pub(crate) count: Option<u32>,
    /// Print all counters as JSON, one line per update, instead of tables of changes
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The scenario file (TOML) with video sources
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Stop after this time, for example "10 s"; default: at Ctrl-C
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) time: Option<String>,
    /// Print the final counters as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The scenario file (TOML)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Write every departure as CSV, in order ("-": standard output)
    #[arg(long, value_name = "FILE.csv", value_hint = ValueHint::FilePath)]
    pub(crate) departures: Option<PathBuf>,
    /// Write the summary as JSON
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) summary: Option<PathBuf>,
    /// Write a self-contained HTML page with the table and charts
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Write the goodput of TCP connections and the round-trip times of a network as a data file
    /// of Flent
    #[arg(long, value_name = "FILE.flent", value_hint = ValueHint::FilePath)]
    pub(crate) flent: Option<PathBuf>,
    /// Write the packets of capture sources at their departure times
    #[arg(long, value_name = "FILE.pcap", value_hint = ValueHint::FilePath)]
    pub(crate) pcap: Option<PathBuf>,
    /// Write the paths of some packets through a fabric as a trace for ui.perfetto.dev or
    /// chrome://tracing
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,
    /// Packets in the trace: stream=NAME, source=N or N-M, destination=N or N-M, connection=N or
    /// N-M, from=TIME, until=TIME, every=N (of each stream), first=N (of each stream); default: the
    /// first 20 of each stream after the warm-up
    #[arg(long, value_name = "CLAUSE,…", value_delimiter = ',', requires = "trace")]
    pub(crate) trace_packets: Vec<String>,
    /// Print the summary as JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Set a key of the file for this run, for example scheduler.discipline=fifo; may be repeated
    #[arg(long = "set", value_name = "PLACE=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Compute the bounds of `check` before the run, and print them beside the delays; the run
    /// fails if a delay exceeds its bound
    #[arg(long)]
    pub(crate) bounds: bool,
    /// Use this seed instead of the scenario's
    #[arg(long, value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// Threads of a fabric; the results are the same with any number; default: 1
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1..=1024))]
    pub(crate) workers: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// The scenario file (TOML)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// A key of the file and its values: link.rate="10 Mbit/s,20 Mbit/s", stream.NAME.weight=1,4,
    /// stream.*.queue=10,99; may be repeated, all combinations run
    #[arg(long = "set", value_name = "PLACE=VALUE,…")]
    pub(crate) settings: Vec<String>,
    /// Seeds: 10 means 1 to 10, 5..8 means 5 to 8, 3,1,7 a list; default: the scenario's seed
    #[arg(long, value_name = "SEEDS")]
    pub(crate) seeds: Option<String>,
    /// Stop adding seeds once the half-width of METRIC's 95 % confidence interval is at most
    /// PERCENT of the mean for every stream (or for STREAM); METRIC is a column of the dataset; at
    /// least three seeds run; for example delay_mean=2%; may be repeated, all must hold
    #[arg(long, value_name = "[STREAM.]METRIC=PERCENT%")]
    pub(crate) until: Vec<String>,
    /// Threads; default: one for each core
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1..=1024))]
    pub(crate) workers: Option<usize>,
    /// Keep runs in a journal and write the dataset: FILE.csv, FILE.parquet, or a directory for
    /// both; repeating the command runs only what is missing
    #[arg(long, value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) out: Option<PathBuf>,
    /// Write an HTML page with settings, means with intervals, and charts ("-": standard output)
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Print means and intervals of every metric as JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Returns a parser of whole numbers in a range.
fn whole<T: TryFrom<u64>>(
    range: std::ops::RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            format!("expected a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// What `top` shows.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "live"), expect(dead_code, reason = "`top` is one of the live commands"))]
pub(crate) enum TopTarget {
    /// The status page of a router or a media server.
    Address(SocketAddr),
    /// The qdisc of an interface.
    Interface(String),
}

/// Parses an address with a port, or an interface; a port alone is of this machine.
fn top_target(text: &str) -> Result<TopTarget, String> {
    let port = || text.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    if let Some(address) = text.parse().ok().or_else(port) {
        return Ok(TopTarget::Address(address));
    }
    // The names that Linux allows, without those of addresses.
    let is_name = (1..16).contains(&text.len())
        && !text.contains(|c: char| c.is_whitespace() || c == '/' || c == ':')
        && text.parse::<Ipv4Addr>().is_err()
        && text.contains(|c: char| !c.is_ascii_digit());
    is_name.then(|| TopTarget::Interface(text.to_owned())).ok_or_else(|| {
        "expected an address and a port, for example 127.0.0.1:9817, a port or an interface"
            .to_owned()
    })
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Number of streams
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "4,16,64,1024,65536",
          value_parser = whole::<u32>(1..=1 << 24))]
    pub(crate) streams: Vec<u32>,
    /// Structures; also deadline queues without windows, measured without misses: binary-heap,
    /// cffs, timing-wheel
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "scan,heap,dual-heap,hilq-exact,binary-heap,cffs,timing-wheel"
    )]
    pub(crate) structures: Vec<String>,
    /// The measured step: a decision with its updates; a dequeue and an enqueue; or the latter with
    /// one stream in sixteen backlogged
    #[arg(
        long = "work",
        value_name = "WORK,…",
        value_delimiter = ',',
        default_value = "decision,packet"
    )]
    pub(crate) works: Vec<BenchWork>,
    /// Missed request periods, percent; 63 means 1.7 misses per decision
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "0,63",
          value_parser = whole::<u32>(0..=99))]
    pub(crate) missed: Vec<u32>,
    /// The distribution of deadlines
    #[arg(
        long,
        value_name = "KIND,…",
        value_delimiter = ',',
        value_enum,
        default_value = "spread"
    )]
    pub(crate) deadlines: Vec<BenchDeadlines>,
    /// A program that measures another system under the same workload (benches/peers); may be
    /// repeated
    #[arg(long = "peer", value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath)]
    pub(crate) peers: Vec<PathBuf>,
    /// Draw median times by number of streams, on logarithmic axes
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) figure: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The distribution of the deadlines in a measurement.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BenchDeadlines {
    /// Random periods and phases: equal deadlines are rare
    Spread,
    /// A thousand periods with a common start: many equal deadlines
    Tied,
}

/// The step that is measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BenchWork {
    /// A decision and all updates of attributes
    Decision,
    /// A dequeue and an enqueue, all streams backlogged
    Packet,
    /// A dequeue and an enqueue, one stream in sixteen backlogged
    Sparse,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// Number of streams
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1 << 24))]
    pub(crate) streams: u32,
    /// Minimum packet length, bytes
    #[arg(long, value_name = "BYTES", value_parser = whole::<u32>(1..=1 << 20))]
    pub(crate) bytes: u32,
    /// Line rate, for example "10 Gbit/s"
    #[arg(long, value_name = "RATE", value_parser = millstream_scenario::parse_rate_bps)]
    pub(crate) rate: u64,
    /// Overhead of a packet on the wire, bytes; Ethernet preamble, FCS and gap: 24
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) overhead: u16,
    /// The discipline
    #[arg(long, value_enum, default_value_t = PlanDiscipline::Dwcs)]
    pub(crate) discipline: PlanDiscipline,
    /// Read the output of `millstream bench --work decision --json` instead of measuring
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) software: Option<PathBuf>,
    /// Draw decision times by number of streams, with packet-times
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) figure: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Disciplines that the measurement and the hardware support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanDiscipline {
    /// Window-constrained, earliest deadline first
    Dwcs,
    /// Earliest deadline first
    Edf,
    /// Static priority
    StaticPriority,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The scenario file (TOML)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Set a key of a scenario file, for example scheduler.discipline=fifo; may be repeated
    #[arg(long = "set", value_name = "PLACE=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Exit with status 3 unless every contract is guaranteed
    #[arg(long)]
    pub(crate) require_guarantee: bool,
    /// Also print the least queues that lose no packet, by stream and link
    #[arg(long)]
    pub(crate) dimension: bool,
}
