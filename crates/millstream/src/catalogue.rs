//! The catalogue: every discipline and structure by name, and the dynamic dispatch boundary.
//!
//! A discipline's row is a constant in the discipline's own file, and
//! [`discipline`](crate::discipline) lists the rows. The scenario file, the command-line help,
//! `explain`, the documentation and the differential tests derive from them. A [`Scheduler`] is
//! statically dispatched inside; [`DisciplineRow::build`] returns it behind [`DynScheduler`], with
//! one virtual call per operation.

mod dynamic;

pub use crate::discipline::DISCIPLINES;
pub use crate::selector::MinBwAlgorithm;
pub use dynamic::DynScheduler;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::bounds::{Fairness, Guarantee, Share};
use crate::discipline::self_clocked::NearRank;
use crate::discipline::{Discipline, DwcsOptions, Expiry, Rank};
use crate::link::Link;
use crate::packet::StreamId;
use crate::scheduler::Scheduler;
use crate::selector::{Select, Selector};
use crate::structure::{Calendar, DualHeap, Heap, Ring, Scan, WinnerTree};
use crate::tree::Node;

/// The settings of a scheduler other than the names of its discipline and structure.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Rules and zero-window order of DWCS.
    pub dwcs: DwcsOptions,
    /// The precedence of DWCS.
    pub order: DwcsOrder,
    /// The scheduled link.
    pub link: Link,
    /// The entries of the table scheduler.
    pub table: Vec<StreamId>,
    /// The discipline of MinBW's streams below the management channel.
    pub algorithm: MinBwAlgorithm,
    /// The initial virtual time. It does not affect the schedule; tests start just before the wrap.
    pub virtual_origin: u128,
}

/// The precedences of DWCS by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DwcsOrder {
    /// [`EdfFirst`](crate::EdfFirst).
    #[default]
    EdfFirst,
    /// [`LossFirst`](crate::LossFirst).
    LossFirst,
}

/// One discipline of the catalogue.
#[derive(Debug)]
pub struct DisciplineRow {
    /// The discipline's name in the scenario file.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    /// The stream attributes that it requires, by their names in the scenario file.
    pub needs: &'static [&'static str],
    /// The attributes that it uses if given.
    pub uses: &'static [&'static str],
    /// How its streams share the link.
    pub share: Share,
    /// The theoretical guarantee to its streams.
    pub guarantee: Guarantee,
    /// How much the service of two backlogged streams can differ; `None` if it has no shares.
    pub fairness: Option<Fairness>,
    /// The structures that support it with any options, all with the same schedule.
    pub(crate) structures: &'static [StructureName],
    /// Separate schedulers whose order approximates it.
    pub(crate) approximations: &'static [StructureName],
    /// Returns whether it orders by deadline first, so that a calendar supports it.
    pub(crate) deadlines_lead: fn(&Options) -> bool,
    /// Builds the discipline on a structure as a scheduler or a class of a tree.
    pub(crate) build: fn(&Options, StructureName, Form) -> Built,
    /// The discipline of all streams except management channels, which determines the structures.
    pub(crate) below: Option<fn(&Options) -> &'static str>,
}

/// What a build makes of a selector.
pub(crate) trait Target: Copy {
    fn build<S>(self, options: &Options, selector: S) -> Built
    where
        S: Select + Send + 'static,
        S::Stamp: Send;
}

/// A complete scheduler, or a class of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Scheduler,
    Node,
}

impl Target for Form {
    fn build<S>(self, options: &Options, selector: S) -> Built
    where
        S: Select + Send + 'static,
        S::Stamp: Send,
    {
        match self {
            Self::Scheduler => {
                Built::Scheduler(Box::new(Scheduler::over(selector).on_link(options.link)))
            }
            Self::Node => Built::Node(Box::new(selector)),
        }
    }
}

/// The result of a build.
pub(crate) enum Built {
    Scheduler(Box<dyn DynScheduler + Send>),
    Node(Box<dyn Node>),
}

