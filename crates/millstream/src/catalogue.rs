//! The catalogue: every discipline and structure by name, and the one dynamic border.
//!
//! Names, summaries and constructors are declared here once; the scenario file, the command-line
//! help, the documentation and the differential tests derive from these rows. Inside a
//! [`Scheduler`] everything is statically dispatched; [`DisciplineRow::build`] returns it behind
//! [`DynScheduler`], one virtual call an operation.

mod dynamic;

pub use dynamic::DynScheduler;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::discipline::{
    Discipline, Dwcs, DwcsOptions, Edf, EdfFirst, Fifo, Interleaved, LossFirst, Measure, Pd2,
    RoundRobin, Scfq, Sfq, StaticPriority, Table, Vds, VirtualClock, Wf2q, Wf2qPlus, Wfq,
};
use crate::hilq::{Hilq, Sizes};
use crate::link::Link;
use crate::packet::StreamId;
use crate::scheduler::Scheduler;
use crate::selector::{HilqExact, ManagedFirst, Select, Selector};
use crate::structure::{DualHeap, Heap, Ring, Scan};
use crate::tree::Node;

/// The settings of a scheduler that are neither its discipline's nor its structure's name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Rules and zero-window order of DWCS.
    pub dwcs: DwcsOptions,
    /// The precedence of DWCS.
    pub order: DwcsOrder,
    /// The link that is scheduled.
    pub link: Link,
    /// The entries of the table scheduler.
    pub table: Vec<StreamId>,
    /// By which discipline MinBW shares what the management channel leaves.
    pub algorithm: MinBwAlgorithm,
    /// Where virtual time starts. It makes no difference; tests start just before the wrap.
    pub virtual_origin: u128,
}

/// The precedences of DWCS by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DwcsOrder {
    /// [`EdfFirst`].
    #[default]
    EdfFirst,
    /// [`LossFirst`].
    LossFirst,
}

/// The implementations of MinBW that its paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MinBwAlgorithm {
    /// WFQ-CA: the best delays, and the dearest.
    Wfq,
    /// SCFQ-CA: near to it, and simple.
    #[default]
    Scfq,
    /// DRR-CA: the simplest.
    Drr,
}

impl MinBwAlgorithm {
    /// Its name in the scenario file, which is its discipline's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wfq => "wfq",
            Self::Scfq => "scfq",
            Self::Drr => "drr",
        }
    }
}

/// One discipline of the catalogue.
#[derive(Debug)]
pub struct DisciplineRow {
    /// Its name in the scenario file.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The stream attributes that it needs, by their names in the scenario file.
    pub needs: &'static [&'static str],
    /// Those that it uses if given.
    pub uses: &'static [&'static str],
    /// The structures that can hold it, whatever the options, all with the same schedule.
    structures: &'static [StructureName],
    /// Whether deadlines lead its order, so that a calendar can hold it.
    deadlines_lead: fn(&Options) -> bool,
    build: fn(&Options, StructureName, Form) -> Built,
    /// The discipline by which all but the management channel share; it has the structures.
    below: Option<fn(&Options) -> &'static str>,
}

/// What a discipline is built into.
#[derive(Clone, Copy, Debug)]
struct Form {
    part: Part,
    /// Management channels go first.
    managed: bool,
}

/// A whole scheduler, or a class of a tree.
#[derive(Clone, Copy, Debug)]
enum Part {
    Scheduler,
    Node,
}

impl Form {
    fn of(part: Part) -> Self {
        Self { part, managed: false }
    }

    fn below_management(self) -> Self {
        Self { managed: true, ..self }
    }
}

/// The same, built.
enum Built {
    Scheduler(Box<dyn DynScheduler + Send>),
    Node(Box<dyn Node>),
}

/// Structures for any order.
const ORDERED: &[StructureName] =
    &[StructureName::Scan, StructureName::Heap, StructureName::DualHeap];

/// Structures for orders in which a stream is only ever placed last.
const TURNS: &[StructureName] =
    &[StructureName::Ring, StructureName::Scan, StructureName::Heap, StructureName::DualHeap];

