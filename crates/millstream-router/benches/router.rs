//! Forwarding from memory to memory on one core, with 60-byte frames (64 with FCS). Measures the IP
//! fast path with 1, 3 and 64 paths and batches of 32 and 1, and the same work without scheduling.
//!
//! Each number is the median of seven runs of 0.2 s, the variants in turn, in Mpps. The last column
//! is the cost of measuring sojourn times: the median difference of successive runs with and
//! without, ns a packet. Run `cargo bench -p millstream-router`. With `-- PATHS BATCH PACKETS` it
//! routes that many packets once, for profilers and instruction counters.

use millstream::catalogue::{DisciplineRow, Options};
use millstream::{Contract, Link};
use millstream_router::live::{
    Classifier, Clock, Forwarder, Header, LiveMachine, MemoryPort, NextHop, Pool, Port, Routes,
};
use millstream_router::{
    Batch, InputId, InputPlan, Machine, OutputId, OutputPlan, PathId, PathPlan, Plan, PortId,
    Process, Router, Stages, WhenFull,
};
use millstream_scenario::{Match, RouterScenario};
use std::path::Path;

const RUN_NS: u64 = 200_000_000;
const RUNS: usize = 7;
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Returns a UDP packet of 60 bytes to port `port` with a right header checksum.
fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&ROUTER);
    frame[12..14].copy_from_slice(&[8, 0]);
    let ip = &mut frame[14..34];
    ip.copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
    let words = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).expect("the sum has 16 bits");
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

fn function() -> Forwarder {
    let mut routes = Routes::default();
    let hop = NextHop { output: PortId(1), from: ROUTER, to: [2; 6] };
    routes.add("10.2.0.0/16".parse().expect("a prefix"), hop);
    Forwarder::new(routes)
}

/// Returns a scenario of `paths` paths without flows. The machine measures their sojourn times.
fn scenario(paths: u16) -> RouterScenario {
    let mut text = "[router]\n[[port]]\nname = 'a'\nkind = 'tap'\nrate = '1 Gbit/s'\n".to_owned();
    text += "address = '10.1.0.1/24'\n";
    for path in 0..paths {
        text += &format!("[[path]]\nname = 'p{path}'\nqueue = 256\n");
    }
    RouterScenario::parse("bench", &text, Path::new("")).expect("a scenario")
}

fn classifier(paths: u16) -> Classifier {
    let rule = |port| Match { destination_port: Some(port), ..Match::default() };
    Classifier::new((0..paths).map(rule).collect())
}

/// Receives, classifies, forwards and transmits the same packets in a plain loop; returns Mpps.
fn bare(paths: u16, batch: usize) -> f64 {
    let (clock, mut pool) = (Clock::default(), Pool::new(4_096));
    let (classifier, mut function) = (classifier(paths), function());
    let mut input = MemoryPort::new((0..paths).map(frame).collect(), u64::MAX);
    let mut output = MemoryPort::default();
    let mut packets = Vec::new();
    while clock.now_ns() < RUN_NS {
        for _ in 0..16 {
            let _ = input.receive(&mut pool, batch, &mut packets);
            for packet in &packets {
                let frame = pool.frame(*packet);
                let header = Header::parse(frame).expect("IPv4");
                std::hint::black_box(classifier.path(PortId(0), &header, frame));
                function.forward(pool.frame_mut(*packet));
            }
            let _ = output.transmit(&mut pool, &packets);
            packets.clear();
        }
    }
    mpps(output.transmitted(), clock.now_ns())
}

