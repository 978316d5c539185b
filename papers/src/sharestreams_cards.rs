//! ShareStreams, section 5.2, on the cards: Figures 12 and 13 on the end-system card, Figure 14 on
//! the line card.
//!
//! Figures 12 and 13 are judged on the reference model with several seeds ([`delays`]). The cards
//! need Verilator: `--cards` measures one seed into `sharestreams/hardware/*.csv`, which
//! scripts/rtl-cards.sh verifies, and the page compares both.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use miette::{IntoDiagnostic, miette};
use millstream::{Departure, Event, StreamId};
use millstream_hw::end_system::scenario::{Frame, run, settings};
use millstream_hw::end_system::{Bus, Cost, Listener};
use millstream_hw::{Load, SortingNetwork, line_card};
use millstream_report::chart::Line;
use millstream_scenario::{EndSystem, Link, Scenario, Source};
use millstream_traffic::Feed;

use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, HEAD, Test, rows};
use crate::experiment::{Page, figure};
use crate::sharestreams_delay::{
    BURST, Delays, FRAMES, Frames, STREAMS, Transferred, delays, generate,
};

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

/// A sent frame: departure and length.
#[derive(Clone, Copy)]
struct SentFrame {
    sent_ns: u64,
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
        self.frames[departure.stream.index()]
            .push(SentFrame { sent_ns: departure.time_ns, bytes: departure.bytes });
        Ok(())
    }
}