/// Every discipline.
pub static DISCIPLINES: &[DisciplineRow] = &[
    DisciplineRow {
        below: None,
        name: "fifo",
        summary: "first in, first out over all streams",
        needs: &[],
        uses: &[],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| structure.join(form, options, Fifo),
    },
    DisciplineRow {
        below: None,
        name: "static-priority",
        summary: "lowest priority number first",
        needs: &[],
        uses: &["priority"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| structure.join(form, options, StaticPriority),
    },
    DisciplineRow {
        below: None,
        name: "edf",
        summary: "earliest deadline first",
        needs: &["period"],
        uses: &["first-deadline", "late"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| structure.join(form, options, Edf),
    },
    DisciplineRow {
        below: None,
        name: "dwcs",
        summary: "dynamic window-constrained scheduling: deadlines and x-of-y loss windows",
        needs: &["period"],
        uses: &["window", "first-deadline", "late"],
        structures: ORDERED,
        deadlines_lead: |options| options.order == DwcsOrder::EdfFirst,
        build: |options, structure, form| match options.order {
            DwcsOrder::EdfFirst if structure == StructureName::HilqExact => {
                built(form, options, HilqExact::new(options.dwcs))
            }
            DwcsOrder::EdfFirst if structure == StructureName::Hilq => {
                Built::Scheduler(Box::new(Hilq::new(options.dwcs, Sizes::PAPER)))
            }
            DwcsOrder::EdfFirst => {
                structure.join(form, options, Dwcs::<EdfFirst>::new(options.dwcs))
            }
            DwcsOrder::LossFirst => {
                structure.join(form, options, Dwcs::<LossFirst>::new(options.dwcs))
            }
        },
    },
    DisciplineRow {
        below: None,
        name: "vds",
        summary: "virtual deadline scheduling: x-of-y windows where periods differ",
        needs: &["period"],
        uses: &["window", "late"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| structure.join(form, options, Vds::default()),
    },
    DisciplineRow {
        below: None,
        name: "pd2",
        summary: "PD²: x-of-y windows, all that can be kept where periods are equal",
        needs: &["period"],
        uses: &["window", "late"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| structure.join(form, options, Pd2::default()),
    },
    DisciplineRow {
        below: None,
        name: "wfq",
        summary: "weighted fair queueing: by finish time in the fluid link",
        needs: &[],
        uses: &["weight"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, Wfq::new(options.link, options.virtual_origin))
        },
    },
    DisciplineRow {
        below: None,
        name: "wf2q",
        summary: "worst-case fair WFQ: only what has started in the fluid link",
        needs: &[],
        uses: &["weight"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, Wf2q::new(options.link, options.virtual_origin))
        },
    },
    DisciplineRow {
        below: None,
        name: "wf2q+",
        summary: "worst-case fair queueing with a simple clock",
        needs: &[],
        uses: &["weight"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, Wf2qPlus::new(options.link, options.virtual_origin))
        },
    },
    DisciplineRow {
        below: None,
        name: "scfq",
        summary: "self-clocked fair queueing: by finish tag",
        needs: &[],
        uses: &["weight"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, Scfq::new(options.link, options.virtual_origin))
        },
    },
    DisciplineRow {
        below: None,
        name: "sfq",
        summary: "start-time fair queueing: by start tag",
        needs: &[],
        uses: &["weight"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, Sfq::new(options.link, options.virtual_origin))
        },
    },
    DisciplineRow {
        below: None,
        name: "virtual-clock",
        summary: "virtual clock: by reserved rate in real time",
        needs: &[],
        uses: &["weight"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, VirtualClock::new(options.link, options.virtual_origin))
        },
    },
    DisciplineRow {
        below: None,
        name: "drr",
        summary: "deficit round robin: turns of a quantum of bytes",
        needs: &["quantum"],
        uses: &["weight"],
        structures: TURNS,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, RoundRobin::new(Measure::Bytes(options.link)))
        },
    },
    DisciplineRow {
        below: None,
        name: "wrr",
        summary: "weighted round robin: turns of so many packets",
        needs: &[],
        uses: &["weight"],
        structures: TURNS,
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            structure.join(form, options, RoundRobin::new(Measure::Packets))
        },
    },
    DisciplineRow {
        below: None,
        name: "wirr",
        summary: "weighted interleaved round robin: one packet a turn, turns spread over the round",
        needs: &[],
        uses: &["weight"],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| structure.join(form, options, Interleaved::default()),
    },
    DisciplineRow {
        below: None,
        name: "table",
        summary: "a table of turns, one packet each (Advanced Switching)",
        needs: &["table"],
        uses: &[],
        structures: ORDERED,
        deadlines_lead: |_| false,
        build: |options, structure, form| structure.join(form, options, Table::new(&options.table)),
    },
    DisciplineRow {
        below: Some(|options| options.algorithm.name()),
        name: "minbw",
        summary: "minimum bandwidth: the management channel first, fair shares to all others",
        needs: &[],
        uses: &["weight", "quantum", "fmc"],
        structures: &[],
        deadlines_lead: |_| false,
        build: |options, structure, form| {
            let row = DisciplineRow::parse(options.algorithm.name()).expect("in the catalogue");
            (row.build)(options, structure, form.below_management())
        },
    },
];

macro_rules! structures {
    (
        joined { $($variant:ident $type:ident $name:literal $summary:literal;)* }
        own { $($own:ident $own_name:literal $own_summary:literal;)* }
    ) => {
        /// A structure by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StructureName {
            $(#[doc = $summary] $variant,)*
            $(#[doc = $own_summary] $own,)*
        }

        impl StructureName {
            /// Every structure.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)* $(Self::$own,)*];

            /// Its name in the scenario file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* $(Self::$own => $own_name,)* }
            }

            /// What it is, in one line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* $(Self::$own => $own_summary,)* }
            }

            fn join<D>(self, form: Form, options: &Options, discipline: D) -> Built
            where
                D: Discipline + Send + 'static,
                D::State: Send,
                D::Rank: Send,
                D::Stamp: Send,
            {
                match self {
                    $(Self::$variant => {
                        built(form, options, Selector::new(discipline, $type::default()))
                    })*
                    $(Self::$own => unreachable!("joined with its own discipline"),)*
                }
            }
        }
    };
}