/// Structures that support any order.
pub(crate) const ORDERED: &[StructureName] =
    &[StructureName::Scan, StructureName::Heap, StructureName::DualHeap];

/// Structures for orders by near tags.
pub(crate) const NEAR: &[StructureName] = &[
    StructureName::Scan,
    StructureName::Heap,
    StructureName::DualHeap,
    StructureName::WinnerTree,
    StructureName::Calendar,
];

/// Structures for orders in which every insertion is at the end.
pub(crate) const TURNS: &[StructureName] =
    &[StructureName::Ring, StructureName::Scan, StructureName::Heap, StructureName::DualHeap];

macro_rules! structures {
    ($($variant:ident $name:literal $summary:literal;)*) => {
        /// The name of a structure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StructureName {
            $(#[doc = $summary] $variant,)*
        }

        impl StructureName {
            /// Every structure.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns its name in the scenario file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns a description in one line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }
        }
    };
}

structures! {
    Scan "scan" "linear scan: the reference implementation";
    Heap "heap" "indexed 4-ary heap";
    Ring "ring" "round-robin ring, for disciplines that take turns";
    DualHeap "dual-heap" "deadline heap and loss-tolerance heap (Co-processor paper)";
    WinnerTree "winner-tree" "winner tree with four children per node; for wf2q+, scfq and sfq";
    Calendar "calendar" "calendar of tags with bitmaps; for wf2q+, scfq and sfq";
    HilqExact "hilq-exact"
        "calendar of deadlines with bitmaps: the fastest; for dwcs, edf-first";
    Hilq "hilq"
        "hierarchically indexed linear queue (HILQ paper), approximate; for dwcs, edf-first";
}

// Each of these compiles a scheduler for every pair of discipline, structure and target, so each
// has the structures of some disciplines only.
impl StructureName {
    /// Builds a discipline without deadlines on this structure.
    pub(crate) fn join<D>(self, target: impl Target, options: &Options, discipline: D) -> Built
    where
        D: Discipline<State: Send, Rank: Send, Stamp: Send> + Send + 'static,
    {
        const { assert!(matches!(D::Rank::EXPIRY, Expiry::Never)) };
        match self {
            Self::Scan => target.build(options, Selector::new(discipline, Scan::default())),
            // Without deadlines, the second heap of a dual heap is empty.
            Self::Heap | Self::DualHeap => {
                target.build(options, Selector::new(discipline, Heap::default()))
            }
            _ => unreachable!("the structure does not support the order"),
        }
    }

    /// Builds a discipline with deadlines on this structure.
    pub(crate) fn join_expiring<D>(self, form: Form, options: &Options, discipline: D) -> Built
    where
        D: Discipline<State: Send, Rank: Send, Stamp: Send> + Send + 'static,
    {
        match self {
            Self::Scan => form.build(options, Selector::new(discipline, Scan::default())),
            Self::Heap => form.build(options, Selector::new(discipline, Heap::default())),
            Self::DualHeap => form.build(options, Selector::new(discipline, DualHeap::default())),
            _ => unreachable!("the structure does not support the order"),
        }
    }

    /// Builds a discipline that takes turns on this structure.
    pub(crate) fn join_turns<D>(
        self,
        target: impl Target,
        options: &Options,
        discipline: D,
    ) -> Built
    where
        D: Discipline<State: Send, Rank: Send, Stamp: Send> + Send + 'static,
    {
        match self {
            Self::Ring => target.build(options, Selector::new(discipline, Ring::default())),
            _ => self.join(target, options, discipline),
        }
    }

    /// Builds a discipline that orders by near tags on this structure.
    pub(crate) fn join_near<D>(self, target: impl Target, options: &Options, discipline: D) -> Built
    where
        D: Discipline<State: Send, Rank = NearRank, Stamp: Send> + Send + 'static,
    {
        match self {
            Self::WinnerTree => {
                target.build(options, Selector::new(discipline, WinnerTree::default()))
            }
            Self::Calendar => target.build(options, Selector::new(discipline, Calendar::default())),
            _ => self.join(target, options, discipline),
        }
    }