/// Runs both cards; writes the measurements, or reports differences.
pub(crate) fn measure(folder: &Path, check: bool) -> miette::Result<bool> {
    let scenario = Scenario::load(&folder.join("fig12-end-system.toml"))?;
    let card = scenario.end_system.clone();
    let card = card.ok_or_else(|| miette!("fig12-end-system.toml has no end-system"))?;
    let frames = generate(&scenario)?;
    let (sent, cost) = end_system(&scenario, &card, &mut Transferred::new(&frames))?;
    let mut costs = vec![("the paper's link", scenario.link.rate_bps, cost)];
    for bus in Bus::ALL {
        let fast = fast(&scenario);
        let card = EndSystem { bus: bus.name, ..card.clone() };
        let mut input = millstream_scenario::open(&fast, false).into_diagnostic()?;
        costs.push(("none", FAST_BPS, end_system(&fast, &card, input.feed.as_mut())?.1));
    }
    let texts =
        [bandwidth(&sent), delay(&sent, &frames), cost_table(&costs), line_card_shares(folder)?];
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

fn end_system(
    scenario: &Scenario,
    card: &EndSystem,
    feed: &mut dyn Feed,
) -> miette::Result<(Sent, Cost)> {
    let mut sent = Sent::default();
    let end = run(scenario, card, feed, &mut sent);
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
    let start_ns = sent.frames.iter().filter_map(|frames| frames.first()).map(|one| one.sent_ns);
    let start_ns = start_ns.min().unwrap_or(0);
    let end_ns = sent.frames.iter().filter_map(|frames| frames.last()).map(|last| last.sent_ns);
    let end_ns = end_ns.min().unwrap_or(0);
    let edge = |bin: u64| start_ns + (end_ns - start_ns) * bin / BINS as u64;
    let mut text = "time_ms,stream_1,stream_2,stream_3,stream_4\n".to_owned();
    for bin in 0..BINS as u64 {
        let [from, to] = [bin, bin + 1].map(edge);
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

/// Returns the delay of frames by number, from their generation: every 50th around the pause, every
/// 500th later.
#[allow(clippy::cast_precision_loss)]
fn delay(sent: &Sent, generated: &Frames) -> String {
    let mut text = "frame,stream_1,stream_2,stream_3,stream_4\n".to_owned();
    let near = (0..2 * BURST).step_by(50).chain([BURST - 1]);
    let mut numbers: Vec<usize> = near.chain((2 * BURST..FRAMES).step_by(500)).collect();
    numbers.push(FRAMES - 1);
    numbers.sort_unstable();
    for number in numbers {
        let _ = write!(text, "{number}");
        for (sent, generated) in sent.frames.iter().zip(generated) {
            let delay_ns = sent[number].sent_ns - generated[number].generated_ns;
            let _ = write!(text, ",{:.6}", delay_ns as f64 / 1e6);
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
    let model = delays(folder)?;
    let mut claims = vec![Claim::given(
        "Fig 12: rate of the end-system's link",
        "378.2 MB/s, the sum of its bandwidths",
        "378.2 MB/s",
        Given::Input,
    )];
    let mut files = Vec::new();
    let (time, rate) = (("time (ms)", false), ("MB/s", false));

    let title = "Fig 12: bandwidth 1:1:2:4, end-system card";
    let drawn = lines(&bandwidth, 1, |_, value| value);
    files.push(("fig12-end-system.svg".into(), figure(title, time, rate, &drawn)?));

    claims.extend(model.claims.iter().cloned());
    claims.push(card_order(&delay));
    let (frame, waits) = (("frame", false), ("queueing delay (ms)", false));
    let title = "Fig 13: queueing delay by frame, end-system card";
    let drawn = lines(&delay, 1, |_, value| value);
    files.push(("fig13.svg".into(), figure(title, frame, waits, &drawn)?));
    let near: Vec<_> = delay.iter().filter(|row| row[0] < 2.0 * BURST as f64).cloned().collect();
    let title = "Fig 13: the first 8,000 frames, a pause of 1 ms after 4,000";
    let drawn = lines(&near, 1, |_, value| value);
    files.push(("fig13-pause.svg".into(), figure(title, frame, waits, &drawn)?));
    let drawn = by_interval(&model);
    let title = "Fig 13: queueing delay of stream 4 by the producers' interval";
    files.push(("fig13-intervals.svg".into(), figure(title, frame, waits, &drawn)?));

    claims.extend(line_card_claims(&line_card));
    claims.extend(bus_claims(&cost));
    let title = "Fig 14: bandwidth 1:1:1:1 settling, line card";
    let axes = (("packet-times", true), ("packets per packet-time", false));
    let drawn = lines(&line_card, 2, |row, value| value / row[0]);
    files.push(("fig14-line-card.svg".into(), figure(title, axes.0, axes.1, &drawn)?));

    files.push(("cards.md".into(), text(&claims, &cost, &model, differences(&model, &delay))));
    Ok(Page { files, claims })
}

/// Returns the delays of stream 4 for some intervals of the producers.
#[allow(clippy::cast_precision_loss)]
fn by_interval(model: &Delays) -> Vec<Line> {
    let line = |interval_us: f64| {
        let delays = model.own.delays(STREAMS - 1, interval_us, model.pause_ms);
        let every = delays.iter().enumerate().step_by(250);
        let points = every.map(|(number, delay)| (number as f64, *delay)).collect();
        Line { name: format!("{interval_us} µs"), points }
    };
    [1.0, 4.0, 8.0].map(line).into()
}

/// Returns the largest difference between the card's delays and the reference model's, ms: over the
/// frames sent while all streams are backlogged, and over all.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn differences(model: &Delays, rows: &[Vec<f64>]) -> (f64, f64) {
    let until = model.own.backlogged();
    let (mut backlogged, mut all) = (0.0_f64, 0.0_f64);
    for (stream, until) in until.into_iter().enumerate() {
        let delays = model.own.delays(stream, model.interval_us, model.pause_ms);
        for row in rows {
            let number = row[0] as usize;
            let off = (row[1 + stream] - delays[number]).abs();
            all = all.max(off);
            if number < until {
                backlogged = backlogged.max(off);
            }
        }
    }
    (backlogged, all)
}

/// Tests the order of the streams' delays on the verilated card.
fn card_order(rows: &[Vec<f64>]) -> Claim {
    let ordered = rows.iter().filter(|row| row[4] < row[3] && row[3] < row[1].min(row[2])).count();
    let percent = 100.0 * ordered as f64 / rows.len().max(1) as f64;
    Test::new(
        "Fig 13: stream 4 waits least and stream 3 next, verilated card",
        "across all frames",
        "true of 100 % of the recorded frame numbers",
        Allowed::Equal(100.0),
    )
    .by(
        Evidence::Simulated,
        format!("{ordered} of {} frame numbers", rows.len()),
        Estimate::exact(percent),
        format!("{percent:.2} %; exact, one deterministic run"),
    )
}

/// The paper's cycles of a decision with four streams.
const DECISION_CYCLES: f64 = 3.0;

fn decision_cycles(what: &str, ours: f64, effect: &str) -> Claim {
    Test::new(what, "every 3 cycles", "3 cycles, exactly", Allowed::Equal(DECISION_CYCLES)).by(
        Evidence::Simulated,
        format!("every {ours} cycles"),
        Estimate::exact(ours),
        format!("{:+.0} %; exact{effect}", 100.0 * (ours / DECISION_CYCLES - 1.0)),
    )
}

fn line_card_claims(rows: &[Vec<f64>]) -> Vec<Claim> {
    let none = vec![0.0; 6];
    let last = rows.last().unwrap_or(&none);
    let counts: Vec<String> = last[2..].iter().map(|count| format!("{count}")).collect();
    // The first packet takes longer.
    let first = rows.first().unwrap_or(&none);
    let cycles = (last[1] - first[1]) / (last[0] - first[0]).max(1.0);
    let off = last[2..].iter().map(|count| (count - last[0] / 4.0).abs()).fold(0.0, f64::max);
    let beats = (LINE_CARD_BYTES / line_card::BEAT_BYTES) as f64;
    let streams = u32::try_from(STREAMS).expect("four streams");
    let core = SortingNetwork::Published.passes(streams) + 1;
    vec![
        Test::new(
            "Fig 14: packets of 64,000 on the line card",
            "1 : 1 : 1 : 1",
            "0 packets from 1 : 1 : 1 : 1",
            Allowed::AtMost(0.0),
        )
        .by(
            Evidence::Simulated,
            counts.join(" : "),
            Estimate::exact(off),
            format!("{off} packets off at most; exact, one deterministic run"),
        ),
        decision_cycles("Fig 14: a winner of the core, 4 streams", f64::from(core), ""),
        Test::new(
            "Fig 14: packets of the line card, 64 bytes back to back",
            "a winner in each packet-time",
            format!("at most {beats} cycles, the packet-time of 64 bytes"),
            Allowed::AtMost(beats),
        )
        .by(
            Evidence::Simulated,
            format!("every {cycles} cycles"),
            Estimate::exact(cycles),
            format!("{:+.1} %; exact", 100.0 * (cycles / beats - 1.0)),
        ),
    ]
}

/// Returns the claims about the limits of the end-system card and of its bus.
fn bus_claims(costs: &[Vec<f64>]) -> Vec<Claim> {
    let none = vec![0.0; 14];
    let first = costs.first().unwrap_or(&none);
    // Bytes of the arrival times by the time of the bus; the card takes one arrival a cycle.
    let bus = 2.0 * first[3] * 1e3 / first[7].max(1.0);
    let card = 2.0 * first[2] / 1e6;
    let rate = bus.min(card);
    vec![
        decision_cycles(
            "Sec 5.2: a winner of the end-system card",
            first[5],
            "; SRAM refills the front of the served stream",
        ),
        Claim::given(
            "Sec 5.2: bus of the end-system card",
            "PCI, 33 MHz, 32 bits: 133 MB/s",
            "a model: 30 ns a word, 17 clocks before a read's data",
            Given::Input,
        ),
        Test::new(
            "Sec 5.2: transfer of arrival times",
            "over 60 MB/s",
            "more than 60 MB/s",
            Allowed::Above(60.0),
        )
        .by(
            Evidence::Simulated,
            format!("{rate:.1} MB/s: the bus moves {bus:.1}, the card takes {card:.1}"),
            Estimate::exact(rate),
            format!("{:+.0} %; exact", 100.0 * (rate / 60.0 - 1.0)),
        ),
    ]
}

fn text(
    claims: &[Claim],
    costs: &[Vec<f64>],
    model: &Delays,
    differences_ms: (f64, f64),
) -> String {
    let mut text = String::from(
        "# ShareStreams: the experiments on the cards\n\n\
         Krishnamurthy, Yalamanchili, Schwan, West: *ShareStreams: A Scalable Architecture and \
         Hardware Support for High-Speed QoS Packet Schedulers*, section 5.2. The cards of \
         `rtl/cards`, verilated: the end-system card in its host (`fig12-end-system.toml`, for \
         `millstream run`) and the line card with the contracts of `fig14.toml`. \
         `millstream-papers --cards` measures into `hardware/`, which `scripts/rtl-cards.sh` \
         verifies; `make figures PAPER=sharestreams` writes this page and its figures from it.\n\n\
         Figures 12 and 13 are judged on the reference model of the card, with ten seeds of the \
         frames' lengths. The verilated card runs the scenario's own seed. While all streams are \
         backlogged, its delays differ from the model's by at most ",
    );
    let (backlogged, all) = differences_ms;
    let _ = write!(
        text,
        "{backlogged:.2} ms. Later they differ by up to {all:.0} ms: streams of equal rank are \
         served by arrival time, and the card raises arrival times that are older than 2^13 \
         packet-times, because it has 16 bits. The model keeps all bits.\n\n"
    );
    text += HEAD;
    text += &rows(claims, "");
    text.push_str(
        "\n## Figure 13 and the producers\n\n\
             The order is the paper's. Four producers generate 64,000 frames each and stamp them. \
             Then all arrival times are transferred, at the paper's 60 MB/s. Then the frames are \
             played out. A frame's delay runs from its stamp to the start of its transmission. \
             On the verilated card all frames are offered when the transfer ends.\n\n\
             The paper does not give the producers' rate, the distribution of lengths, or the \
             figure's values in its text; its pause is 1 ms in one sentence and \"multi-ms\" in \
             another. We chose a frame each microsecond from each producer, uniform lengths and a \
             pause of 1 ms. The order of service does not depend on the producers' rate, but the \
             delays do. It depends on the arrival times: if all are equal, streams 4, 3 and the \
             others are in the paper's order for only ",
    );
    let _ = write!(text, "{:.0} % of the frame numbers", model.unstamped);
    text.push_str(" (model). Mean delay of the first 4,000 frames / of the others, ms:\n\n");
    text += &model.table;
    text += "\n*Break-even* is the interval from which the first 4,000 frames wait longer on \
             average. With our invented interval of 1 µs they wait much less: the producers are \
             faster than the play-out, so each frame waits longer than the one before it. With \
             producers slower than the break-even the paper's statement holds. The statement \
             therefore follows from a rate that the paper does not give. An earlier version of \
             this page reported the fall of the delay at the pause as the paper's statement; the \
             fall is the pause, an input.\n\n\
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
    text += "\nThe paper gives no packets a second with and without the transfers. Here PCI does \
             not slow the card at 23 MHz if winners are read in bursts and arrivals are pulled. \
             Its cost is latency: a read of 16 winners takes a microsecond. The transfer of \
             arrival times is slower than the paper's: the card takes one a cycle.\n\n\
             ![Figure 12: bandwidth while all streams are backlogged](fig12-end-system.svg)\n\n\
             ![Figure 13: queueing delay of every frame](fig13.svg)\n\n\
             ![Figure 13: around the pause](fig13-pause.svg)\n\n\
             ![Figure 13: stream 4 by the producers' interval](fig13-intervals.svg)\n\n\
             ![Figure 14: bandwidth from time zero, settling](fig14-line-card.svg)\n";
    text
}
