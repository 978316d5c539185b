//! The book's comparison of disciplines: a picture of equal traffic under each discipline, and a
//! table of their fairness.

use miette::IntoDiagnostic;
use millstream::bounds::{Fairness as Theory, Share};
use millstream::catalogue::{DISCIPLINES, DisciplineRow, Options};
use millstream::{Contract, Departure, Event, Link, Packet, StreamId};
use millstream_report::chart::{Band, Span, bands};
use millstream_scenario::Scenario;
use millstream_sim::{Listener, link};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::claim::{Claim, Evidence};
use crate::experiment::Page;

/// The time span of the picture, ns.
const DRAWN_NS: u64 = 60_000_000;

/// Returns the picture and the page about fairness for the book's folder.
///
/// `example` is the path of the scenario.
pub(crate) fn page(example: &Path) -> miette::Result<Page> {
    let text = std::fs::read_to_string(example).into_diagnostic()?;
    let picture = picture(&text, example)?;
    let compared = compared().into_iter();
    let rows: Vec<Fairness> = compared.map(|(row, theory)| measure(row, theory)).collect();
    let claims = rows.iter().filter_map(Fairness::claim).collect();
    let files = vec![
        ("disciplines.svg".to_owned(), picture),
        ("fairness.md".to_owned(), fairness_page(&rows)),
    ];
    Ok(Page { files, claims })
}

struct Services(Vec<Span>, millstream_scenario::Link);

impl Listener for Services {
    #[allow(clippy::cast_precision_loss)]
    fn departed(
        &mut self,
        departure: &Departure,
        _: Option<&millstream_traffic::FrameBytes>,
    ) -> io::Result<()> {
        if departure.event == Event::Sent && departure.time_ns < DRAWN_NS {
            let end_ns = departure.time_ns + self.1.transmission_ns(departure.bytes);
            let ms = |ns: u64| ns as f64 / 1e6;
            let (from, to) = (ms(departure.time_ns), ms(end_ns.min(DRAWN_NS)));
            self.0.push(Span { from, to, kind: departure.stream.index() });
        }
        Ok(())
    }
}

/// Returns the picture of the link's transmissions, one band for each discipline.
fn picture(text: &str, example: &Path) -> miette::Result<String> {
    let mut drawn = Vec::new();
    let mut names = Vec::new();
    for row in DISCIPLINES {
        let text = text.replace("discipline = \"wfq\"", &format!("discipline = \"{}\"", row.name));
        let folder = example.parent().unwrap_or(Path::new(""));
        let scenario = Scenario::parse(row.name, &text, folder)?;
        names = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
        let mut services = Services(Vec::new(), scenario.link);
        let mut input = millstream_scenario::open(&scenario, false).into_diagnostic()?;
        link::run(&scenario, input.feed.as_mut(), &mut services).into_diagnostic()?;
        drawn.push(Band { name: row.name.to_owned(), spans: services.0 });
    }
    let title = "Transmissions of the link: equal traffic under every discipline";
    bands(title, "time (ms)", &names, &drawn)
        .map_err(|error| miette::miette!("the picture of disciplines: {error}"))
}

/// Returns the disciplines that the page compares: those with a bound first, then those with
/// shares.
fn compared() -> Vec<(&'static DisciplineRow, Theory)> {
    let compared = |row: &'static DisciplineRow| Some((row, row.fairness?));
    let mut rows: Vec<_> = DISCIPLINES.iter().filter_map(compared).collect();
    rows.sort_by_key(|(row, theory)| {
        (matches!(theory, Theory::Unbounded(_)), row.share == Share::None)
    });
    rows
}

const LARGEST: u32 = 1500;
/// DRR's quantum for weight 1, bytes.
const TURN: u32 = LARGEST;
const SEEDS: u64 = 200;
const PACKETS: u32 = 600;