    /// Returns the structure called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|structure| structure.name() == name)
    }
}

impl DisciplineRow {
    /// The default values of a row's fields.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        summary: "",
        needs: &[],
        uses: &[],
        share: Share::None,
        guarantee: Guarantee::None,
        fairness: None,
        structures: ORDERED,
        approximations: &[],
        deadlines_lead: |_| false,
        build: |_, _, _| unreachable!("every row builds its discipline"),
        below: None,
    };

    /// Returns the row called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<&'static Self> {
        DISCIPLINES.iter().find(|row| row.name == name)
    }

    /// Returns the structures that support it with these options, all with the same schedule.
    #[must_use]
    pub fn structures(&self, options: &Options) -> Vec<StructureName> {
        if let Some(below) = self.below(options) {
            return below.structures(options);
        }
        let calendar = (self.deadlines_lead)(options).then_some(StructureName::HilqExact);
        self.structures.iter().copied().chain(calendar).collect()
    }

    /// Returns the separate schedulers whose order approximates that of this discipline.
    #[must_use]
    pub fn approximations(&self) -> &'static [StructureName] {
        self.approximations
    }

    /// Returns the structure that `structure = "auto"` selects for `streams` streams: the fastest
    /// measured (`docs/src/performance.md`).
    #[must_use]
    pub fn auto_structure(&self, options: &Options, streams: usize) -> StructureName {
        if let Some(below) = self.below(options) {
            below.auto_structure(options, streams)
        } else if self.structures.contains(&StructureName::Ring) {
            StructureName::Ring
        } else if (self.deadlines_lead)(options) {
            StructureName::HilqExact
        } else if self.structures.contains(&StructureName::WinnerTree) {
            if streams <= 128 { StructureName::WinnerTree } else { StructureName::Calendar }
        } else if streams <= 16 {
            StructureName::Scan
        } else {
            StructureName::Heap
        }
    }

    /// Builds a scheduler of this discipline on `structure`.
    ///
    /// # Panics
    /// Panics if `structure` is not one of [`structures`](Self::structures) with these options or
    /// [`approximations`](Self::approximations), or an approximation of another order.
    #[must_use]
    pub fn build(
        &self,
        options: &Options,
        structure: StructureName,
    ) -> Box<dyn DynScheduler + Send> {
        match self.built(options, structure, Form::Scheduler) {
            Built::Scheduler(scheduler) => scheduler,
            Built::Node(_) => unreachable!("the form is a scheduler"),
        }
    }

    /// Returns the discipline of the streams below the management channels; `None` if the
    /// discipline has no management channels.
    #[must_use]
    pub fn below(&self, options: &Options) -> Option<&'static Self> {
        self.below.and_then(|below| Self::parse(below(options)))
    }

    /// Returns whether the discipline guarantees each stream a share of the link while it has
    /// packets. A table does not: it may omit streams.
    #[must_use]
    pub fn guarantees_shares(&self) -> bool {
        self.guarantee.rate().is_some() && self.share != Share::Entries
    }

    /// Returns whether it can schedule a router's port: it needs no table and has no management
    /// channels.
    #[must_use]
    pub fn fits_port(&self) -> bool {
        self.share != Share::Entries && self.below.is_none()
    }

    /// Builds a class of this discipline on `structure`.
    pub(crate) fn node(&self, options: &Options, structure: StructureName) -> Box<dyn Node> {
        match self.built(options, structure, Form::Node) {
            Built::Node(node) => node,
            Built::Scheduler(_) => unreachable!("the form is a class"),
        }
    }

    fn built(&self, options: &Options, structure: StructureName, form: Form) -> Built {
        let (name, on) = (self.name, structure.name());
        let supported = self.structures(options).contains(&structure)
            || self.approximations().contains(&structure);
        assert!(supported, "{name} does not support structure {on}");
        (self.build)(options, structure, form)
    }
}
