//! ShareStreams (Krishnamurthy et al.): Table 1 and the software experiments of section 5.2.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::Path;

use millstream::{
    Contract, Discipline, Dwcs, DwcsOptions, EdfFirst, Head, Rules, Window, ZeroWindow,
};
use millstream_scenario::Scenario;

use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, HEAD, Test, rows};
use crate::experiment::{Page, Services, figure, services, services_of};

/// The bandwidths of Figure 12, MB/s, and half a unit of their last digits.
pub(crate) const BANDWIDTHS: [(f64, f64); 4] =
    [(47.15, 0.005), (47.15, 0.005), (95.3, 0.05), (188.6, 0.05)];

/// The packet-times of Figure 15 before the static-priority stream, and at its end.
const INTRODUCED: usize = 63_810;
const END: usize = 64_000;

/// The packets of Figure 16.
const SERVED: usize = 57_339;

/// Formats counts in the paper's notation of ratios.
fn ratio(counts: &[usize]) -> String {
    counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" : ")
}

/// Returns the ratios that bandwidths rounded to the paper's digits allow.
fn printed_ratio((part, part_half): (f64, f64), (of, of_half): (f64, f64)) -> Allowed {
    Allowed::Between((part - part_half) / (of + of_half), (part + part_half) / (of - of_half))
}

/// Returns the tests of Figure 12's ratios to stream 1, and the effect of a ratio of ours.
pub(crate) fn bandwidth_tests() -> [(Test, f64); 3] {
    [1, 2, 3].map(|at| {
        let paper = BANDWIDTHS[at].0 / BANDWIDTHS[0].0;
        let digits = |at: usize| if at < 2 { 2 } else { 1 };
        let test = Test::new(
            format!("Fig 12: bandwidth of stream {} over stream 1", at + 1),
            format!("{paper:.3} ({:.*} / 47.15 MB/s)", digits(at), BANDWIDTHS[at].0),
            "the quotient of the printed bandwidths, each ± half a unit of its last digit",
            printed_ratio(BANDWIDTHS[at], BANDWIDTHS[0]),
        );
        (test, paper)
    })
}

#[allow(clippy::cast_precision_loss)]
fn real(count: usize) -> f64 {
    count as f64
}

/// Returns the largest difference of a count from its part of the total, in packets.
fn distance(counts: &[usize], parts: &[usize]) -> f64 {
    let (total, all): (usize, usize) = (counts.iter().sum(), parts.iter().sum());
    let off = |(count, part): (&usize, &usize)| {
        (real(*count) - real(total) * real(*part) / real(all)).abs()
    };
    counts.iter().zip(parts).map(off).fold(0.0, f64::max)
}

/// Tests counts against the shares `parts`, up to `within` packets.
fn shares(
    what: &str,
    paper: &str,
    criterion: &str,
    within: f64,
    counts: &[usize],
    parts: &[usize],
) -> Claim {
    let off = distance(counts, parts);
    let effect = format!("{off:.2} packets off at most; exact, one deterministic run");
    Test::new(what, paper, criterion, Allowed::AtMost(within)).by(
        Evidence::Simulated,
        ratio(counts),
        Estimate::exact(off),
        effect,
    )
}

/// Tests that a statement holds for all of `count` cases.
fn always(what: &str, paper: &str, evidence: Evidence, (held, count): (usize, usize)) -> Claim {
    let percent = 100.0 * real(held) / real(count);
    Test::new(what, paper, "true in every case", Allowed::Equal(100.0)).by(
        evidence,
        format!("{held} of {count}"),
        Estimate::exact(percent),
        format!("{percent:.2} % of the cases; exact"),
    )
}

/// A pair's attributes under Table 1: deadline, x', y', arrival.
type Attributes = (u64, u32, u32, u64);

/// Returns the order of two streams by the sentences of Table 1.
fn table1(a: Attributes, b: Attributes) -> Ordering {
    let ((deadline_a, x_a, y_a, arrival_a), (deadline_b, x_b, y_b, arrival_b)) = (a, b);
    if deadline_a != deadline_b {
        return deadline_a.cmp(&deadline_b);
    }
    // A window-constraint of 0/0 is zero.
    let value = |x: u32, y: u32| if x == 0 { 0.0 } else { f64::from(x) / f64::from(y) };
    let (value_a, value_b) = (value(x_a, y_a), value(x_b, y_b));
    if (value_a - value_b).abs() > 1e-9 {
        return value_a.total_cmp(&value_b);
    }
    if x_a == 0 && x_b == 0 && y_a != y_b {
        return y_b.cmp(&y_a);
    }
    if x_a != x_b {
        return x_a.cmp(&x_b);
    }
    arrival_a.cmp(&arrival_b)
}