/// Measured unfairness of a discipline, bytes per unit of weight.
struct Fairness {
    discipline: &'static str,
    worst: f64,
    /// The largest fraction of its bound that a pair reached, if there is a bound.
    of_bound: Option<f64>,
    theory: Theory,
}

impl Fairness {
    fn claim(&self) -> Option<Claim> {
        let of_bound = self.of_bound?;
        Some(Claim::exactly(
            format!("{}: largest difference of service per weight", self.discipline),
            "at most the bound",
            format!("{:.0} % of the bound", of_bound * 100.0),
            Evidence::Simulated,
            of_bound <= 1.0,
        ))
    }
}

/// Runs random backlogged streams and returns the worst pair. Some streams start late.
#[allow(clippy::cast_precision_loss)]
fn measure(row: &'static DisciplineRow, theory: Theory) -> Fairness {
    let mut fairness = Fairness { discipline: row.name, worst: 0.0, of_bound: None, theory };
    for seed in 0..SEEDS {
        let mut random = seed * 2 + 1;
        let mut below = |end: u32| {
            random =
                random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            u32::try_from((random >> 33) % u64::from(end)).unwrap_or(0)
        };
        let streams = 2 + below(6) as usize;
        let weights: Vec<u32> = (0..streams).map(|_| 1 << below(4)).collect();
        let largest: Vec<u32> =
            (0..streams).map(|_| [LARGEST, 600, 64][below(3) as usize]).collect();
        let late: Vec<bool> = (0..streams).map(|stream| stream > 0 && below(3) == 0).collect();
        let mut length = |largest: u32| if below(2) == 0 { largest } else { 1 + below(largest) };
        let lengths: Vec<Vec<u32>> = largest
            .iter()
            .map(|largest| (0..PACKETS).map(|_| length(*largest)).collect())
            .collect();
        let bound = |i: usize, j: usize| bound(theory, &weights, &largest, i, j);
        let served = run(row, &weights, &lengths, &late);
        for i in 0..streams {
            for j in 0..i {
                let difference = swing(&served, &weights, i, j);
                fairness.worst = fairness.worst.max(difference);
                if let Some(bound) = bound(i, j) {
                    let reached = fairness.of_bound.unwrap_or(0.0).max(difference / bound);
                    fairness.of_bound = Some(reached);
                }
            }
        }
    }
    fairness
}

/// A service, and the streams backlogged since the previous one.
struct Service {
    stream: usize,
    bytes: u32,
    backlogged: Vec<bool>,
}

fn run(row: &DisciplineRow, weights: &[u32], lengths: &[Vec<u32>], late: &[bool]) -> Vec<Service> {
    let link = Link::new(8_000_000_000, 0);
    let ids = || (0u32..).map(StreamId).take(weights.len());
    let table = ids().zip(weights).flat_map(|(id, weight)| vec![id; *weight as usize]).collect();
    let options = Options { link, table, ..Options::default() };
    let mut scheduler = row.build(&options, row.auto_structure(&options, weights.len()));
    for weight in weights {
        let contract = Contract::new().weight(*weight).and_then(|c| c.quantum_bytes(TURN * weight));
        scheduler.add_stream(contract.expect("positive")).expect("complete");
    }
    // Late streams start when about a third of all bytes is sent.
    let total: u64 = lengths.iter().flatten().map(|bytes| u64::from(*bytes)).sum();
    let start_ns = |late: bool| if late { total / 3 } else { 0 };
    let mut started = vec![false; weights.len()];
    let (mut now_ns, mut services) = (0, Vec::new());
    loop {
        for (stream, id) in ids().enumerate() {
            if !started[stream] && now_ns >= start_ns(late[stream]) {
                started[stream] = true;
                for bytes in &lengths[stream] {
                    let _ = scheduler.enqueue(now_ns, id, Packet::new(*bytes));
                }
            }
        }
        let backlogged: Vec<bool> = ids().map(|id| scheduler.waiting(id) > 0).collect();
        let Some(sent) = scheduler.decide(now_ns, &mut ()) else { return services };
        now_ns += link.transmission_ns(sent.bytes);
        services.push(Service { stream: sent.stream.index(), bytes: sent.bytes, backlogged });
    }
}

