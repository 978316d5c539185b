//! A scenario that can be run: everything checked, every default filled in.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{ClassId, Contract, Tree};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Problem, ScenarioError};
use crate::fabric::Fabric;
use crate::media::Media;
use crate::source::Source;
use crate::validate::validate;

/// The largest scenario file that is read, bytes: room for about two million streams.
#[must_use]
pub const fn largest_file_bytes() -> u64 {
    512 << 20
}

/// What packets leave through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Line speed, bits/s; never 0.
    pub rate_bps: u64,
    /// Bytes a packet takes on the wire beyond its length.
    pub overhead: u32,
    /// Credit-based flow control, if the receiver has it.
    pub credits: Option<LinkCredits>,
}

/// A receiver that returns credits. How many each stream has at first is in its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCredits {
    /// How long after the end of a packet's transmission its credits are back, ns.
    pub return_delay_ns: u64,
}

impl Link {
    /// How long a packet of `bytes` bytes occupies the link: ceil((bytes + overhead) × 8 × 10⁹ /
    /// rate) ns.
    #[inline]
    #[must_use]
    pub fn transmission_ns(&self, bytes: u32) -> u64 {
        let bits = (u64::from(bytes) + u64::from(self.overhead)) * 8;
        match bits.checked_mul(1_000_000_000) {
            Some(scaled) => scaled.div_ceil(self.rate_bps),
            // Packets of gigabytes; at 1 bit/s even 2³³ bytes fit 64 bits of nanoseconds.
            None => u64::try_from(
                (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(self.rate_bps)),
            )
            .unwrap_or(u64::MAX),
        }
    }
}

/// The end-system card, and what it is plugged into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSystem {
    /// The bus's name in the file.
    pub bus: &'static str,
    /// The card's clock, Hz; never 0.
    pub clock_hz: u64,
    /// A tick of the card's time, ns; never 0. Periods are multiples of it.
    pub packet_time_ns: u64,
}

/// A stream: its name, its contract, its source.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Unique.
    pub name: String,
    /// What it is promised.
    pub contract: Contract,
    /// The request period T, ns, if given.
    pub period_ns: Option<u64>,
    /// The window-constraint x/y.
    pub window: (u32, u32),
    /// Where its packets come from.
    pub source: Source,
    /// The class it stands in: its index in [`Scenario::classes`]; `None` for the root.
    pub class: Option<usize>,
    /// In a fabric, the share of each end-point's link that connections like its source make up; 0
    /// for a single connection.
    pub load: f64,
}

/// A class of the tree.
#[derive(Clone, Debug)]
pub struct Class {
    /// Unique among classes.
    pub name: String,
    /// The class it stands in: its index in [`Scenario::classes`], less than its own; `None` for
    /// the root.
    pub parent: Option<usize>,
    /// What it is promised in its parent.
    pub contract: Contract,
    /// How it shares what it gets.
    pub sharing: Sharing,
}

/// How the root or a class shares what it gets.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The discipline.
    pub discipline: &'static DisciplineRow,
    /// The structure; "auto" already decided.
    pub structure: StructureName,
    /// The discipline's settings.
    pub options: Options,
}

/// A valid scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Where all randomness comes from.
    pub seed: u64,
    /// When sources stop, ns; `None` if they all end by themselves.
    pub duration_ns: Option<u64>,
    /// The link, or every link of the fabric.
    pub link: Link,
    /// The fabric, if it is more than one link.
    pub fabric: Option<Fabric>,
    /// How the streams are served to players.
    pub media: Media,
    /// Whether the file has a `[media]` section: it is meant for `millstream serve`.
    pub has_media: bool,
    /// How the link is shared: among the streams, or the children of the root.
    pub scheduler: Sharing,
    /// The winner is found by the hardware, structure `rtl`; `scheduler` is its equal in software.
    pub hardware: bool,
    /// The hardware is the end-system card, in a host.
    pub end_system: Option<EndSystem>,
    /// The classes, parents before their children; none if all streams stand in the root.
    pub classes: Vec<Class>,
    /// The streams in file order.
    pub streams: Vec<Stream>,
    /// What the file gives and this discipline does not use.
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
    /// [`ScenarioError`] with every problem found, the unreadable file included.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let (name, text) = load_text(path)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Self::parse(&name, &text, &folder)
    }

    /// Validates the text of a scenario file called `name` whose inputs are relative to `folder`.
    ///
    /// # Errors
    /// [`ScenarioError`] with every problem found.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        validate(name, text, folder).map_err(|problems| ScenarioError::new(name, text, problems))
    }

    /// The structure's name in the file, "auto" already decided.
    #[must_use]
    pub fn structure_name(&self) -> &'static str {
        if self.hardware { "rtl" } else { self.scheduler.structure.name() }
    }

    /// The scheduler of this scenario, in software, its streams added.
    #[must_use]
    pub fn scheduler(&self) -> Box<dyn DynScheduler + Send> {
        let valid = "validation found every attribute that the discipline needs";
        let root = &self.scheduler;
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
            let Sharing { discipline, structure, options } = &class.sharing;
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

/// The name and text of the file at `path`.
pub(crate) fn load_text(path: &Path) -> Result<(String, String), ScenarioError> {
    let name = path.display().to_string();
    let unreadable =
        |message: String| ScenarioError::new(&name, "", vec![Problem::whole_file(message)]);
    let bytes = read_limited(path).map_err(|error| unreadable(format!("{name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        unreadable(format!("{name} is not UTF-8 text: byte {valid} begins no character"))
    })?;
    Ok((name, text))
}

fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = largest_file_bytes();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("larger than {limit} bytes")));
    }
    Ok(bytes)
}