/// Routes packets until `over` accepts the packets sent and the elapsed time, ns; returns Mpps.
/// Measures their sojourn times, as a live router does, if `measures`.
fn routed(paths: u16, batch: u32, measures: bool, over: impl Fn(u64, u64) -> bool) -> f64 {
    let clock = Clock::default();
    let pool = Pool::new(65_536);
    let mut machine = LiveMachine::new(clock, pool, classifier(paths), function());
    let frames = (0..paths).map(frame).collect();
    machine.add(MemoryPort::new(frames, u64::MAX), ROUTER, Link::new(1 << 46, 0));
    machine.add(MemoryPort::default(), ROUTER, Link::new(1 << 46, 0));
    if measures {
        machine.set_paths(&scenario(paths), &[]);
    }
    let fair = DisciplineRow::parse("wf2q+").expect("in the catalogue");
    let link = Link::new(1 << 46, 0);
    let options = Options { link, ..Options::default() };
    let structure = fair.auto_structure(&options, paths.into());
    // The functions reserve as much as input and output together: 1, 2 or 3 parts in turn.
    let reservation = |path: u16| u32::from(path % 3 + 1) * (1_000_000 / u32::from(paths));
    let output = || OutputPlan {
        reservation: 1_000_000,
        throttle: None,
        discipline: fair,
        options: options.clone(),
        structure,
        is_ingress: false,
    };
    let input = InputPlan { reservation: 1_000_000, throttle: None, when_full: WhenFull::Wait };
    let idle = InputPlan { reservation: 1, ..input };
    let plan = Plan {
        stages: Stages::Three,
        batch: Batch { packets: batch, time_ns: u64::MAX, batch_wait_ns: 50_000 },
        inputs: vec![input, idle],
        paths: (0..paths)
            .map(|path| PathPlan {
                reservation: reservation(path),
                drops: false,
                input_queue: 256,
                output_queue: 256,
                outputs: vec![(OutputId(1), Contract::new())],
            })
            .collect(),
        outputs: vec![output(), output()],
    };
    let mut router = Router::new(&plan, machine).expect("the contracts are complete");
    loop {
        for _ in 0..64 {
            router.step();
        }
        let sent = (0..paths).map(|path| router.path(PathId(path.into())).sent).sum();
        let elapsed_ns = router.machine_mut().now_ns();
        if over(sent, elapsed_ns) {
            if numbers().is_some() {
                print_processes(&router, elapsed_ns);
            }
            return mpps(sent, elapsed_ns);
        }
    }
}

/// Prints packets per run and ns per packet of each process.
#[allow(clippy::cast_precision_loss)]
fn print_processes(router: &Router<LiveMachine<MemoryPort>>, elapsed_ns: u64) {
    let (inputs, paths, outputs) = router.sizes();
    let processes = (0..inputs).map(|at| Process::Input(InputId(at)));
    let processes = processes.chain((0..paths).map(|at| Process::Forward(PathId(at))));
    for process in processes.chain((0..outputs).map(|at| Process::Output(OutputId(at)))) {
        let used = router.used(process);
        if used.packets > 0 {
            println!(
                "{process:?}: {:.1} packets a run, {:.1} ns a packet, {:.1} % of the time",
                used.packets as f64 / used.runs as f64,
                used.busy_ns as f64 / used.packets as f64,
                used.busy_ns as f64 * 100.0 / elapsed_ns as f64
            );
        }
    }
}

/// Returns paths, batch and packets from the command line.
fn numbers() -> Option<[u64; 3]> {
    let numbers = std::env::args().filter_map(|text| text.parse().ok());
    numbers.collect::<Vec<u64>>().try_into().ok()
}

#[allow(clippy::cast_precision_loss)]
fn mpps(packets: u64, elapsed_ns: u64) -> f64 {
    packets as f64 * 1e3 / elapsed_ns as f64
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    if let Some([paths, batch, packets]) = numbers() {
        let paths = u16::try_from(paths).expect("a number of paths");
        let batch = u32::try_from(batch).expect("a batch");
        println!("{:.1} Mpps", routed(paths, batch, true, |sent, _| sent >= packets));
        return;
    }
    println!("router: memory to memory, 60-byte frames, one core, Mpps");
    println!(
        "{:>5} {:>5} {:>8} {:>8} {:>10} {:>13}",
        "paths", "batch", "bare", "routed", "unmeasured", "measuring, ns"
    );
    let over = |_, elapsed_ns| elapsed_ns >= RUN_NS;
    for (paths, batch) in [(1, 32), (1, 1), (3, 32), (3, 1), (64, 32)] {
        let mut results = [const { Vec::new() }; 4];
        for _ in 0..RUNS {
            let measured = routed(paths, batch, true, over);
            let unmeasured = routed(paths, batch, false, over);
            let difference_ns = 1e3 / measured - 1e3 / unmeasured;
            let run = [bare(paths, batch as usize), measured, unmeasured, difference_ns];
            results.iter_mut().zip(run).for_each(|(of, result)| of.push(result));
        }
        let [bare, measured, unmeasured, difference_ns] = results.map(median);
        println!(
            "{paths:5} {batch:5} {bare:8.1} {measured:8.1} {unmeasured:10.1} {difference_ns:13.1}"
        );
    }
}
