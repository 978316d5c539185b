//! Parameters of a fabric's links, switches and egress schedulers.

use std::iter;

use millstream::catalogue::{DisciplineRow, DynScheduler, MinBwAlgorithm, Options, StructureName};
use millstream::{ClassId, Contract, ContractError, Link, StreamId, Tree};

/// The maximum number of ports of a switch: an arbiter keeps them in one 64-bit word.
pub const MAX_PORTS: u16 = 64;

/// Parameters of every link of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkParameters {
    /// Data rate, after line coding, and what a packet occupies in addition to its length.
    pub wire: Link,
    /// Propagation delay of a bit and of a returning credit, ns.
    pub delay_ns: u64,
}

/// The time from which a switch may forward a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// As soon as its head has arrived (virtual cut-through): the buffer ahead has room for the
    /// whole packet.
    CutThrough,
    /// When the whole packet has arrived.
    StoreAndForward,
}

/// The location of a switch's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffering {
    /// At outputs only, unbounded, behind an ideal crossbar; links have no credits.
    Output,
    /// At inputs and outputs, with a crossbar between them and credits on every link.
    Combined(Crossbar),
}

/// A crossbar between input and output buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossbar {
    /// Rate of each port, bits/s; 1.5 times the link's rate in the MinBW paper.
    pub rate_bps: u64,
    /// Input buffer of each virtual channel, credits of 64 bytes.
    pub input_credits: u32,
    /// Output buffer of each virtual channel, credits of 64 bytes.
    pub output_credits: u32,
    /// Queue layout of an input.
    pub queueing: Queueing,
    /// Arbitration of the crossbar.
    pub arbiter: Arbiter,
}

/// The queue layout of an input, in each virtual channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// A queue per output (virtual output queues); all queues share the channel's credits.
    VirtualOutput,
    /// One queue, whose head blocks the packets behind it.
    Fifo,
}

/// The algorithm that matches inputs with outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbiter {
    /// Free outputs grant in turn and free inputs accept in turn, until no packet fits.
    RoundRobin,
    /// Like round robin, but a turn advances only on a grant accepted in the first round (iSLIP,
    /// McKeown 1999).
    Islip,
}

/// Parameters of every switch of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchParameters {
    /// Time from a bit's arrival at an input to its earliest departure from an output, ns.
    pub latency_ns: u64,
    /// When the switch may forward a packet.
    pub forwarding: Forwarding,
    /// Where the switch buffers packets.
    pub buffering: Buffering,
}

/// Configuration of the scheduler of every link.
#[derive(Clone, Debug)]
pub struct Egress {
    /// The scheduling discipline.
    pub discipline: &'static DisciplineRow,
    /// The discipline's settings. A table's turns are class numbers; the fabric sets the link.
    pub options: Options,
    /// The queue structure; `None` selects the fastest known one.
    pub structure: Option<StructureName>,
    /// The contract of each service class. Each class has its own virtual channel, one for each
    /// layer of the routes.
    ///
    /// The fabric sets the credits. A management channel has priority over all other classes under
    /// any discipline.
    pub classes: Vec<Contract>,
}

impl Egress {
    /// Returns whether packets leave in order of arrival.
    pub(crate) fn is_first_come(&self) -> bool {
        let plain = |class: &Contract| !class.is_limited() && !class.is_fmc();
        self.discipline.name == "fifo" && self.classes.iter().all(plain)
    }

    /// Creates the scheduler of one link: a stream for each class and layer, class by class.
    ///
    /// Each stream has `credits` credits, or no flow control if `None`.
    ///
    /// # Errors
    /// Fails if the discipline cannot keep a class's contract.
    pub fn scheduler(
        &self,
        link: &LinkParameters,
        layers: u8,
        credits: Option<u32>,
    ) -> Result<Box<dyn DynScheduler + Send>, ContractError> {
        let mut options = self.options.clone();
        options.link = link.wire;
        let streams = self.classes.len() * usize::from(layers);
        let structure =
            self.structure.unwrap_or_else(|| self.discipline.auto_structure(&options, streams));
        let contracts = || {
            let each = |class| iter::repeat_n(class, usize::from(layers));
            self.classes.iter().flat_map(each).map(|class: &Contract| match credits {
                Some(credits) => class.clone().credits(u64::from(credits)),
                None => class.clone(),
            })
        };
        let managed = contracts().any(|class| class.is_fmc());
        options.table = self.turns(layers, managed);
        let mut discipline = self.discipline;
        if managed {
            // MinBW with this algorithm has the tree's schedule, and is faster.
            let algorithms = MinBwAlgorithm::ALL.into_iter();
            for algorithm in algorithms.filter(|of| of.name() == discipline.name) {
                options.algorithm = algorithm;
                discipline = DisciplineRow::parse("minbw").expect("in the catalogue");
            }
            if discipline.below(&options).is_none() {
                return self.below_management(contracts(), structure, &options);
            }
        }
        let mut scheduler = discipline.build(&options, structure);
        for contract in contracts() {
            scheduler.add_stream(contract)?;
        }
        Ok(scheduler)
    }

    /// Creates a tree that serves management channels first, by arrival, and below them the other
    /// streams by the discipline.
    fn below_management(
        &self,
        contracts: impl Iterator<Item = Contract>,
        structure: StructureName,
        options: &Options,
    ) -> Result<Box<dyn DynScheduler + Send>, ContractError> {
        let first = DisciplineRow::parse("static-priority").expect("in the catalogue");
        let mut tree = Tree::new(first, StructureName::Scan, options);
        let lower = Contract::new().priority(1);
        let below = tree.add_class(ClassId::ROOT, lower, self.discipline, structure, options)?;
        for contract in contracts {
            if contract.is_fmc() {
                tree.add_stream(ClassId::ROOT, contract.priority(0))?;
            } else {
                tree.add_stream(below, contract)?;
            }
        }
        Ok(Box::new(tree))
    }

    /// Returns a table's turns by channel: the channels of a class take its turns consecutively.
    ///
    /// A management channel with priority over the table takes no turns.
    fn turns(&self, layers: u8, managed: bool) -> Vec<StreamId> {
        let above = |class: &Contract| managed && class.is_fmc();
        let channels = |class: &StreamId| {
            let before = self.classes[..class.index()].iter().filter(|class| !above(class)).count();
            let first = u32::try_from(before).unwrap_or(u32::MAX) * u32::from(layers);
            let taken = if above(&self.classes[class.index()]) { 0 } else { u32::from(layers) };
            (first..first + taken).map(StreamId)
        };
        self.options.table.iter().flat_map(channels).collect()
    }
}
