//! The papers' tables and figures, and the claims of each.
//!
//! 41 tables and figures have something to reproduce. Tables I and II of the MinBW paper count
//! once, since together they are the traffic of one scenario. Table 1 and Figure 1 of the HILQ
//! paper count once, since together they are the rules of one scheduler. Every other table and
//! figure counts. Drawings of architectures and data structures have nothing to reproduce and are
//! no items. Four experiments that a paper describes only in its text are items, too, but not of
//! the 41.

/// Commands that write the results of an item, besides `make figures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measurement {
    /// Synthesis, place and route, waveforms.
    Hardware,
    /// Simulation of ShareStreams' cards with Verilator.
    Cards,
    /// The live router and the costs of its functions.
    Router,
    /// The live media server and the costs of its scheduler and paths.
    Coprocessor,
    /// Instructions of a decision of the MinBW schedulers.
    Instructions,
}

impl Measurement {
    /// Returns the name and command of the measurement.
    const fn command(self) -> &'static str {
        match self {
            Self::Hardware => "hardware: `make rtl-report`",
            Self::Cards => "cards: `cargo run --release -p millstream-papers -- --cards`",
            Self::Router => "live: `make paper-router`",
            Self::Coprocessor => "live: `make paper-coprocessor`",
            Self::Instructions => "instructions: `scripts/minbw-cost.py`",
        }
    }
}

/// A table, a figure or an experiment of a paper.
#[derive(Debug)]
pub(crate) struct Item {
    /// The folder of its paper.
    pub(crate) paper: &'static str,
    /// The item's name on the page. The names of the 41 begin with `Table` or `Fig`.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) shows: &'static str,
    /// Beginnings of the texts of its claims.
    prefixes: &'static [&'static str],
    measurements: &'static [Measurement],
}

impl Item {
    const fn new(
        paper: &'static str,
        name: &'static str,
        shows: &'static str,
        prefixes: &'static [&'static str],
        measurements: &'static [Measurement],
    ) -> Self {
        Self { paper, name, shows, prefixes, measurements }
    }

    /// Returns whether a claim begins with one of the item's prefixes. The prefix `Fig 1` does not
    /// match `Fig 10`.
    fn has(&self, claim: &str) -> bool {
        let begins = |prefix: &&str| {
            let rest = claim.strip_prefix(*prefix);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        self.prefixes.iter().any(begins)
    }

    /// Returns the commands that regenerate the item's results.
    pub(crate) fn command(&self) -> String {
        let page = format!("make figures PAPER={}", self.paper);
        let commands = self.measurements.iter().map(|of| of.command().to_owned());
        let commands = std::iter::once(format!("`{page}`")).chain(commands);
        commands.collect::<Vec<_>>().join("; ")
    }
}

/// Returns the items that a claim of `paper` belongs to: one, or none for a claim in the text.
///
/// A claim about several items belongs to the first that its text names.
pub(crate) fn items_of<'a>(paper: &'a str, claim: &'a str) -> impl Iterator<Item = &'static Item> {
    ITEMS.iter().filter(move |item| item.paper == paper && item.has(claim))
}