/// Compares the engine's order with Table 1 for all pairs of small attributes; returns the pairs
/// that agree, and all.
fn table1_pairs() -> miette::Result<(usize, usize)> {
    let mut dwcs = Dwcs::<EdfFirst>::default();
    let mut ranked = Vec::new();
    for (deadline, arrival) in [(10, 0), (10, 1), (11, 0), (11, 1)] {
        for y in 0..=12 {
            for x in 0..=y {
                let error = |error| miette::miette!("{error}");
                let window = Window::new(x, y).map_err(error)?;
                let contract = Contract::new().period_ns(1).map_err(error)?.window(window);
                let contract = contract.first_deadline_ns(deadline);
                let mut state = dwcs.admit(&contract).map_err(error)?;
                let head = Head { arrival_ns: arrival, bytes: 1 };
                dwcs.became_head(&mut state, head);
                ranked.push((dwcs.rank(&state, head), (deadline, x, y, arrival)));
            }
        }
    }
    let agree = |(a, b): &(&(_, Attributes), &(_, Attributes))| {
        let engine: Ordering = Ord::cmp(&a.0, &b.0);
        engine == table1(a.1, b.1)
    };
    let pairs = || ranked.iter().flat_map(|a| ranked.iter().map(move |b| (a, b)));
    Ok((pairs().filter(agree).count(), pairs().count()))
}

/// Returns the packet-times after which every share stays within 1 % of an equal one.
fn settling(services: &Services, slots: usize) -> usize {
    let streams = services.names.len();
    let mut counts = vec![0usize; streams];
    let mut settled = 0;
    for (slot, stream) in services.streams.iter().take(slots).enumerate() {
        counts[*stream] += 1;
        let equal = real(slot + 1) / real(streams);
        if counts.iter().any(|count| (real(*count) / equal - 1.0).abs() > 0.01) {
            settled = slot + 1;
        }
    }
    settled
}

fn fig12(folder: &Path, claims: &mut Vec<Claim>) -> miette::Result<(String, String)> {
    let fig12 = services(&folder.join("fig12.toml"))?;
    let counts = fig12.counts(64_000);
    claims.push(Claim::given(
        "Fig 12: rate of the link",
        "378.2 MB/s, the sum of its bandwidths",
        "378.2 MB/s",
        Given::Input,
    ));
    claims.push(Claim::given(
        "Fig 12: bytes of a frame",
        "64 to 1,500, distribution not given",
        "1,500",
        Given::Input,
    ));
    claims.push(shares(
        "Fig 12: packets of 64,000, all streams backlogged",
        "in the requested ratios 1 : 1 : 2 : 4",
        "0 packets from 1 : 1 : 2 : 4",
        0.0,
        &counts,
        &[1, 1, 2, 4],
    ));
    for (at, (test, paper)) in (1..).zip(bandwidth_tests()) {
        let ours = real(counts[at]) / real(counts[0]);
        let effect =
            format!("{:+.2} %; exact, one deterministic run", 100.0 * (ours / paper - 1.0));
        claims.push(test.by(
            Evidence::Simulated,
            format!("{ours:.3}"),
            Estimate::exact(ours),
            effect,
        ));
    }
    let drawn = fig12.rates(120_000, 1500, 60);
    let title = "Fig 12: bandwidth 1:1:2:4 from window-constraints";
    let text = figure(title, ("time (ms)", false), ("MB/s", false), &drawn)?;
    Ok(("fig12.svg".into(), text))
}

/// The settings of Figure 15's table: words, updates and the order of zero windows.
const FIG15_RULES: [(&str, Rules, ZeroWindow); 4] = [
    ("Table 1, updates of [10]", Rules::Standard, ZeroWindow::HighestDenominator),
    ("lowest y' first, updates of [10]", Rules::Standard, ZeroWindow::LowestDenominator),
    ("Table 1, updates of 1999", Rules::Rtas99, ZeroWindow::HighestDenominator),
    ("lowest y' first, updates of 1999", Rules::Rtas99, ZeroWindow::LowestDenominator),
];

/// Returns a stream's packets of the last packet-times, and the first packet-time of another
/// stream.
fn fig15_won(services: &Services) -> (usize, Option<usize>) {
    let last = &services.streams[INTRODUCED..END];
    let won = last.iter().filter(|stream| **stream == 3).count();
    (won, last.iter().position(|stream| *stream != 3))
}

