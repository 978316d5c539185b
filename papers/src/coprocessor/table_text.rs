//! Tables 1 to 5 with today's values, and the paper's statements about them.
//!
//! Absolute times of a 66 MHz processor and of today's do not compare, so ratios are judged. The
//! paper gives its differences with "≈", for which a criterion allows 10 %; numbers with few digits
//! are allowed half a unit of the last.

use std::fmt::Write as _;
use std::path::Path;

use super::judge::{deviation, interval, median};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Test};
use crate::experiment::measured;

/// Columns of `scheduler.csv` after the names.
const ROUND: usize = 0;
const DECISION: usize = 3;

/// Columns of `paths.csv` after the name.
const MEDIAN: usize = 0;
const P99: usize = 1;
const LOW: usize = 2;
const HIGH: usize = 3;

type Rows = Vec<(String, Vec<f64>)>;

/// The measured tables.
pub(super) struct Tables {
    scheduler: Rows,
    paths: Rows,
    server_paths: Rows,
}

impl Tables {
    pub(super) fn read(folder: &Path) -> miette::Result<Self> {
        Ok(Self {
            scheduler: measured(folder, "scheduler.csv", 3)?,
            paths: measured(folder, "paths.csv", 1)?,
            server_paths: measured(folder, "frame-paths.csv", 1)?,
        })
    }

    /// Returns a column of the scheduler's rounds, ns a frame.
    fn rounds(&self, name: &str, column: usize) -> miette::Result<Vec<f64>> {
        let of = self.scheduler.iter().filter(|(row, _)| row == name);
        let mut rows: Vec<&Vec<f64>> = of.map(|(_, cells)| cells).collect();
        rows.sort_by(|a, b| a[ROUND].total_cmp(&b[ROUND]));
        if rows.is_empty() {
            return Err(miette::miette!("no row {name}"));
        }
        Ok(rows.into_iter().map(|row| row[column]).collect())
    }

    /// Returns the median of the ratios of two rows' decisions in the same rounds.
    fn decisions(&self, first: &str, second: &str) -> miette::Result<Estimate> {
        self.round_ratio((first, DECISION), (second, DECISION))
    }

    fn round_ratio(&self, first: (&str, usize), second: (&str, usize)) -> miette::Result<Estimate> {
        let (first, second) = (self.rounds(first.0, first.1)?, self.rounds(second.0, second.1)?);
        let ratios: Vec<f64> = first.iter().zip(&second).map(|(a, b)| a / b).collect();
        Ok(median(&ratios))
    }

