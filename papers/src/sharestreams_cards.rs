//! ShareStreams, section 5.2, on the cards: Figures 12 and 13 on the end-system card, Figure 14 on
//! the line card.
//!
//! The cards need Verilator. `--cards` therefore measures the runs into
//! `sharestreams/hardware/*.csv`, which scripts/rtl-cards.sh verifies, and the page is generated
//! from these files.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use miette::{IntoDiagnostic, miette};
use millstream::{Departure, Event, StreamId};
use millstream_hw::end_system::scenario::{Frame, run, settings};
use millstream_hw::end_system::{Bus, Cost, Listener};
use millstream_hw::{Load, line_card};
use millstream_report::chart::Line;
use millstream_scenario::{EndSystem, Link, Scenario, Source};

use crate::claim::{Claim, Evidence, HEAD, rows};
use crate::experiment::{Page, figure};

/// Streams of every experiment.
const STREAMS: usize = 4;

/// Number of frames of a stream.
const FRAMES: usize = 64_000;

/// Number of frames before the generators' pause.
const BURST: usize = 4_000;

/// Number of bins of the bandwidth, while all streams are backlogged.
const BINS: usize = 60;

/// Bytes of a packet on the line card: eight beats.
const LINE_CARD_BYTES: usize = 64;

/// Rate of a link that never delays, bits/s, to measure card and bus alone.
const FAST_BPS: u64 = 10_000_000_000_000;

/// Number of frames of a stream on that link.
const FAST_FRAMES: u64 = 10_000;

/// File names of the measurements.
const FILES: [&str; 4] =
    ["end-system-bandwidth.csv", "end-system-delay.csv", "end-system-cost.csv", "line-card.csv"];

/// A sent frame: departure, arrival and length.
#[derive(Clone, Copy)]
struct SentFrame {
    sent_ns: u64,
    arrival_ns: u64,
    bytes: u32,
}

#[derive(Default)]
struct Sent {
    frames: [Vec<SentFrame>; STREAMS],
    /// The first dropped frame, if any.
    dropped: Option<StreamId>,
}

impl Listener<Frame> for Sent {
    fn departed(&mut self, departure: &Departure, _: Frame) -> io::Result<()> {
        if departure.event != Event::Sent {
            self.dropped = Some(departure.stream);
        }
        self.frames[departure.stream.index()].push(SentFrame {
            sent_ns: departure.time_ns,
            arrival_ns: departure.arrival_ns,
            bytes: departure.bytes,
        });
        Ok(())
    }
}

/// Runs both cards; writes the measurements, or reports differences.
pub(crate) fn measure(folder: &Path, check: bool) -> miette::Result<bool> {
    let scenario = Scenario::load(&folder.join("fig12-end-system.toml"))?;
    let card = scenario.end_system.clone();
    let card = card.ok_or_else(|| miette!("fig12-end-system.toml has no end-system"))?;
    let (sent, cost) = end_system(&scenario, &card)?;
    let mut costs = vec![("the paper's link", scenario.link.rate_bps, cost)];
    for bus in Bus::ALL {
        let fast = fast(&scenario);
        let card = EndSystem { bus: bus.name, ..card.clone() };
        costs.push(("none", FAST_BPS, end_system(&fast, &card)?.1));
    }
    let texts = [bandwidth(&sent), delay(&sent), cost_table(&costs), line_card_shares(folder)?];
    let mut same = true;
    for (name, text) in FILES.into_iter().zip(texts) {
        let path = folder.join("hardware").join(name);
        if !check {
            fs::write(&path, text).into_diagnostic()?;
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            println!("out of date, run millstream-papers --cards: {name}");
            same = false;
        }
    }
    Ok(same)
}

fn end_system(scenario: &Scenario, card: &EndSystem) -> miette::Result<(Sent, Cost)> {
    let mut sent = Sent::default();
    let mut input = millstream_scenario::open(scenario, false).into_diagnostic()?;
    let end = run(scenario, card, input.feed.as_mut(), &mut sent);
    let end = end.map_err(|error| miette!("{error}"))?;
    match sent.dropped {
        Some(stream) => Err(miette!("a frame of stream {} was dropped", stream.0)),
        None => Ok((sent, end.cost)),
    }
}

/// Returns the scenario with fewer frames, all present at the start, and no delay after the card.
fn fast(scenario: &Scenario) -> Scenario {
    let mut fast = scenario.clone();
    fast.link = Link { rate_bps: FAST_BPS, ..scenario.link };
    for stream in &mut fast.streams {
        stream.source = Source::Backlog { packets: FAST_FRAMES, bytes: 64, start_ns: 0 };
    }
    fast
}

