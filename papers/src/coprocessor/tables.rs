//! The paper's Tables 1 to 3 on this machine, written to `measured/scheduler.csv`.
//!
//! They are the scheduler's cost by arithmetic, caches and location of descriptors.
//!
//! As in the paper, all 151 frames are in the circular buffers before the clock starts. Each is
//! then scheduled and sent; for comparison each is also sent without a scheduler.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use millstream::{
    Contract, Discipline, DualHeap, Dwcs, EdfFirst, Packet, Scheduler, Structure, Window,
};

use super::elapsed_ns;
use super::floating::{Floating, Hardware, Software};

/// The number of frames of a run: the total of Table 1 divided by its average.
const FRAMES: usize = 151;

/// Bytes of a frame.
const FRAME_BYTES: usize = 1_000;

/// The number of rounds with warm and with cold caches. A round has one run of every variant.
const ROUNDS: [usize; 2] = [51, 7];

/// Memory that is written to evict the caches, bytes; larger than any cache.
const EVICTED_BYTES: usize = 96 << 20;

/// The number of the i960's memory-mapped registers.
const REGISTERS: usize = 1_004;

/// The location of the frames' descriptors; a descriptor is the number of a frame.
enum Descriptors {
    Memory(Vec<u32>),
    /// Words loaded one by one, every time.
    Registers(Box<[AtomicU32; REGISTERS]>),
}

impl Descriptors {
    fn get(&self, at: usize) -> usize {
        match self {
            Self::Memory(all) => all[at] as usize,
            Self::Registers(all) => all[at % REGISTERS].load(Ordering::SeqCst) as usize,
        }
    }
}

/// The measuring equipment.
struct Bench {
    frames: Vec<[u8; FRAME_BYTES]>,
    socket: UdpSocket,
    evicted: Vec<u8>,
    /// A socket that is never read; sending to it when full costs no more.
    _sink: UdpSocket,
}

/// The parameters of a run.
#[derive(Clone, Copy)]
struct RunParameters<'a> {
    cold: bool,
    descriptors: &'a Descriptors,
    scheduled: bool,
    sent: bool,
}

/// Measures all rows and returns the CSV.
pub(super) fn scheduler() -> io::Result<String> {
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(sink.local_addr()?)?;
    let frames = vec![[7; FRAME_BYTES]; FRAMES];
    let mut bench = Bench { frames, socket, evicted: vec![1; EVICTED_BYTES], _sink: sink };
    let numbers = || (0u32..).take(FRAMES);
    let memory = Descriptors::Memory(numbers().collect());
    let registers: Box<[AtomicU32; REGISTERS]> = Box::new([const { AtomicU32::new(0) }; REGISTERS]);
    for (register, number) in registers.iter().zip(numbers()) {
        register.store(number, Ordering::SeqCst);
    }
    let registers = Descriptors::Registers(registers);
    let mut text =
        "arithmetic,caches,descriptors,round,with_scheduler_ns,without_scheduler_ns,decision_ns\n"
            .to_owned();
    for (cold, caches) in [(true, "cold"), (false, "warm")] {
        for (place, descriptors) in [("memory", &memory), ("registers", &registers)] {
            bench.rows(&mut text, caches, place, cold, descriptors);
        }
    }
    Ok(text)
}

impl Bench {
    /// Appends a row for each arithmetic and round.
    fn rows(&mut self, text: &mut String, caches: &str, place: &str, cold: bool, at: &Descriptors) {
        for round in 1..=ROUNDS[usize::from(cold)] {
            let mut row = |name: &str, totals: [u64; 3]| {
                #[allow(clippy::cast_precision_loss)]
                let [with, without, alone] = totals.map(|total| total as f64 / FRAMES as f64);
                let _ = writeln!(
                    text,
                    "{name},{caches},{place},{round},{with:.1},{without:.1},{alone:.1}"
                );
            };
            row("fixed", self.totals(Dwcs::<EdfFirst>::default, cold, at));
            row("floating", self.totals(Floating::<Hardware>::default, cold, at));
            row("software-floating", self.totals(Floating::<Software>::default, cold, at));
        }
    }

    /// Returns the times of all frames, ns: with the scheduler, without, decisions alone.
    fn totals<D: Discipline>(&mut self, by: fn() -> D, cold: bool, at: &Descriptors) -> [u64; 3]
    where
        DualHeap<D::Rank>: Structure<D::Rank>,
    {
        let parameters = RunParameters { cold, descriptors: at, scheduled: true, sent: true };
        let variants = [
            parameters,
            RunParameters { scheduled: false, ..parameters },
            RunParameters { sent: false, ..parameters },
        ];
        variants.map(|parameters| self.run(by(), parameters))
    }

    /// Returns the time of one run, ns, without the time of evicting the caches.
    fn run<D: Discipline>(&mut self, discipline: D, parameters: RunParameters<'_>) -> u64
    where
        DualHeap<D::Rank>: Structure<D::Rank>,
    {
        let mut scheduler = Scheduler::new(discipline, DualHeap::default());
        let streams = [(1, 2), (3, 4)].map(|(lost, of)| {
            let window = Window::new(lost, of).expect("a valid window");
            let contract = Contract::new().period_ns(1_000).expect("positive").window(window);
            scheduler.add_stream(contract).expect("a complete contract")
        });
        for frame in 0..FRAMES {
            let packet = Packet::new(FRAME_BYTES.try_into().unwrap_or(u32::MAX));
            scheduler.enqueue(0, streams[frame % 2], packet).expect("an unbounded queue");
        }
        let mut total_ns = 0;
        let mut start = Instant::now();
        for frame in 0..FRAMES {
            if parameters.cold {
                self.evict_caches();
                start = Instant::now();
            }
            let number = if parameters.scheduled {
                let decided = scheduler.decide(500 * frame as u64, &mut ());
                let departure = decided.expect("frames wait");
                // The streams' frames alternate.
                2 * usize::try_from(departure.packet).unwrap_or(0) + departure.stream.index()
            } else {
                frame
            };
            if parameters.sent || !parameters.scheduled {
                let at = parameters.descriptors.get(number.min(FRAMES - 1));
                // The sink is mostly full; a datagram socket then drops without an error.
                let _ = self.socket.send(&self.frames[at]);
            } else {
                black_box(parameters.descriptors.get(number.min(FRAMES - 1)));
            }
            if parameters.cold {
                total_ns += elapsed_ns(start);
            }
        }
        if parameters.cold { total_ns } else { elapsed_ns(start) }
    }

    fn evict_caches(&mut self) {
        for line in self.evicted.chunks_exact_mut(64) {
            line[0] = line[0].wrapping_add(1);
        }
        black_box(&mut self.evicted);
    }
}
