//! The settings of a scheduler.

use std::ffi::c_char;
use std::ptr;

use millstream::catalogue::{
    DISCIPLINES, DisciplineRow, DwcsOrder, MinBwAlgorithm, Options as EngineOptions, StructureName,
};
use millstream::{ContractError, DwcsOptions, Framing, Link, Rules, StreamId, ZeroWindow};

use crate::contract::size_u32;
use crate::pointer;
use crate::status::{
    MS_ERROR_CONTRACT, MS_ERROR_DISCIPLINE, MS_ERROR_RANGE, MS_ERROR_STRUCTURE, Status,
};

/// DWCS: earliest deadline first, windows among equal deadlines.
pub const MS_DWCS_EDF_FIRST: u32 = 0;
/// DWCS: windows first, deadlines among equal windows.
pub const MS_DWCS_LOSS_FIRST: u32 = 1;

/// DWCS: the rules of `ShareStreams`.
pub const MS_DWCS_STANDARD: u32 = 0;
/// DWCS: the rules of RTAS 1999.
pub const MS_DWCS_RTAS99: u32 = 1;
/// `link_framing`: packets are sent as they are.
pub const MS_FRAMING_NONE: u32 = 0;
/// `link_framing`: ATM cells.
pub const MS_FRAMING_ATM: u32 = 1;
/// `link_framing`: PTM, 64b/65b encoding.
pub const MS_FRAMING_PTM: u32 = 2;

/// DWCS: of windows without losses left, the highest denominator is first.
pub const MS_DWCS_HIGHEST_DENOMINATOR: u32 = 0;
/// DWCS: of windows without losses left, the lowest denominator is first.
pub const MS_DWCS_LOWEST_DENOMINATOR: u32 = 1;

/// The most packets of `packet_limit`.
pub const MS_MOST_PACKETS: u32 = 1 << 24;

/// The highest rate of a link, bits/s: 10 Tbit/s. Fair queueing is exact while packets do not wait
/// so long that the link could send 10^14 bytes.
pub const MS_MOST_RATE_BPS: u64 = 10_000_000_000_000;

/// The most streams of a scheduler.
pub const MS_MOST_STREAMS: u32 = 1 << 20;

/// The length of a message that holds every error of `ms_scheduler_new`, bytes.
pub const MS_MESSAGE_BYTES: u32 = 256;

/// The settings of a scheduler. Set the defaults by `ms_options_init`; then set `discipline`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// sizeof(ms_options); `ms_options_init` sets it.
    pub size: u32,
    /// The most packets that wait in all streams without flows, and heads of streams with flows: 1
    /// to `MS_MOST_PACKETS`. Memory for them is allocated. Default 4096.
    pub packet_limit: u32,
    /// The name of the discipline, for example "wf2q+", "dwcs", "edf", "static-priority" or "drr".
    pub discipline: *const c_char,
    /// The name of the structure that finds the next stream, for example "heap". It changes the
    /// speed, never the result. Default null: the fastest.
    pub structure: *const c_char,
    /// The rate of the link, bits/s: 1 to `MS_MOST_RATE_BPS`. Default 1 Gbit/s.
    pub link_rate_bps: u64,
    /// Bytes that a packet takes on the link beyond its length, before framing; 24 on Ethernet. May
    /// be negative. Default 0.
    pub link_overhead_bytes: i32,
    /// The framing of the link: `MS_FRAMING_NONE`, the default, `MS_FRAMING_ATM` (cells of 53 bytes
    /// for every 48) or `MS_FRAMING_PTM` (65 bytes for every 64).
    pub link_framing: u32,
    /// DWCS: `MS_DWCS_EDF_FIRST`, the default, or `MS_DWCS_LOSS_FIRST`.
    pub dwcs_order: u32,
    /// DWCS: `MS_DWCS_STANDARD`, the default, or `MS_DWCS_RTAS99`.
    pub dwcs_rules: u32,
    /// DWCS: `MS_DWCS_HIGHEST_DENOMINATOR`, the default, or `MS_DWCS_LOWEST_DENOMINATOR`.
    pub dwcs_zero_window: u32,
    /// minbw: the discipline below the management channel, "wfq", "scfq" or "drr". Default null:
    /// "scfq".
    pub algorithm: *const c_char,
    /// table: the stream of each entry.
    pub table: *const u32,
    /// table: the number of entries.
    pub table_entries: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: size_u32::<Self>(),
            packet_limit: 4096,
            discipline: ptr::null(),
            structure: ptr::null(),
            link_rate_bps: 1_000_000_000,
            link_overhead_bytes: 0,
            link_framing: MS_FRAMING_NONE,
            dwcs_order: MS_DWCS_EDF_FIRST,
            dwcs_rules: MS_DWCS_STANDARD,
            dwcs_zero_window: MS_DWCS_HIGHEST_DENOMINATOR,
            algorithm: ptr::null(),
            table: ptr::null(),
            table_entries: 0,
        }
    }
}

/// The options with their pointers read.
pub(crate) struct Names<'a> {
    pub(crate) discipline: &'a str,
    pub(crate) structure: Option<&'a str>,
    pub(crate) algorithm: Option<&'a str>,
    pub(crate) table: &'a [u32],
}