fn built<S>(form: Form, options: &Options, selector: S) -> Built
where
    S: Select + Send + 'static,
    S::Stamp: Send,
{
    if form.managed {
        whole(form.part, options, ManagedFirst::new(selector, options.link))
    } else {
        whole(form.part, options, selector)
    }
}

fn whole<S>(part: Part, options: &Options, selector: S) -> Built
where
    S: Select + Send + 'static,
    S::Stamp: Send,
{
    match part {
        Part::Scheduler => {
            Built::Scheduler(Box::new(Scheduler::over(selector).on_link(options.link)))
        }
        Part::Node => Built::Node(Box::new(selector)),
    }
}

structures! {
    joined {
        Scan Scan "scan" "linear scan: the executable definition";
        Heap Heap "heap" "indexed 4-ary heap";
        Ring Ring "ring" "ring of turns, for disciplines that take turns";
        DualHeap DualHeap "dual-heap" "deadline heap and loss-tolerance heap (Co-processor paper)";
    }
    own {
        HilqExact "hilq-exact" "calendar of deadlines with bitmaps: the fastest; for dwcs, edf-first";
        Hilq "hilq" "hierarchically indexed linear queue (HILQ paper), approximate; for dwcs, edf-first";
    }
}

impl StructureName {
    /// The structure called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|structure| structure.name() == name)
    }
}

impl DisciplineRow {
    /// The row called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<&'static Self> {
        DISCIPLINES.iter().find(|row| row.name == name)
    }

    /// The structures that can hold it with these options, all with the same schedule.
    #[must_use]
    pub fn structures(&self, options: &Options) -> Vec<StructureName> {
        if let Some(below) = self.below(options) {
            return below.structures(options);
        }
        let calendar = (self.deadlines_lead)(options).then_some(StructureName::HilqExact);
        self.structures.iter().copied().chain(calendar).collect()
    }

    /// Schedulers of their own whose order is nearly that of this discipline.
    #[must_use]
    pub fn approximations(&self) -> &'static [StructureName] {
        if self.name == "dwcs" { &[StructureName::Hilq] } else { &[] }
    }

    /// What `structure = "auto"` means for so many streams: the fastest measured
    /// (`docs/performance.md`).
    #[must_use]
    pub fn auto_structure(&self, options: &Options, streams: usize) -> StructureName {
        if let Some(below) = self.below(options) {
            below.auto_structure(options, streams)
        } else if self.structures.contains(&StructureName::Ring) {
            StructureName::Ring
        } else if (self.deadlines_lead)(options) {
            StructureName::HilqExact
        } else if streams <= 16 {
            StructureName::Scan
        } else {
            StructureName::Heap
        }
    }

    /// A scheduler of this discipline on `structure`.
    ///
    /// # Panics
    /// If `structure` is not one of [`structures`](Self::structures) with these options or
    /// [`approximations`](Self::approximations), or an approximation of another order.
    #[must_use]
    pub fn build(
        &self,
        options: &Options,
        structure: StructureName,
    ) -> Box<dyn DynScheduler + Send> {
        self.scheduler(options, structure, Form::of(Part::Scheduler))
    }

    /// The same, in which streams whose contract is [`fmc`](crate::Contract::fmc) go before all others:
    /// they are management channels and do not count among the discipline's streams.
    ///
    /// # Panics
    /// As [`build`](Self::build), and if `structure` is an approximation.
    #[must_use]
    pub fn build_below_management(
        &self,
        options: &Options,
        structure: StructureName,
    ) -> Box<dyn DynScheduler + Send> {
        assert!(!self.approximations().contains(&structure), "a scheduler of its own");
        self.scheduler(options, structure, Form::of(Part::Scheduler).below_management())
    }

    fn scheduler(
        &self,
        options: &Options,
        structure: StructureName,
        form: Form,
    ) -> Box<dyn DynScheduler + Send> {
        match self.built(options, structure, form) {
            Built::Scheduler(scheduler) => scheduler,
            Built::Node(_) => unreachable!("a scheduler was asked for"),
        }
    }

    /// The discipline by which all but the management channel share.
    fn below(&self, options: &Options) -> Option<&'static Self> {
        self.below.and_then(|below| Self::parse(below(options)))
    }

    /// A class of this discipline on `structure`.
    pub(crate) fn node(&self, options: &Options, structure: StructureName) -> Box<dyn Node> {
        match self.built(options, structure, Form::of(Part::Node)) {
            Built::Node(node) => node,
            Built::Scheduler(_) => unreachable!("a class was asked for"),
        }
    }

    fn built(&self, options: &Options, structure: StructureName, form: Form) -> Built {
        let (name, on) = (self.name, structure.name());
        let held = self.structures(options).contains(&structure)
            || self.approximations().contains(&structure);
        assert!(held, "{name} cannot be held by {on}");
        (self.build)(options, structure, form)
    }
}
