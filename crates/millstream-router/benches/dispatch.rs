//! Cost of the router's scheduling alone, in batches of 32 on one core. A packet is a number
//! without a buffer: nothing is read, classified, changed or written.
//!
//! *One stage*: each path is one process from its source to the port. *Three stages*: input, one
//! process per path, output, with queues between them and a link scheduled by WF²Q+. Processes
//! share the CPU by measured time, with reservations of 1, 2 and 3 parts in turn. *Error* is the
//! largest deviation of a busy process's share from its reservation, in percent of it.
//!
//! Each number is the median of seven runs of 0.2 s in Mpps, each error the largest of the seven.
//! Run `cargo bench -p millstream-router --bench dispatch`.

use millstream::catalogue::{DisciplineRow, Options};
use millstream::{Contract, Link};
use millstream_router::live::{Clock, CpuTimeSample};
use millstream_router::{
    Accounting, Batch, Deferral, Flows, InputId, InputPlan, Machine, MultiCore, OutputId,
    OutputPlan, PacedLinks, PacketHandle, PathId, PathPlan, Plan, Process, Router, Stages, Verdict,
    WhenFull,
};

const RUN_NS: u64 = 200_000_000;
const RUNS: usize = 7;
const BATCH: u32 = 32;

/// Sources that always have packets, functions that do nothing, ports that accept everything.
struct NullMachine {
    clock: Clock,
    /// CPU time sample of the last long run.
    worked: CpuTimeSample,
    paths: usize,
    /// Each source feeds one path; otherwise one source feeds all paths in turn.
    own_source: bool,
    next: u64,
    /// The path whose packet is next.
    turn: usize,
}

impl Machine for NullMachine {
    const FREE_CLOCK: bool = false;

    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn receive(
        &mut self,
        input: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize {
        let mut turn = if self.own_source { input.0 } else { self.turn };
        into.extend((self.next..).take(most).map(|packet| {
            let path = turn;
            if !self.own_source {
                turn = if turn + 1 == self.paths { 0 } else { turn + 1 };
            }
            (PathId(path), PacketHandle::from_bits(packet))
        }));
        self.turn = turn;
        self.next += most as u64;
        most
    }

    fn forward(&mut self, _path: PathId, _packet: &mut PacketHandle) -> Verdict {
        Verdict::Send(OutputId(0))
    }

    fn bytes(&self, _packet: PacketHandle) -> u32 {
        60
    }

    fn room(&mut self, _output: OutputId, _now_ns: u64) -> usize {
        usize::MAX
    }

    fn room_at_ns(&mut self, _output: OutputId, now_ns: u64) -> u64 {
        now_ns
    }

    fn transmit(&mut self, _output: OutputId, packets: &[PacketHandle]) -> usize {
        std::hint::black_box(packets).len()
    }

    fn discard(&mut self, _packet: PacketHandle) {}
}

impl Accounting for NullMachine {
    fn steal_ns(&mut self, took_ns: u64) -> u64 {
        self.worked.take_steal_ns(&self.clock, self.clock.now_ns(), took_ns)
    }
}

impl Deferral for NullMachine {}

impl PacedLinks for NullMachine {}

impl MultiCore for NullMachine {}

impl Flows for NullMachine {}

/// Returns Mpps with `paths` paths, and the error, percent.
#[allow(clippy::cast_precision_loss)]
fn run(stages: Stages, paths: u32) -> (f64, f64) {
    let own_source = stages == Stages::One;
    let (clock, many) = (Clock::default(), paths as usize);
    let worked = CpuTimeSample::capture(&clock);
    let machine = NullMachine { clock, worked, paths: many, own_source, next: 0, turn: 0 };
    let parts = |number: u32| number % 3 + 1;
    let input = |reservation| InputPlan { reservation, throttle: None, when_full: WhenFull::Wait };
    let inputs = if own_source {
        (0..paths).map(|path| input(parts(path) * 1_000)).collect()
    } else {
        vec![input(1_000_000)]
    };
    let fair = DisciplineRow::parse("wf2q+").expect("in the catalogue");
    let options = Options { link: Link::new(1 << 46, 0), ..Options::default() };
    let plan = Plan {
        stages,
        batch: Batch { packets: BATCH, time_ns: u64::MAX, batch_wait_ns: 50_000 },
        inputs,
        paths: (0..paths)
            .map(|path| PathPlan {
                reservation: parts(path) * 1_000_000 / paths,
                drops: false,
                input_queue: 256,
                output_queue: 256,
                outputs: vec![(OutputId(0), Contract::new())],
            })
            .collect(),
        outputs: vec![OutputPlan {
            reservation: 1_000_000,
            throttle: None,
            discipline: fair,
            structure: fair.auto_structure(&options, paths as usize),
            options,
            is_ingress: false,
        }],
    };
    let mut router = Router::new(&plan, machine).expect("the contracts are complete");
    let elapsed_ns = loop {
        for _ in 0..256 {
            router.step();
        }
        let elapsed_ns = router.machine_mut().now_ns();
        if elapsed_ns >= RUN_NS {
            break elapsed_ns;
        }
    };
    let sent: u64 = (0..many).map(|path| router.path(PathId(path)).sent).sum();
    let mut error = 0.0f64;
    if own_source {
        let used = |input: u32| router.used(Process::Input(InputId(input as usize))).busy_ns as f64;
        let (all, reserved) =
            ((0..paths).map(used).sum::<f64>(), (0..paths).map(parts).sum::<u32>());
        for path in 0..paths {
            let share = used(path) / all * f64::from(reserved) / f64::from(parts(path));
            error = error.max((share - 1.0).abs() * 100.0);
        }
    }
    (sent as f64 * 1e3 / elapsed_ns as f64, error)
}

fn main() {
    println!("router: untouched packets in batches of {BATCH}, one core");
    println!("{:>6} {:>5} {:>8} {:>9}", "stages", "paths", "Mpps", "error, %");
    for (stages, paths) in [
        (Stages::One, 1),
        (Stages::One, 3),
        (Stages::One, 64),
        (Stages::Three, 1),
        (Stages::Three, 3),
        (Stages::Three, 64),
    ] {
        let mut results: Vec<_> = (0..RUNS).map(|_| run(stages, paths)).collect();
        results.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mpps, _) = results[RUNS / 2];
        let worst = results.iter().map(|(_, error)| *error).fold(0.0, f64::max);
        let error = if stages == Stages::One { format!("{worst:.2}") } else { "–".to_owned() };
        println!("{:>6} {paths:5} {mpps:8.1} {error:>9}", format!("{stages:?}"));
    }
}