/// All items, by paper.
pub(crate) static ITEMS: [Item; 45] = {
    use Measurement::{Cards, Coprocessor, Hardware, Router};
    const S: &str = "sharestreams";
    const M: &str = "minbw";
    const H: &str = "hilq";
    const R: &str = "router";
    const C: &str = "coprocessor";
    [
        Item::new(S, "Table 1", "order of pairs of streams", &["Table 1"], &[]),
        Item::new(
            S,
            "Fig 1",
            "feasible QoS bounds, streams and scheduling rates",
            &["Fig 1"],
            &[Hardware],
        ),
        Item::new(S, "Fig 6", "cycles of a decision, 4 to 32 streams", &["Fig 6"], &[Hardware]),
        Item::new(S, "Fig 9", "area and clock, BA and WR, Virtex", &["Fig 9"], &[Hardware]),
        Item::new(S, "Fig 10", "area and clock, BA and WR, Virtex-II", &["Fig 10"], &[Hardware]),
        Item::new(S, "Fig 11", "area and clock, compute-ahead", &["Fig 11"], &[Hardware]),
        Item::new(
            S,
            "Sec 5.1",
            "frames of 64 and 1,500 bytes at 1 and 10 Gb/s",
            &["Sec 5.1: all variants"],
            &[Hardware],
        ),
        Item::new(S, "Fig 12", "bandwidths of 1 : 1 : 2 : 4", &["Fig 12"], &[Cards]),
        Item::new(
            S,
            "Fig 13",
            "queueing delays with bursts of 4,000 frames",
            &["Fig 13"],
            &[Cards],
        ),
        Item::new(S, "Fig 14", "settling of equal shares, line card", &["Fig 14"], &[Cards]),
        Item::new(S, "Sec 5.2", "four EDF streams, one period apart", &["EDF"], &[]),
        Item::new(
            S,
            "Fig 15",
            "shares of 2 : 1 : 1, then a static-priority stream",
            &["Fig 15"],
            &[],
        ),
        Item::new(S, "Fig 16", "two fair-share and two EDF streams", &["Fig 16"], &[]),
        Item::new(
            M,
            "Tables I, II",
            "service classes, injected traffic and weights",
            &["Table I", "Table II"],
            &[],
        ),
        Item::new(M, "Fig 1", "virtual time with gaps", &["Fig 1"], &[]),
        Item::new(
            M,
            "Fig 2",
            "NC: throughput and latencies against load",
            &["Fig 2", "Figs 2 and 3"],
            &[],
        ),
        Item::new(M, "Fig 3", "VO, VI, CL: throughput, latencies, jitter", &["Fig 3"], &[]),
        Item::new(M, "Fig 4", "EE, BE, BK: throughput and latency", &["Fig 4"], &[]),
        Item::new(
            H,
            "Table 1, Fig 1",
            "order of pairs of packets; updates of windows",
            &["Table 1", "Fig 1"],
            &[],
        ),
        Item::new(H, "Table 2", "latencies of an SRAM access", &["Table 2"], &[]),
        Item::new(H, "Table 3", "memory accesses a packet, heaps and HILQ", &["Table 3"], &[]),
        Item::new(H, "Fig 6", "scheduling delay against streams", &["Fig 6"], &[]),
        Item::new(H, "Fig 7", "throughput against scheduling cost", &["Fig 7"], &[]),
        Item::new(H, "Fig 8", "throughput against streams", &["Fig 8"], &[]),
        Item::new(H, "Fig 9", "violated windows against utilisation", &["Fig 9"], &[]),
        Item::new(R, "Table 1", "costs of five forwarding functions", &["Table 1"], &[Router]),
        Item::new(R, "Table 2", "maximum rates by processes and batch", &["Table 2"], &[Router]),
        Item::new(R, "Fig 5", "forwarding rate, interrupts and polling", &["Fig 5"], &[Router]),
        Item::new(
            R,
            "Table 3",
            "best effort by shares, with and without throttle",
            &["Table 3"],
            &[Router],
        ),
        Item::new(R, "Sec 4.2", "idle input ports and the estimator", &["section 4.2"], &[Router]),
        Item::new(R, "Fig 6", "a best-effort flow and two QoS flows", &["Fig 6"], &[Router]),
        Item::new(
            R,
            "Fig 7",
            "link-bound to CPU-bound, simple batching",
            &["Fig 7", "Figs 7 to 9"],
            &[Router],
        ),
        Item::new(R, "Fig 8", "link-bound to CPU-bound, no batching", &["Fig 8"], &[Router]),
        Item::new(R, "Fig 9", "link-bound to CPU-bound, throttled batches", &["Fig 9"], &[Router]),
        Item::new(R, "Sec 4.5", "costs that depend on data", &["section 4.5"], &[Router]),
        Item::new(
            C,
            "Table 1",
            "a decision without cache, fixed and floating point",
            &["Table 1", "Tables 1 and 2"],
            &[Coprocessor],
        ),
        Item::new(
            C,
            "Table 2",
            "a decision with cache, fixed and floating point",
            &["Table 2"],
            &[Coprocessor],
        ),
        Item::new(C, "Table 3", "descriptors in registers", &["Table 3"], &[Coprocessor]),
        Item::new(C, "Table 4", "paths of a frame from the disk", &["Table 4"], &[Coprocessor]),
        Item::new(
            C,
            "Table 5",
            "costs of transfers over the PCI bus",
            &["Table 5"],
            &[Coprocessor],
        ),
        Item::new(C, "Fig 6", "host: CPU utilisation under web load", &["Fig 6"], &[Coprocessor]),
        Item::new(
            C,
            "Fig 7",
            "host: bandwidth under web load",
            &["Fig 7", "Figs 7 and 8", "Figs 7 and 9"],
            &[Coprocessor],
        ),
        Item::new(C, "Fig 8", "host: queueing delay under web load", &["Fig 8"], &[Coprocessor]),
        Item::new(
            C,
            "Fig 9",
            "NI: bandwidth under web load",
            &["Fig 9", "Figs 9 and 10"],
            &[Coprocessor],
        ),
        Item::new(C, "Fig 10", "NI: queueing delay under web load", &["Fig 10"], &[Coprocessor]),
    ]
};

