//! A validated scenario, with every default filled in.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{ClassId, Contract, Framing, Tree};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Problem, ScenarioError, span_of};
use crate::fabric::Fabric;
use crate::mark::Mark;
use crate::media::Media;
use crate::network::{Direction, Hop, Network};
use crate::router::{FlowBy, HostBy, Match};
use crate::source::Source;
use crate::validate::validate;

/// Returns the size of the largest accepted scenario file, bytes: about two million streams.
#[must_use]
pub const fn max_file_bytes() -> u64 {
    512 << 20
}

/// The output link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Line speed, bits/s; never 0.
    pub rate_bps: u64,
    /// Bytes on the wire per packet in addition to its length, before framing.
    pub overhead: i32,
    /// The framing.
    pub framing: Framing,
    /// The receiver's credit-based flow control; `None` without flow control.
    pub credits: Option<LinkCredits>,
}

/// Credit-based flow control of the receiver. Each stream's initial credits are in its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCredits {
    /// The delay from the end of a packet's transmission to the return of its credits, ns.
    pub return_delay_ns: u64,
}

impl Link {
    /// Returns the transmission time of a packet of `bytes` bytes, ns.
    ///
    /// It is ceil(wire bytes × 8 × 10⁹ / rate).
    #[inline]
    #[must_use]
    pub fn transmission_ns(&self, bytes: u32) -> u64 {
        self.wire().transmission_ns(bytes)
    }

    /// Returns a link without flow control.
    #[must_use]
    pub fn of(wire: millstream::Link) -> Self {
        let millstream::Link { rate_bps, overhead_bytes: overhead, framing } = wire;
        Self { rate_bps, overhead, framing, credits: None }
    }

    /// Returns the link as schedulers see it.
    #[inline]
    #[must_use]
    pub fn wire(&self) -> millstream::Link {
        millstream::Link::new(self.rate_bps, self.overhead).framed(self.framing)
    }
}

/// The end-system card and its bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSystem {
    /// The bus's name in the file.
    pub bus: &'static str,
    /// The card's clock, Hz; never 0.
    pub clock_hz: u64,
    /// The tick of the card's clock counter, ns; never 0. Periods are multiples of it.
    pub packet_time_ns: u64,
}

/// A stream: its name, contract and source.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The name, unique among streams.
    pub name: String,
    /// The service contract.
    pub contract: Contract,
    /// The request period T, ns, if given.
    pub period_ns: Option<u64>,
    /// The window-constraint x/y.
    pub window: (u32, u32),
    /// The source of its packets.
    pub source: Source,
    /// The class that contains it, as an index into [`Scenario::classes`]; `None` for the root.
    pub class: Option<usize>,
    /// In a fabric, the share of each end-point's link that connections of this kind fill; 0 for a
    /// single connection.
    pub load: f64,
    /// In a fabric, the end-points that send and receive its only connection; `None`: each
    /// end-point has connections to random others.
    pub virtual_link: Option<(u32, u32)>,
    /// Another stream, as an index in file order. The packets use its contract and its queue;
    /// `None`: their own.
    pub shares: Option<usize>,
    /// What its flows are, if its contract has some.
    pub flow_by: FlowBy,
    /// The hosts among which its flows share equally, if they do.
    pub hosts_by: Option<HostBy>,
    /// In a network, the direction of its data.
    pub direction: Direction,
    /// The packets that `millstream attach` puts into the stream: those that match one of these.
    pub matches: Vec<StreamMatch>,
}

/// A match of a stream; a packet must satisfy all fields, the mark and the cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamMatch {
    /// The fields of the packet's headers; `port`, `pcp` and `vlan` are `None`.
    pub fields: Match,
    /// The packet's mark (fwmark).
    pub mark: Option<Mark>,
    /// The path of the cgroup (version 2) of the sending process, or of one above it. It begins
    /// with `/`, which alone is the root.
    pub cgroup: Option<String>,
    /// The pcap-filter expression for the Ethernet frame.
    pub filter: Option<String>,
}

/// A class of the tree.
#[derive(Clone, Debug)]
pub struct Class {
    /// The name, unique among classes.
    pub name: String,
    /// The parent class, as an index into [`Scenario::classes`]; `None` for the root. Parents come
    /// before their children.
    pub parent: Option<usize>,
    /// The service contract with its parent.
    pub contract: Contract,
    /// How it shares its service among its children.
    pub scheduler: SchedulerConfig,
}

/// How the root or a class shares its service among its children.
#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// The discipline.
    pub discipline: &'static DisciplineRow,
    /// The queue structure; "auto" is already resolved.
    pub structure: StructureName,
    /// The options of the discipline.
    pub options: Options,
}

/// A valid scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name of the scenario's file, for error messages.
    pub file: String,
    /// The scenario's name.
    pub name: String,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The time when sources stop, ns; `None` if every source ends by itself.
    pub duration_ns: Option<u64>,
    /// The link; in a fabric, the parameters of every link.
    pub link: Link,
    /// The fabric; `None` for a single link.
    pub fabric: Option<Fabric>,
    /// The network; `None` for a single link without sources that react.
    pub network: Option<Network>,
    /// The settings for serving the streams to players.
    pub media: Media,
    /// Whether the file has a `[media]` section, which `millstream serve` uses.
    pub has_media: bool,
    /// How the link is shared among the streams or, with classes, among the root's children.
    pub scheduler: SchedulerConfig,
    /// Whether the hardware core selects the winner (structure `rtl`); `scheduler` is then the
    /// equivalent software scheduler.
    pub hardware: bool,
    /// The end-system card that contains the hardware core; `None` for the bare core.
    pub end_system: Option<EndSystem>,
    /// The classes, parents before their children; empty if the root contains all streams.
    pub classes: Vec<Class>,
    /// The streams in file order.
    pub streams: Vec<Stream>,
    /// Notes about attributes of the file that the discipline does not use.
    pub notes: Vec<String>,
    /// The file's text.
    pub text: String,
    /// The folder that input files are relative to.
    pub folder: PathBuf,
}

