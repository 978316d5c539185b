//! What a fabric is made of, apart from its topology and its traffic.

use std::iter;

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{Contract, ContractError, StreamId};

/// The most ports of a switch: an arbiter keeps them in one word.
pub const PORTS_MOST: u16 = 64;

/// Every link of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkParameters {
    /// Data rate, bits/s, after line coding.
    pub rate_bps: u64,
    /// Bytes that a packet takes on a link beyond its length.
    pub overhead_bytes: u32,
    /// How long a bit is on its way, ns; credits take as long to come back.
    pub delay_ns: u64,
}

/// When a switch may send on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// As soon as its head has come through (virtual cut-through): the buffer ahead has room for
    /// all of it.
    CutThrough,
    /// When all of it has come.
    StoreAndForward,
}

/// Where packets wait in a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffering {
    /// At the outputs only, without limit, behind an ideal crossbar; links without credits.
    Output,
    /// At inputs and outputs, with a crossbar in between and credits on every link.
    Combined(Crossbar),
}

/// A crossbar between input and output buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossbar {
    /// Rate of each of its ports, bits/s; 1.5 times the link's in the MinBW paper.
    pub rate_bps: u64,
    /// Buffer of each virtual channel at each input, credits of 64 bytes.
    pub input_credits: u32,
    /// The same at each output.
    pub output_credits: u32,
    /// How packets wait at an input.
    pub queueing: Queueing,
    /// Who may use the crossbar.
    pub arbiter: Arbiter,
}

/// How packets wait at an input, in each virtual channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// In a queue for each output (virtual output queues), all of which share the channel's
    /// credits.
    VirtualOutput,
    /// In one queue, whose head blocks what is behind it.
    Fifo,
}

/// How inputs and outputs are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbiter {
    /// Each free output grants in turn, each free input accepts in turn, until nothing fits.
    RoundRobin,
    /// The same, but a turn passes on only when a grant was accepted in the first round (iSLIP,
    /// McKeown 1999).
    Islip,
}

/// Every switch of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchParameters {
    /// From a bit's arrival at an input until it can leave at an output, ns, if nothing is in its
    /// way.
    pub latency_ns: u64,
    /// When a packet may be sent on.
    pub forwarding: Forwarding,
    /// Where packets wait.
    pub buffering: Buffering,
}

/// The scheduler of every link.
#[derive(Clone, Debug)]
pub struct Egress {
    /// Its discipline.
    pub discipline: &'static DisciplineRow,
    /// The discipline's settings; a table's turns are classes' numbers. The link is set by the
    /// fabric.
    pub options: Options,
    /// Its structure; `None` for the fastest known.
    pub structure: Option<StructureName>,
    /// The contract of each service class, which has a virtual channel of its own (one for each
    /// layer of the routes). Credits are set by the fabric. A management channel goes before all
    /// others under any discipline.
    pub classes: Vec<Contract>,
}

impl Egress {
    /// Whether packets leave in the order in which they come.
    pub(crate) fn is_first_come(&self) -> bool {
        let plain = |class: &Contract| !class.is_limited() && !class.is_fmc();
        self.discipline.name == "fifo" && self.classes.iter().all(plain)
    }

    /// The scheduler of one link: a stream for each class and layer, class by class; each with
    /// `credits`, or without flow control.
    ///
    /// # Errors
    /// If the discipline cannot keep a class's contract.
    pub fn scheduler(
        &self,
        link: &LinkParameters,
        layers: u8,
        credits: Option<u32>,
    ) -> Result<Box<dyn DynScheduler + Send>, ContractError> {
        let mut options = self.options.clone();
        let LinkParameters { rate_bps, overhead_bytes, .. } = *link;
        options.link = millstream::Link { rate_bps, overhead_bytes };
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
        let mut scheduler = if managed {
            self.discipline.build_below_management(&options, structure)
        } else {
            self.discipline.build(&options, structure)
        };
        for contract in contracts() {
            scheduler.add_stream(contract)?;
        }
        Ok(scheduler)
    }

    /// A table's turns by channel: a class's are taken by its channels one after the other. A
    /// management channel that stands above the table needs none.
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