/// The reason why no scheduler was made.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn range(field: &str, value: impl std::fmt::Display, allowed: &str) -> Self {
        Self { status: MS_ERROR_RANGE, text: format!("{field} is {value}; it must be {allowed}") }
    }

    #[allow(clippy::needless_pass_by_value)]
    pub(crate) fn contract(error: ContractError) -> Self {
        Self { status: MS_ERROR_CONTRACT, text: error.to_string() }
    }

    /// Adds the number of the stream with the wrong contract.
    pub(crate) fn of_stream(self, number: usize) -> Self {
        Self { text: format!("stream {number}: {}", self.text), ..self }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self { status, text: crate::status::text(status).to_string_lossy().into_owned() }
    }
}

/// A discipline on a structure, with its options.
pub(crate) struct Choice {
    pub(crate) row: &'static DisciplineRow,
    pub(crate) structure: StructureName,
    pub(crate) options: EngineOptions,
}

impl Options {
    /// Returns the names behind the pointers.
    ///
    /// # Safety
    /// The pointers are null, or point to texts and to the table, as in [`pointer`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn names(&self) -> Result<Names<'_>, Failure> {
        // SAFETY: by the contract of this function.
        unsafe {
            let discipline = pointer::name(self.discipline)?;
            Ok(Names {
                discipline: discipline.ok_or_else(|| Failure {
                    status: crate::status::MS_ERROR_POINTER,
                    text: "discipline is null; it must be a name, for example \"wf2q+\"".into(),
                })?,
                structure: pointer::name(self.structure)?,
                algorithm: pointer::name(self.algorithm)?,
                table: pointer::array(self.table.cast_mut(), self.table_entries)?,
            })
        }
    }

    /// Returns what to build for `streams` streams.
    pub(crate) fn choose(&self, names: &Names<'_>, streams: usize) -> Result<Choice, Failure> {
        let row = DisciplineRow::parse(names.discipline).ok_or_else(|| {
            let known = DISCIPLINES.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
            let text = format!("no discipline `{}`; there are {known}", names.discipline);
            Failure { status: MS_ERROR_DISCIPLINE, text }
        })?;
        if !(1..=MS_MOST_PACKETS).contains(&self.packet_limit) {
            return Err(Failure::range("packet_limit", self.packet_limit, "1 to 16,777,216"));
        }
        if !(1..=MS_MOST_RATE_BPS).contains(&self.link_rate_bps) {
            return Err(Failure::range("link_rate_bps", self.link_rate_bps, "1 to 10^13"));
        }
        if let Some(wrong) = names.table.iter().find(|stream| **stream as usize >= streams) {
            return Err(Failure::range("an entry of the table", wrong, "the number of a stream"));
        }
        let options = self.engine_options(names)?;
        let structures = row.structures(&options);
        let structure = match names.structure {
            None => row.auto_structure(&options, streams),
            Some(name) => {
                let found = structures.iter().copied().find(|structure| structure.name() == name);
                found.ok_or_else(|| {
                    let known: Vec<_> = structures.iter().map(|of| of.name()).collect();
                    let (row, known) = (row.name, known.join(", "));
                    let text = format!("{row} does not support structure `{name}`, but {known}");
                    Failure { status: MS_ERROR_STRUCTURE, text }
                })?
            }
        };
        Ok(Choice { row, structure, options })
    }

    fn engine_options(&self, names: &Names<'_>) -> Result<EngineOptions, Failure> {
        let rules = match self.dwcs_rules {
            MS_DWCS_STANDARD => Rules::Standard,
            MS_DWCS_RTAS99 => Rules::Rtas99,
            other => return Err(Failure::range("dwcs_rules", other, "0 or 1")),
        };
        let zero_window = match self.dwcs_zero_window {
            MS_DWCS_HIGHEST_DENOMINATOR => ZeroWindow::HighestDenominator,
            MS_DWCS_LOWEST_DENOMINATOR => ZeroWindow::LowestDenominator,
            other => return Err(Failure::range("dwcs_zero_window", other, "0 or 1")),
        };
        let order = match self.dwcs_order {
            MS_DWCS_EDF_FIRST => DwcsOrder::EdfFirst,
            MS_DWCS_LOSS_FIRST => DwcsOrder::LossFirst,
            other => return Err(Failure::range("dwcs_order", other, "0 or 1")),
        };
        let framing = match self.link_framing {
            MS_FRAMING_NONE => Framing::None,
            MS_FRAMING_ATM => Framing::Atm,
            MS_FRAMING_PTM => Framing::Ptm,
            other => return Err(Failure::range("link_framing", other, "0, 1 or 2")),
        };
        let algorithm = match names.algorithm {
            None => MinBwAlgorithm::default(),
            Some("wfq") => MinBwAlgorithm::Wfq,
            Some("scfq") => MinBwAlgorithm::Scfq,
            Some("drr") => MinBwAlgorithm::Drr,
            Some(other) => return Err(Failure::range("algorithm", other, "wfq, scfq or drr")),
        };
        Ok(EngineOptions {
            dwcs: DwcsOptions { rules, zero_window },
            order,
            link: Link::new(self.link_rate_bps, self.link_overhead_bytes).framed(framing),
            table: names.table.iter().copied().map(StreamId).collect(),
            algorithm,
            ..EngineOptions::default()
        })
    }
}
