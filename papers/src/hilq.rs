//! The page of HILQ (DWCS on network processors, MMNS 2002), built from sections.

mod arithmetic;
mod constants;
mod network_processor;
mod rules;
mod text;

use millstream_sim::network_processor::constants::{PieceWork, RECEIVE_PIECE, TRANSMIT_PIECE};
use std::fmt::Write as _;

use crate::claim::{Claim, HEAD, rows};
use crate::experiment::Page;

/// A section of the page: its claims, text and files.
struct Section {
    claims: Vec<Claim>,
    text: String,
    files: Vec<(String, String)>,
}

impl Section {
    /// Adds the figure `name` at the end of the text.
    fn figure(&mut self, name: &str, what: &str, contents: String) {
        let _ = writeln!(self.text, "\n![{name}: {what}]({name}.svg)");
        self.files.push((format!("{name}.svg"), contents));
    }

    /// Starts a table.
    fn table_head(&mut self, first: &str, columns: &[String]) {
        self.table_row(first, columns);
        let _ = writeln!(self.text, "|---|{}", "--:|".repeat(columns.len()));
    }

    fn table_row(&mut self, first: &str, cells: &[String]) {
        let _ = writeln!(self.text, "| {first} | {} |", cells.join(" | "));
    }
}

/// Cycles of computation of a memory access: none, the router paper's, and twice those.
///
/// The router paper moves 64 bytes with 280 cycles of computation and 18 commands, 15.6 a command.
/// It is not fitted to the HILQ paper.
pub(crate) fn computes() -> [u64; 3] {
    let commands = |work: PieceWork| work.sdram + work.sram + work.scratch;
    let commands = commands(RECEIVE_PIECE) + commands(TRANSMIT_PIECE);
    let central = text::rounded(RECEIVE_PIECE.compute + TRANSMIT_PIECE.compute, commands as u64);
    [0, central, 2 * central]
}

/// Runs all experiments and returns the page.
pub(crate) fn page() -> miette::Result<Page> {
    let sections = [rules::section(), network_processor::section()?];
    let (mut claims, mut files, mut texts) = (Vec::new(), Vec::new(), String::new());
    for section in sections {
        claims.extend(section.claims);
        files.extend(section.files);
        texts += &section.text;
    }
    files.push(("README.md".into(), readme(&claims, &texts)));
    Ok(Page { files, claims })
}

fn readme(claims: &[Claim], sections: &str) -> String {
    let mut text = String::from(
        "# HILQ: DWCS on a network processor\n\n\
         *Efficient implementation of a packet scheduling algorithm (DWCS) on high-speed \
         programmable network processors*, MMNS 2002, LNCS 2496. `make figures` writes this page \
         and its figures; `make test` verifies them. \
         [Table 3](table3.md) and [Figure 9](fig9.md) are measured on the schedulers.\n\n",
    );
    text += HEAD;
    text += &rows(claims, "");
    text + sections
}