fn fig15(
    folder: &Path,
    claims: &mut Vec<Claim>,
    table: &mut String,
) -> miette::Result<(String, String)> {
    let scenario = Scenario::load(&folder.join("fig15.toml"))?;
    table.push_str(
        "| order and updates | the 0/255 stream's packets of the last 190 \
         | another stream is served first at its packet-time \
         |\n|---|---:|---:|\n",
    );
    for (name, rules, zero_window) in FIG15_RULES {
        let mut other = scenario.clone();
        other.scheduler.options.dwcs = DwcsOptions { rules, zero_window };
        let (won, lost) = fig15_won(&services_of(&other)?);
        let lost = lost.map_or("–".to_owned(), |at| at.to_string());
        let _ = writeln!(table, "| {name} | {won} | {lost} |");
    }
    let run = services_of(&scenario)?;
    claims.push(shares(
        "Fig 15: packets of streams 1, 2, 3 at 63,810",
        "settled in the ratio 2 : 1 : 1",
        "at most one window, 4 packets, from 2 : 1 : 1",
        4.0,
        &run.counts(INTRODUCED)[..3],
        &[2, 1, 1],
    ));
    let (won, lost) = fig15_won(&run);
    let last = END - INTRODUCED;
    let lost = lost.map_or("never".to_owned(), |at| format!("first at its packet-time {at}"));
    claims.push(
        Test::new(
            "Fig 15: packets of the 0/255 stream of the last 190",
            "190: it alone is served for a window of 255",
            "all of the last 190 packet-times, as in the figure",
            Allowed::Equal(real(last)),
        )
        .by(
            Evidence::Simulated,
            format!("{won}; another stream {lost}"),
            Estimate::exact(real(won)),
            format!(
                "{:+.1} %; exact, one deterministic run",
                100.0 * (real(won) / real(last) - 1.0)
            ),
        ),
    );
    let title = "Fig 15: fair share 2:1:1, then a 0/255 stream at 63,810";
    let mut drawn = run.shares(END);
    for line in &mut drawn {
        line.points.retain(|point| point.0 > 63_700.0);
        line.points.iter_mut().for_each(|point| point.0 -= 63_700.0);
    }
    let after = ("packet-times after 63,700", false);
    Ok(("fig15.svg".into(), figure(title, after, ("packets per packet-time", true), &drawn)?))
}

fn fig16(folder: &Path, claims: &mut Vec<Claim>) -> miette::Result<(String, String)> {
    let run = services(&folder.join("fig16.toml"))?;
    let counts = run.counts(SERVED);
    claims.push(Claim::given(
        "Fig 16: window-constraints of streams 1 to 4",
        "not given",
        "2/3, 5/6, 0/255, 0/255",
        Given::Input,
    ));
    claims.push(Claim::given("Fig 16: packets served", "57,339", "57,339", Given::Input));
    claims.push(shares(
        "Fig 16: packets of streams 1 and 2",
        "stream 1 has twice stream 2's",
        "at most one window, 6 packets, from 2 : 1",
        6.0,
        &counts[..2],
        &[2, 1],
    ));
    claims.push(shares(
        "Fig 16: packets of streams 3 and 4",
        "the same number",
        "0 packets from 1 : 1",
        0.0,
        &counts[2..],
        &[1, 1],
    ));
    let rounds = run.streams[..SERVED].chunks_exact(4);
    let in_turn = rounds.clone().filter(|round| round[0] == 3 && round[1] == 2).count();
    claims.push(always(
        "Fig 16: in every four packet-times",
        "stream 4, then stream 3, then the others",
        Evidence::Simulated,
        (in_turn, rounds.count()),
    ));
    let title = "Fig 16: fair share 2:1 with EDF streams 3 and 4";
    let (time, share) = (("packet-times", true), ("packets per packet-time", false));
    Ok(("fig16.svg".into(), figure(title, time, share, &run.shares(SERVED))?))
}

/// Runs all experiments of the folder and returns the page.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let mut claims = Vec::new();
    let mut files = Vec::new();
    let (time, share) = (("packet-times", true), ("packets per packet-time", false));

    claims.push(always(
        "Table 1: order of all pairs with y' up to 12",
        "five rules",
        Evidence::Computed,
        table1_pairs()?,
    ));
    files.push(fig12(folder, &mut claims)?);

    let fig14 = services(&folder.join("fig14.toml"))?;
    claims.push(shares(
        "Fig 14: packets of 64,000",
        "1 : 1 : 1 : 1",
        "0 packets from 1 : 1 : 1 : 1",
        0.0,
        &fig14.counts(64_000),
        &[1; 4],
    ));
    let settled = settling(&fig14, 64_000);
    claims.push(
        Test::new(
            "Fig 14: packet-times until all shares stay within 1 % of 1/4",
            "a figure without numbers in the text",
            "none: no number",
            Allowed::Unstated,
        )
        .by(
            Evidence::Simulated,
            settled.to_string(),
            Estimate::exact(real(settled)),
            "exact",
        ),
    );
    let title = "Fig 14: bandwidth 1:1:1:1 settling";
    files.push(("fig14.svg".into(), figure(title, time, share, &fig14.shares(64_000))?));

    let edf = services(&folder.join("edf.toml"))?;
    claims.push(shares(
        "EDF: winners of 63,996",
        "15999 : 15999 : 15999 : 15999",
        "the printed counts",
        0.0,
        &edf.counts(63_996),
        &[1; 4],
    ));
    let rounds = edf.streams[..63_996].chunks_exact(4);
    let in_order = rounds.clone().filter(|round| **round == [3, 2, 1, 0]).count();
    claims.push(always(
        "EDF: rounds in the order of the deadlines",
        "4, 3, 2, 1, always",
        Evidence::Simulated,
        (in_order, rounds.count()),
    ));
    let title = "EDF: four streams, deadlines one period apart";
    files.push(("edf.svg".into(), figure(title, time, share, &edf.shares(63_996))?));

    let mut rules = String::new();
    files.push(fig15(folder, &mut claims, &mut rules)?);
    files.push(fig16(folder, &mut claims)?);
    files.push(("README.md".into(), readme(&claims, &rules)));
    Ok(Page { files, claims })
}