/// Returns the bytes per second of each stream until the first has sent all its frames.
#[allow(clippy::cast_precision_loss)]
fn bandwidth(sent: &Sent) -> String {
    let end_ns = sent.frames.iter().filter_map(|frames| frames.last()).map(|last| last.sent_ns);
    let end_ns = end_ns.min().unwrap_or(0);
    let mut text = "time_ms,stream_1,stream_2,stream_3,stream_4\n".to_owned();
    for bin in 0..BINS as u64 {
        let [from, to] = [bin, bin + 1].map(|bin| end_ns * bin / BINS as u64);
        let _ = write!(text, "{:.3}", (from + to) as f64 / 2e6);
        for frames in &sent.frames {
            let inside = frames.iter().filter(|frame| (from..to).contains(&frame.sent_ns));
            let bytes: u64 = inside.map(|frame| u64::from(frame.bytes)).sum();
            let _ = write!(text, ",{:.3}", bytes as f64 * 1e3 / (to - from) as f64);
        }
        text.push('\n');
    }
    text
}

/// Returns the delay of frames by number: every 50th around the pause, every 500th later.
#[allow(clippy::cast_precision_loss)]
fn delay(sent: &Sent) -> String {
    let mut text = "frame,stream_1,stream_2,stream_3,stream_4\n".to_owned();
    let near = (0..2 * BURST).step_by(50).chain([BURST - 1]);
    let mut numbers: Vec<usize> = near.chain((2 * BURST..FRAMES).step_by(500)).collect();
    numbers.push(FRAMES - 1);
    numbers.sort_unstable();
    for number in numbers {
        let _ = write!(text, "{number}");
        for frames in &sent.frames {
            let frame = frames[number];
            let _ = write!(text, ",{:.6}", (frame.sent_ns - frame.arrival_ns) as f64 / 1e6);
        }
        text.push('\n');
    }
    text
}

fn cost_table(costs: &[(&str, u64, Cost)]) -> String {
    let mut text = "bus,link_bps,clock_hz,packets,span_ns,decision_cycles,pulls,pulls_ns,writes,\
                    writes_ns,winners,winners_ns,counters,counters_ns\n"
        .to_owned();
    for (_, link_bps, cost) in costs {
        let _ = write!(
            text,
            "{},{link_bps},{},{},{},{}",
            cost.bus.name, cost.clock_hz, cost.packets, cost.span_ns, cost.decision_cycles
        );
        for kind in [cost.pulls, cost.writes, cost.winners, cost.counters] {
            let _ = write!(text, ",{},{}", kind.count, kind.busy_ns);
        }
        text.push('\n');
    }
    text
}

/// Returns each stream's departures from the line card after some numbers of packets, and the last
/// cycle.
fn line_card_shares(folder: &Path) -> miette::Result<String> {
    let scenario = Scenario::load(&folder.join("fig14.toml"))?;
    let (settings, contracts) = settings(&scenario);
    let load = |at: usize| {
        let window = contracts[at].terms().window;
        let byte = |value| u8::try_from(value).into_diagnostic();
        let (x, y) = (byte(window.lost())?, byte(window.of())?);
        // A period is one packet-time in the file, and a decision on the card.
        Ok::<_, miette::Report>(Load {
            deadline: 0,
            period: 1,
            priority: 0,
            weight: 1,
            x,
            y,
            drop: 0,
            first: 0,
        })
    };
    let loads = [load(0)?, load(1)?, load(2)?, load(3)?];
    let beats = LINE_CARD_BYTES / line_card::BEAT_BYTES;
    let departures = line_card::backlogged(settings, &loads, beats, FRAMES)
        .map_err(|error| miette!("{error}"))?;
    let mut text = "packets,cycle,stream_1,stream_2,stream_3,stream_4\n".to_owned();
    let mut counts = [0usize; STREAMS];
    let mut next = 1;
    for (packets, line_card::SentPacket { stream, cycle }) in (1..).zip(&departures) {
        counts[*stream] += 1;
        if packets == next || packets == departures.len() {
            // Steps of one percent: the axis is logarithmic.
            next = (next + next.div_ceil(50)).max(packets + 1);
            let counts = counts.map(|count| count.to_string()).join(",");
            let _ = writeln!(text, "{packets},{cycle},{counts}");
        }
    }
    Ok(text)
}

/// Reads a measured file; returns its rows as numbers, 0 for other cells.
fn read(folder: &Path, name: &str) -> miette::Result<Vec<Vec<f64>>> {
    let mut reader =
        csv::Reader::from_path(folder.join("hardware").join(name)).into_diagnostic()?;
    let numbers =
        |row: csv::StringRecord| row.iter().map(|cell| cell.parse().unwrap_or(0.0)).collect();
    reader.records().map(|row| row.map(numbers)).collect::<Result<_, _>>().into_diagnostic()
}