/// Returns the largest change of W_i/φ_i − W_j/φ_j over any time in which both were backlogged.
fn swing(services: &[Service], weights: &[u32], i: usize, j: usize) -> f64 {
    let (mut difference, mut least, mut most, mut worst) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for service in services {
        if !(service.backlogged[i] && service.backlogged[j]) {
            (difference, least, most) = (0.0, 0.0, 0.0);
            continue;
        }
        let share = f64::from(service.bytes) / f64::from(weights[service.stream]);
        difference += match service.stream {
            stream if stream == i => share,
            stream if stream == j => -share,
            _ => 0.0,
        };
        (least, most) = (least.min(difference), most.max(difference));
        worst = worst.max(most - least);
    }
    worst
}

#[allow(clippy::cast_precision_loss)]
fn bound(theory: Theory, weights: &[u32], largest: &[u32], i: usize, j: usize) -> Option<f64> {
    let per_weight = |bytes: u32, stream: usize| f64::from(bytes) / f64::from(weights[stream]);
    let own = |stream: usize| per_weight(largest[stream], stream);
    let all = largest.iter().copied().max().unwrap_or(0);
    let any = |stream: usize| per_weight(all, stream);
    Some(match theory {
        Theory::SelfClocked => own(i) + own(j),
        Theory::WorstCaseFair => own(i) + own(j) + any(i) + any(j),
        Theory::Fluid => {
            let longest = (0..weights.len()).map(own).fold(0.0, f64::max);
            let ahead = |stream| longest.min((weights.len() - 1) as f64 * any(stream));
            (ahead(j) + any(i) + own(j)).max(ahead(i) + any(j) + own(i))
        }
        Theory::Deficit => f64::from(TURN) + own(i) + own(j),
        Theory::Unbounded(_) => return None,
    })
}

fn fairness_page(rows: &[Fairness]) -> String {
    let mut page = format!(
        "# How fair each discipline is\n\n\
         Fairness is the largest difference between two streams' service per unit of weight, over \
         any time in which both are backlogged: |W_i/φ_i − W_j/φ_j|. A fluid link has 0. It is \
         measured on {SEEDS} random sets of 2 to 7 backlogged streams with weights 1, 2, 4 and 8 \
         and packets up to 64, 600 or {LARGEST} bytes. Some streams start when a third of the \
         packets is sent. Numbers are bytes per unit of weight. DRR's quantum is {TURN} bytes for \
         weight 1. `make figures` writes this page.\n\n\
         | discipline | worst measured | bound | worst / bound |\n|---|---:|---|---:|\n"
    );
    for row in rows {
        let theory = match row.theory {
            Theory::SelfClocked => "L_i/φ_i + L_j/φ_j",
            Theory::WorstCaseFair => "(L_i + L_max)/φ_i + (L_j + L_max)/φ_j",
            Theory::Fluid => "C_j + L_max/φ_i + L_j/φ_j, or with i and j exchanged",
            Theory::Deficit => "q + L_i/φ_i + L_j/φ_j",
            Theory::Unbounded(why) => why,
        };
        let of_bound = row.of_bound.map_or("–".into(), |share| format!("{:.0} %", share * 100.0));
        let _ =
            writeln!(page, "| `{}` | {:.0} | {theory} | {of_bound} |", row.discipline, row.worst);
    }
    page + "\nL_max is the largest packet of all streams, \
            C_i = min((n − 1)·L_max/φ_i, max L_n/φ_n), q DRR's quantum for weight 1. \
            Sources: Golestani 1994 (SCFQ); Goyal, Vin and Cheng 1996 (SFQ); Stiliadis and \
            Varma 1998 (WFQ); Shreedhar and Varghese 1995 (DRR); Bennett and Zhang 1996 \
            (WF²Q, from its distance to the fluid).\n"
}