impl Scenario {
    /// Reads and validates a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError`] with every problem found; an unreadable file is also one.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let (name, text) = load_text(path)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        match validate(&name, &text, &folder) {
            Ok(scenario) => Ok(Self { text, ..scenario }),
            Err(problems) => Err(ScenarioError::new(&name, &text, problems)),
        }
    }

    /// Validates the text of a scenario file called `name` whose inputs are relative to `folder`.
    ///
    /// # Errors
    /// [`ScenarioError`] with every problem found.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        match validate(name, text, folder) {
            Ok(scenario) => Ok(Self { text: text.to_owned(), ..scenario }),
            Err(problems) => Err(ScenarioError::new(name, text, problems)),
        }
    }

    /// Returns the error of a command that cannot run this valid scenario, with line and caret: at
    /// `key` of the `number`-th table called `table`, or at the table's name if it lacks the key.
    #[must_use]
    pub fn error_at(
        &self,
        (table, number, key): (&str, usize, &str),
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> ScenarioError {
        let problem = match span_of(&self.text, table, number, key) {
            Some(span) => Problem::new(span, message),
            None => Problem::whole_file(message),
        };
        ScenarioError::new(&self.file, &self.text, vec![problem.help(help)])
    }

    /// Returns the classes above stream number `stream`, its own first.
    pub fn classes_above(&self, stream: usize) -> impl Iterator<Item = usize> {
        let parent = |class: &usize| self.classes[*class].parent;
        std::iter::successors(self.streams[stream].class, parent)
    }

    /// Returns the last link that the packets of `stream` pass.
    #[must_use]
    pub fn last_link(&self, stream: &Stream) -> &Link {
        let mut hops = self.network.iter().flat_map(|network| &network.hops);
        let last = hops.rfind(|hop| hop.direction == stream.direction);
        last.map_or(&self.link, |hop| &hop.link)
    }

    /// Returns the structure's name in the file; "auto" is already resolved.
    #[must_use]
    pub fn structure_name(&self) -> &'static str {
        if self.hardware { "rtl" } else { self.scheduler.structure.name() }
    }

    /// Builds the software scheduler of this scenario and adds its streams.
    #[must_use]
    pub fn scheduler(&self) -> Box<dyn DynScheduler + Send> {
        self.scheduler_with(&self.scheduler)
    }

    /// Builds the scheduler of a link of this scenario's network and adds all streams.
    #[must_use]
    pub fn scheduler_of(&self, hop: &Hop) -> Box<dyn DynScheduler + Send> {
        let mut config = hop.scheduler.as_ref().unwrap_or(&self.scheduler).clone();
        config.options.link = hop.link.wire();
        self.scheduler_with(&config)
    }

    fn scheduler_with(&self, root: &SchedulerConfig) -> Box<dyn DynScheduler + Send> {
        let valid = "validation guarantees every attribute that the discipline needs";
        if self.classes.is_empty() {
            let mut scheduler = root.discipline.build(&root.options, root.structure);
            for stream in &self.streams {
                scheduler.add_stream(stream.contract.clone()).expect(valid);
            }
            return scheduler;
        }
        let mut tree = Tree::new(root.discipline, root.structure, &root.options);
        let mut classes: Vec<ClassId> = Vec::with_capacity(self.classes.len());
        let id = |classes: &[ClassId], class: Option<usize>| {
            class.map_or(ClassId::ROOT, |class| classes[class])
        };
        for class in &self.classes {
            let SchedulerConfig { discipline, structure, options } = &class.scheduler;
            // A hop has a link of its own.
            let options = &Options { link: root.options.link, ..options.clone() };
            let parent = id(&classes, class.parent);
            let contract = class.contract.clone();
            let added = tree.add_class(parent, contract, discipline, *structure, options);
            classes.push(added.expect(valid));
        }
        for stream in &self.streams {
            let class = id(&classes, stream.class);
            tree.add_stream(class, stream.contract.clone()).expect(valid);
        }
        Box::new(tree)
    }
}

/// Returns the name and text of the file at `path`.
pub(crate) fn load_text(path: &Path) -> Result<(String, String), ScenarioError> {
    let name = path.display().to_string();
    let unreadable =
        |message: String| ScenarioError::new(&name, "", vec![Problem::whole_file(message)]);
    let bytes = read_limited(path).map_err(|error| {
        let problem = Problem::whole_file(format!("{name}: {error}"));
        let missing = error.kind() == io::ErrorKind::NotFound;
        let help = "`millstream init` writes a file, and `millstream examples` copies the examples";
        let problem = if missing { problem.help(help) } else { problem };
        ScenarioError::new(&name, "", vec![problem])
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        unreadable(format!("{name} is not UTF-8 text: invalid sequence at byte {valid}"))
    })?;
    Ok((name, text))
}

fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = max_file_bytes();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("larger than {limit} bytes")));
    }
    Ok(bytes)
}