/// Returns one line per stream; the first stream's values are in `column`.
fn lines(rows: &[Vec<f64>], column: usize, y: impl Fn(&[f64], f64) -> f64) -> Vec<Line> {
    let points = |at: usize| rows.iter().map(|row| (row[0], y(row, row[column + at]))).collect();
    (0..STREAMS).map(|at| Line { name: format!("stream-{}", at + 1), points: points(at) }).collect()
}

/// Reads the measurements and writes the page.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let [bandwidth, delay, cost, line_card] = FILES.map(|name| read(folder, name));
    let (bandwidth, delay, cost, line_card) = (bandwidth?, delay?, cost?, line_card?);
    let mut claims = Vec::new();
    let mut files = Vec::new();
    let (time, rate) = (("time (ms)", false), ("MB/s", false));

    claims.extend(bandwidth_claims(&bandwidth));
    let title = "Fig 12: bandwidth 1:1:2:4, end-system card";
    let drawn = lines(&bandwidth, 1, |_, value| value);
    files.push(("fig12-end-system.svg".into(), figure(title, time, rate, &drawn)?));

    claims.extend(delay_claims(&delay));
    let (frame, waits) = (("frame", false), ("queueing delay (ms)", false));
    let title = "Fig 13: queueing delay by frame, end-system card";
    let drawn = lines(&delay, 1, |_, value| value);
    files.push(("fig13.svg".into(), figure(title, frame, waits, &drawn)?));
    let near: Vec<_> = delay.iter().filter(|row| row[0] < 2.0 * BURST as f64).cloned().collect();
    let title = "Fig 13: the first 8,000 frames, a pause of 1 ms after 4,000";
    let drawn = lines(&near, 1, |_, value| value);
    files.push(("fig13-pause.svg".into(), figure(title, frame, waits, &drawn)?));

    claims.extend(line_card_claims(&line_card));
    let title = "Fig 14: bandwidth 1:1:1:1 settling, line card";
    let axes = (("packet-times", true), ("packets per packet-time", false));
    let drawn = lines(&line_card, 2, |row, value| value / row[0]);
    files.push(("fig14-line-card.svg".into(), figure(title, axes.0, axes.1, &drawn)?));

    files.push(("cards.md".into(), text(&claims, &cost)));
    Ok(Page { files, claims })
}

fn bandwidth_claims(rows: &[Vec<f64>]) -> Vec<Claim> {
    let paper = [47.15, 47.15, 95.3, 188.6];
    // The steady state: all but the first bin.
    let settled = &rows[1.min(rows.len())..];
    let mean = |at: usize| {
        settled.iter().map(|row| row[1 + at]).sum::<f64>() / settled.len().max(1) as f64
    };
    let ours = [0, 1, 2, 3].map(mean);
    let text =
        |values: [f64; STREAMS]| values.map(|value| format!("{value:.2}")).join(" : ") + " MB/s";
    let near = |(ours, paper): (&f64, &f64)| (ours / paper - 1.0).abs() < 0.015;
    vec![Claim::exactly(
        "Fig 12: bandwidths, within 1.5 %",
        text(paper),
        text(ours),
        Evidence::Simulated,
        ours.iter().zip(&paper).all(near),
    )]
}

fn delay_claims(rows: &[Vec<f64>]) -> Vec<Claim> {
    let at = |frame: usize, stream: usize| {
        rows.iter().find(|row| row[0] == frame as f64).map_or(f64::NAN, |row| row[stream])
    };
    let drops = [1, 2, 3, 4].map(|stream| at(BURST - 1, stream) - at(BURST, stream));
    let list = |values: [f64; STREAMS]| values.map(|value| format!("{value:.2}")).join(", ");
    let last = [1, 2, 3, 4].map(|stream| at(FRAMES - 1, stream));
    let ordered = rows.iter().filter(|row| row[0] >= 1_000.0);
    let ordered = ordered.clone().all(|row| row[4] < row[3] && row[3] < row[1].min(row[2]));
    vec![
        Claim::exactly(
            "Fig 13: the zig-zag: the pause reduces the delay from frame 4,000 on, ms",
            "a pause of 1 ms; frames before it wait longer",
            format!("{} less", list(drops)),
            Evidence::Simulated,
            drops.iter().all(|drop| (drop - 1.0).abs() < 0.1),
        ),
        Claim::exactly(
            "Fig 13: stream 4 waits least, then stream 3, frame by frame",
            "for every frame",
            format!("from frame 1,000 on; the last frames wait {} ms", list(last)),
            Evidence::Simulated,
            ordered,
        ),
    ]
}

