//! The catalogue: every discipline and structure by name, and the one dynamic border.
//!
//! Names, summaries and constructors are declared here once; the scenario file, the command-line
//! help, the documentation and the differential tests derive from these rows. Inside a
//! [`Scheduler`] everything is statically dispatched; [`DisciplineRow::build`] returns it behind
//! [`DynScheduler`], one virtual call an operation.

use alloc::boxed::Box;

use crate::contract::{Contract, ContractError};
use crate::discipline::{
    Discipline, Dwcs, DwcsOptions, Edf, EdfFirst, Fifo, LossFirst, StaticPriority,
};
use crate::packet::{Departure, Packet, StreamId};
use crate::scheduler::Scheduler;
use crate::selector::Observer;
use crate::structure::{DualHeap, Heap, Scan, Structure};

/// The settings of a scheduler that are neither its discipline's nor its structure's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Rules and zero-window order of DWCS.
    pub dwcs: DwcsOptions,
    /// The precedence of DWCS.
    pub order: DwcsOrder,
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
    build: fn(&Options, StructureName) -> Box<dyn DynScheduler + Send>,
}

/// Every discipline.
pub const DISCIPLINES: &[DisciplineRow] = &[
    DisciplineRow {
        name: "fifo",
        summary: "first in, first out over all streams",
        needs: &[],
        uses: &[],
        build: |_, structure| structure.join(Fifo),
    },
    DisciplineRow {
        name: "static-priority",
        summary: "lowest priority number first",
        needs: &[],
        uses: &["priority"],
        build: |_, structure| structure.join(StaticPriority),
    },
    DisciplineRow {
        name: "edf",
        summary: "earliest deadline first",
        needs: &["period"],
        uses: &["first-deadline", "late"],
        build: |_, structure| structure.join(Edf),
    },
    DisciplineRow {
        name: "dwcs",
        summary: "dynamic window-constrained scheduling: deadlines and x-of-y loss windows",
        needs: &["period"],
        uses: &["window", "first-deadline", "late"],
        build: |options, structure| match options.order {
            DwcsOrder::EdfFirst => structure.join(Dwcs::<EdfFirst>::new(options.dwcs)),
            DwcsOrder::LossFirst => structure.join(Dwcs::<LossFirst>::new(options.dwcs)),
        },
    },
];

macro_rules! structures {
    ($($variant:ident $type:ident $name:literal $summary:literal;)*) => {
        /// A structure by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StructureName {
            $(#[doc = $summary] $variant,)*
        }

        impl StructureName {
            /// Every structure.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in the scenario file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it is, in one line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }

            fn join<D>(self, discipline: D) -> Box<dyn DynScheduler + Send>
            where
                D: Discipline + Send + 'static,
                D::State: Send,
                D::Rank: Send,
            {
                match self {
                    $(Self::$variant => Box::new(Scheduler::new(discipline, $type::default())),)*
                }
            }
        }
    };
}

structures! {
    Scan Scan "scan" "linear scan: the executable definition";
    Heap Heap "heap" "indexed 4-ary heap";
    DualHeap DualHeap "dual-heap" "deadline heap and loss-tolerance heap (Co-processor paper)";
}

impl StructureName {
    /// The structure called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|structure| structure.name() == name)
    }

    /// What `structure = "auto"` means for so many streams: the fastest measured
    /// (`docs/performance.md`).
    #[must_use]
    pub fn auto(streams: usize) -> Self {
        if streams <= 16 { Self::Scan } else { Self::Heap }
    }
}

impl DisciplineRow {
    /// The row called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<&'static Self> {
        DISCIPLINES.iter().find(|row| row.name == name)
    }

    /// A scheduler of this discipline on `structure`.
    #[must_use]
    pub fn build(
        &self,
        options: &Options,
        structure: StructureName,
    ) -> Box<dyn DynScheduler + Send> {
        (self.build)(options, structure)
    }
}

/// A [`Scheduler`] whose discipline and structure were chosen at run time.
///
/// The methods are those of [`Scheduler`], where they are described.
pub trait DynScheduler {
    /// See [`Scheduler::add_stream`].
    ///
    /// # Errors
    /// As there.
    fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError>;

    /// See [`Scheduler::enqueue`].
    ///
    /// # Errors
    /// As there.
    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure>;

    /// See [`Scheduler::decide`].
    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure>;

    /// See [`Scheduler::set_eligible`].
    fn set_eligible(&mut self, stream: StreamId, eligible: bool);

    /// See [`Scheduler::waiting`].
    fn waiting(&self, stream: StreamId) -> u32;

    /// See [`Scheduler::total_waiting`].
    fn total_waiting(&self) -> u64;
}

impl<D: Discipline, S: Structure<D::Rank>> DynScheduler for Scheduler<D, S> {
    fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        Scheduler::add_stream(self, contract)
    }

    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure> {
        Scheduler::enqueue(self, now_ns, stream, packet)
    }

    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure> {
        Scheduler::decide(self, now_ns, observer)
    }

    fn set_eligible(&mut self, stream: StreamId, eligible: bool) {
        Scheduler::set_eligible(self, stream, eligible);
    }

    fn waiting(&self, stream: StreamId) -> u32 {
        Scheduler::waiting(self, stream)
    }

    fn total_waiting(&self) -> u64 {
        Scheduler::total_waiting(self)
    }
}