fn readme(claims: &[Claim], fig15_rules: &str) -> String {
    let mut text = String::from(
        "# ShareStreams: Table 1 and the software experiments\n\n\
         Krishnamurthy, Yalamanchili, Schwan, West: *ShareStreams: A Scalable Architecture and \
         Hardware Support for High-Speed QoS Packet Schedulers*, Table 1 and section 5.2. `make \
         figures PAPER=sharestreams` writes this page and its figures from the scenarios beside \
         it; `make test` verifies their values.\n\n",
    );
    text += HEAD;
    text += &rows(claims, "");
    text += "\nA packet has 1,500 bytes and a request period is one packet-time; counts are \
             therefore exact. Each result is one deterministic run.\n\n\
             - **Figure 12.** The link has the sum of the paper's bandwidths, which its PCI host \
             limited. Bandwidths in MB/s would repeat this input; only their ratios are judged. \
             The paper's printed stream 3 has 1 % more than the requested ratio, our stream 3 has \
             the requested ratio. [The cards' page](cards.md) has the same ratios for frames of \
             64 to 1,500 bytes.\n\
             - **EDF.** Each stream has 64,000 packets. With 15,999 packets each, as on earlier \
             versions of this page, every order gives the paper's counts.\n\
             - **Figure 15.** The paper states that the 0/255 stream alone is served for a window \
             of 255. The scheduler with the paper's rules does not do that: a violated fair-share \
             stream has x' = 0, its y' grows by one for each missed period, and Table 1 orders \
             zero window-constraints by the highest y'. A fair-share stream overtakes before the \
             window ends. The table has all four combinations of the published orders and \
             updates.\n\
             - **Figure 16.** The paper gives the total and the relations of the counts, not the \
             counts and not the window-constraints. An EDF stream in a mix is written 0/255: as \
             0/0 it would lose to a fair-share stream with x' = 0.\n\n\
             ## Figure 15 by order and updates\n\n";
    text += fig15_rules;
    text.push('\n');
    for (file, what) in [
        ("fig12", "bandwidth over time, while all streams are backlogged"),
        ("fig14", "bandwidth from time zero, settling"),
        ("edf", "the four EDF streams"),
        (
            "fig15",
            "bandwidth from time zero, over the last 300 packet-times; stream 4 begins at 63,810",
        ),
        ("fig16", "bandwidth from time zero"),
    ] {
        let _ = writeln!(text, "![{file}: {what}]({file}.svg)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_digits_give_the_range_of_a_ratio() {
        let Allowed::Between(low, high) = printed_ratio(BANDWIDTHS[2], BANDWIDTHS[0]) else {
            panic!("a range");
        };
        assert!((low - 95.25 / 47.155).abs() < 1e-12 && (high - 95.35 / 47.145).abs() < 1e-12);
    }

    #[test]
    fn table_1_in_its_own_words() {
        use Ordering::{Equal, Greater, Less};
        for (a, b, order) in [
            ((1, 1, 2, 5), (2, 0, 9, 0), Less),
            ((1, 1, 2, 0), (1, 1, 3, 0), Greater),
            ((1, 0, 9, 5), (1, 0, 2, 0), Less),
            ((1, 1, 2, 5), (1, 2, 4, 0), Less),
            ((1, 1, 2, 5), (1, 1, 2, 4), Greater),
            ((1, 0, 0, 3), (1, 0, 0, 3), Equal),
        ] {
            assert_eq!(table1(a, b), order, "{a:?} {b:?}");
        }
        // 4 deadlines and arrivals, 91 windows.
        assert_eq!(table1_pairs().expect("valid contracts"), (132_496, 132_496));
    }

    #[test]
    fn distances_are_from_the_part_of_the_total() {
        assert!(distance(&[8, 8, 16, 32], &[1, 1, 2, 4]) < 1e-12);
        assert!((distance(&[3, 1], &[1, 1]) - 1.0).abs() < 1e-12);
    }
}