fn line_card_claims(rows: &[Vec<f64>]) -> Vec<Claim> {
    let none = vec![0.0; 6];
    let last = rows.last().unwrap_or(&none);
    let counts: Vec<String> = last[2..].iter().map(|count| format!("{count}")).collect();
    // The first packet takes longer.
    let first = rows.first().unwrap_or(&none);
    let cycles = (last[1] - first[1]) / (last[0] - first[0]).max(1.0);
    vec![
        Claim::exactly(
            "Fig 14: packets of 64,000 on the line card",
            "16000 : 16000 : 16000 : 16000",
            counts.join(" : "),
            Evidence::Simulated,
            last[2..].iter().all(|count| *count == 16_000.0),
        ),
        Claim::exactly(
            "Fig 14: a winner is ready for every packet-time",
            "every 3 cycles",
            format!("every {cycles} cycles, the transmission time of 64 bytes"),
            Evidence::Simulated,
            cycles == (LINE_CARD_BYTES / line_card::BEAT_BYTES) as f64,
        ),
    ]
}

fn text(claims: &[Claim], costs: &[Vec<f64>]) -> String {
    let mut text = String::from(
        "# ShareStreams: the experiments on the cards\n\n\
         Krishnamurthy, Yalamanchili, Schwan, West: *ShareStreams: A Scalable Architecture and \
         Hardware Support for High-Speed QoS Packet Schedulers*, section 5.2. The cards of \
         `rtl/cards`, verilated: the end-system card in its host (`fig12-end-system.toml`, for \
         `millstream run`) and the line card with the contracts of `fig14.toml`. \
         `millstream-papers --cards` measures into `hardware/`, which `scripts/rtl-cards.sh` \
         verifies; `make figures` writes this page and its figures from it.\n\n",
    );
    text += HEAD;
    text += &rows(claims, "");
    text += "\nFrames are 64 to 1,500 bytes, uniformly distributed. A generator makes one a \
             microsecond and pauses for 1 ms after 4,000. The paper gives neither this nor the \
             mean length of its frames. The link has the sum of the paper's bandwidths, which its \
             host limited. There all arrivals were on the card before the first winner was read; \
             here they arrive while it decides.\n\n\
             ## Cost of the bus\n\n\
             The card at 23 MHz, four streams. First on the link of Figure 12; then on a link that \
             never delays, with all frames present at the start: the limits of card and bus.\n\n\
             | link | bus | packets/s | bus busy, ns a packet | arrivals pulled \
             | pushed or offered | winners | counters | limit of the bus | limit of the card \
             |\n|---|---|---|---|---|---|---|---|---|---|\n";
    for (row, name) in costs.iter().zip([Bus::PCI_33].into_iter().chain(Bus::ALL)) {
        let (packets, span_ns) = (row[3], row[4]);
        let busy = [row[7], row[9], row[11], row[13]].map(|ns| ns / packets);
        let total: f64 = busy.iter().sum();
        let millions = |rate: f64| format!("{:.2} M/s", rate / 1e6);
        let link = if row[1] >= FAST_BPS as f64 { "none" } else { "378.2 MB/s" };
        let carries = if total > 0.0 { millions(1e9 / total) } else { "–".into() };
        let _ = writeln!(
            text,
            "| {link} | {} | {} | {total:.0} | {} | {carries} | {} |",
            name.name,
            millions(packets * 1e9 / span_ns),
            busy.map(|ns| format!("{ns:.1}")).join(" | "),
            millions(row[2] / row[5]),
        );
    }
    text += "\n| the paper says | here |\n|---|---|\n\
             | the streams together leave its host at 378.2 MB/s, without a network stack: 0.48 M \
             frames/s of 782 bytes, the mean of 64 to 1,500 | the card has the same load; the bus \
             is then busy for 6 % of the time |\n\
             | arrival times crossed PCI at over 60 MB/s, DMA at over 120 MB/s of 133 | bursts of \
             64 arrivals: 128 bytes in 1.47 µs, 87 MB/s; the card at 23 MHz takes one a cycle, \
             46 MB/s |\n\
             | a winner every 3 cycles, 7.67 M/s at 23 MHz | the core makes one in 3; the card \
             needs 5, in which SRAM refills the front of the served stream: 4.60 M/s |\n\n\
             The paper gives no packets a second with and without the transfers. Here PCI does not \
             slow the card at 23 MHz if winners are read in bursts and arrivals are pulled. Its \
             cost is latency: a read of 16 winners takes a microsecond.\n\n\
             ![Figure 12: bandwidth while all streams are backlogged](fig12-end-system.svg)\n\n\
             ![Figure 13: queueing delay of every frame](fig13.svg)\n\n\
             ![Figure 13: around the pause](fig13-pause.svg)\n\n\
             ![Figure 14: bandwidth from time zero, settling](fig14-line-card.svg)\n";
    text
}