/// The claims of each paper that belong to no item.
pub(crate) static TEXTS: [Item; 5] = {
    use Measurement::{Cards, Coprocessor, Hardware, Instructions, Router};
    const fn text(paper: &'static str, measurements: &'static [Measurement]) -> Item {
        Item::new(paper, "claims in the text", "other statements", &[], measurements)
    }
    [
        text("sharestreams", &[Hardware, Cards]),
        text("minbw", &[Instructions]),
        text("hilq", &[]),
        text("router", &[Router]),
        text("coprocessor", &[Coprocessor]),
    ]
};

#[cfg(test)]
mod tests {
    use super::{ITEMS, items_of};
    use std::collections::BTreeSet;

    #[test]
    fn no_item_is_listed_twice() {
        let names: BTreeSet<_> = ITEMS.iter().map(|item| (item.paper, item.name)).collect();
        assert_eq!(names.len(), ITEMS.len());
        let prefixes =
            ITEMS.iter().flat_map(|item| item.prefixes.iter().map(|of| (item.paper, of)));
        let distinct: BTreeSet<_> = prefixes.clone().collect();
        assert_eq!(distinct.len(), prefixes.count());
    }

    #[test]
    fn tables_and_figures_are_41() {
        let drawn = |name: &str| name.starts_with("Table") || name.starts_with("Fig");
        assert_eq!(ITEMS.iter().filter(|item| drawn(item.name)).count(), 41);
        let sections = ITEMS.iter().filter(|item| !drawn(item.name));
        let names: Vec<_> = sections.map(|item| (item.paper, item.name)).collect();
        let (ours, router) = ("sharestreams", "router");
        assert_eq!(
            names,
            [(ours, "Sec 5.1"), (ours, "Sec 5.2"), (router, "Sec 4.2"), (router, "Sec 4.5")]
        );
    }

    #[test]
    fn a_prefix_ends_with_its_word() {
        let names = |paper, claim| -> Vec<_> { items_of(paper, claim).map(|of| of.name).collect() };
        assert_eq!(names("sharestreams", "Fig 1: bounds"), ["Fig 1"]);
        assert_eq!(names("sharestreams", "Fig 10: clock"), ["Fig 10"]);
        assert_eq!(names("sharestreams", "Fig 9, 10: steadier"), ["Fig 9"]);
        assert_eq!(names("minbw", "Table II: weights"), ["Tables I, II"]);
        assert_eq!(names("coprocessor", "Fig 8, live: host"), ["Fig 8"]);
        assert!(names("router", "section 4.1: batching").is_empty());
        assert!(names("hilq", "Fig 16: packets").is_empty());
    }
}