    fn path<'a>(rows: &'a Rows, name: &str) -> miette::Result<&'a [f64]> {
        let row = rows.iter().find(|(row, _)| row == name);
        row.map(|(_, cells)| cells.as_slice()).ok_or_else(|| miette::miette!("no row {name}"))
    }

    /// Returns the ratio of two medians; its interval holds every ratio of their intervals.
    fn path_ratio(&self, first: &str, second: &str) -> miette::Result<Estimate> {
        let (first, second) = (Self::path(&self.paths, first)?, Self::path(&self.paths, second)?);
        Ok(Estimate {
            value: first[MEDIAN] / second[MEDIAN],
            low: first[LOW] / second[HIGH],
            high: first[HIGH] / second[LOW],
        })
    }

    /// Judges the paper's statements.
    pub(super) fn claims(&self) -> miette::Result<Vec<Claim>> {
        let mut claims = self.scheduler_claims()?;
        claims.extend(self.path_claims()?);
        Ok(claims)
    }

    /// Tables 1 to 3.
    fn scheduler_claims(&self) -> miette::Result<Vec<Claim>> {
        let judged = |what: &str, (text, paper): (&str, f64), criterion: &str, ours: Estimate| {
            Test::new(
                format!("Co-processor, {what}"),
                format!("{paper:.3}: {text}"),
                format!("ratio within 10 %: {criterion}"),
                Allowed::near(paper, 10.0),
            )
            .by(
                Evidence::Measured,
                interval(ours, 3, "", false),
                ours,
                format!("{} against the paper; median of rounds", deviation(ours, paper)),
            )
        };
        let [cold, warm] = ["cold", "warm"];
        let row = |arithmetic: &str, caches: &str| format!("{arithmetic} {caches} memory");
        let fixed_to_software =
            |caches| self.decisions(&row("fixed", caches), &row("software-floating", caches));
        Ok(vec![
            judged(
                "Table 1: no cache: a decision in fixed point, of one in software floating point",
                ("78.13 of 95.07 µs", 78.13 / 95.07),
                "the saving is \"≈ 20 µs\"",
                fixed_to_software(cold)?,
            ),
            judged(
                "Table 2: cache: a decision in fixed point, of one in software floating point",
                ("66.82 of 83.80 µs", 66.82 / 83.80),
                "the saving is \"around ≈ 20 µs\"",
                fixed_to_software(warm)?,
            ),
            judged(
                "Tables 1 and 2: a decision with cache, of one without (fixed point)",
                ("66.82 of 78.13 µs", 66.82 / 78.13),
                "the saving is \"≈ 15 µs\"",
                self.decisions("fixed warm memory", "fixed cold memory")?,
            ),
            judged(
                "Table 2: a decision, of sending the frame (fixed point, cache)",
                ("66.82 of 27.78 µs", 66.82 / 27.78),
                "the overhead is \"≈ 66.82 µs\"",
                self.round_ratio(("fixed warm memory", DECISION), ("fixed warm memory", 2))?,
            ),
            judged(
                "Table 3: a decision with descriptors in registers, of one in memory",
                ("68.68 of 66.82 µs, \"comparable\"", 68.68 / 66.82),
                "\"comparable\"",
                self.decisions("fixed warm registers", "fixed warm memory")?,
            ),
        ])
    }

    /// Tables 4 and 5, and section 3.1.2.
    fn path_claims(&self) -> miette::Result<Vec<Claim>> {
        let between = |what: &str, text: &str, paper: f64, low: f64, high: f64, ours: Estimate| {
            Test::new(
                format!("Co-processor, {what}"),
                format!("{paper:.3}: {text}"),
                format!("ratio {low:.3} to {high:.3}: half a unit of the last digits"),
                Allowed::Between(low, high),
            )
            .by(
                Evidence::Measured,
                interval(ours, 3, "", false),
                ours,
                format!("{} against the paper; ratio of medians", deviation(ours, paper)),
            )
        };
        let bulk = self.path_ratio("word read", "file between cores")?;
        // Bytes of the file, and of a word: 4 there, 8 here.
        let per_byte = |ratio: f64| ratio * 773_665.0 / 8.0;
        let bulk = Estimate {
            value: per_byte(bulk.value),
            low: per_byte(bulk.low),
            high: per_byte(bulk.high),
        };
        let word = |us: f64| us / 4.0 / (11_673.84 / 773_665.0);
        let pull = self.path_ratio("pull", "push")?;
        let [pulled, pushed] = [
            Self::path(&self.paths, "pull")?[MEDIAN] / 1e3,
            Self::path(&self.paths, "push")?[MEDIAN] / 1e3,
        ];
        Ok(vec![
            between(
                "Table 4: path I (page cache), of path II (NI's disk)",
                "1 (ufs) of 5.4 ms",
                1.0 / 5.4,
                0.5 / 5.45,
                1.5 / 5.35,
                self.path_ratio("I", "II")?,
            ),
            between(
                "Table 4: path III (through a second NI), of path II",
                "5.415 of 5.4 ms",
                5.415 / 5.4,
                5.4145 / 5.45,
                5.4155 / 5.35,
                self.path_ratio("III", "II")?,
            ),
            between(
                "Table 4: the disk's part of path II",
                "4.2 of 5.4 ms",
                4.2 / 5.4,
                4.15 / 5.45,
                4.25 / 5.35,
                self.path_ratio("disk", "II")?,
            ),
            between(
                "Table 5: reading a word, of writing it",
                "3.6 of 3.1 µs",
                3.6 / 3.1,
                3.55 / 3.15,
                3.65 / 3.05,
                self.path_ratio("word read", "word write")?,
            ),
            between(
                "Table 5: a byte by word reads, of one in a bulk transfer",
                "4 bytes in 3.6 µs, 773,665 in 11,673.84 µs",
                word(3.6),
                word(3.55),
                word(3.65),
                bulk,
            ),
            Test::new(
                "Co-processor, §3.1.2: the NI pulls a frame from host memory, of a frame in \
                 its own",
                "\"more time to dispatch\"",
                "ratio above 1: an order",
                Allowed::Above(1.0),
            )
            .by(
                Evidence::Measured,
                format!("{pulled:.3} of {pushed:.3} µs"),
                pull,
                format!("{} against push; ratio of medians", deviation(pull, 1.0)),
            ),
        ])
    }

    /// Returns Tables 1 to 5.
    pub(super) fn text(&self) -> miette::Result<String> {
        let mut text = String::from(include_str!("tables.md"));
        text += "| | the paper, software floating point | fixed point \
                 | here, software floating point | floating point | fixed point \
                 |\n|---|--:|--:|--:|--:|--:|\n";
        let mut table =
            |name: &str, caches: &str, place: &str, paper: [[&str; 2]; 3]| -> miette::Result<()> {
                let what = ["a frame, with scheduler", "a frame, without", "the scheduler alone"];
                for (column, (what, [software, fixed])) in (1..).zip(what.into_iter().zip(paper)) {
                    let _ = write!(text, "| {name}: {what} | {software} | {fixed} |");
                    for arithmetic in ["software-floating", "floating", "fixed"] {
                        let rounds = self.rounds(&format!("{arithmetic} {caches} {place}"), column);
                        let _ = write!(text, " {:.3} |", median(&rounds?).value / 1e3);
                    }
                    text.push('\n');
                }
                Ok(())
            };
        let [off, on] = [["129.67", "108.48"], ["115.20", "94.60"]];
        let (none, some) =
            ([["34.60", "30.35"], ["95.07", "78.13"]], [["31.40", "27.78"], ["83.80", "66.82"]]);
        table("Table 1, no cache", "cold", "memory", [off, none[0], none[1]])?;
        table("Table 2, cache", "warm", "memory", [on, some[0], some[1]])?;
        let queue = [["–", "72.48, 96.48"], ["–", "27.80"], ["–", "44.68, 68.68"]];
        table("Table 3, cache, registers", "warm", "registers", queue)?;
        text += include_str!("tables45.md");
        for (name, what, paper) in [
            ("I", "I: file, through the page cache, host", "1,000 (ufs), 8,000"),
            ("II", "II: disk, NI", "5,400"),
            ("III", "III: disk, producer, shared memory, NI", "5,415"),
            ("disk", "the disk's part", "4,200"),
            ("network", "the network's part", "1,200"),
            ("push", "§3.1.2, push: dispatch of a frame in the NI's memory", "not measured"),
            ("pull", "§3.1.2, pull: dispatch of a frame in host memory", "not measured"),
            ("file between cores", "Table 5: 773,665 bytes from core to core", "11,673.84"),
            ("word read", "Table 5: a word written by the other core, read", "3.6"),
            ("word write", "Table 5: a word written by the other core, written", "3.1"),
        ] {
            let row = Self::path(&self.paths, name)?;
            let [median, p99] = [row[MEDIAN], row[P99]].map(|ns| format!("{:.3}", ns / 1e3));
            let _ = writeln!(text, "| {what} | {paper} | {median} | {p99} |");
        }
        text += include_str!("server-paths.md");
        for (name, what, paper) in [
            ("host", "A: file, host, NI (`host`)", "I: 1,000 (ufs), 8,000"),
            ("ni", "C: file, NI (`ni`)", "II: 5,400"),
            ("producer", "B: file, producer, NI (`producer`)", "III: 5,415"),
        ] {
            let row = Self::path(&self.server_paths, name)?;
            let _ = write!(text, "| {what} | {paper} |");
            for ns in &row[..6] {
                let _ = write!(text, " {:.2} |", ns / 1e3);
            }
            let _ = writeln!(text, " {} | {} |", row[6], row[7]);
        }
        Ok(text)
    }
}
