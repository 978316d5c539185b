//! The paper's Tables 4 and 5 on this machine, written to `measured/paths.csv`.
//!
//! Table 4 is the time of a frame's path from disk to client. Table 5 is the cost of memory that
//! another core has written.
//!
//! ```text
//! I    file, through the page cache ────── host ───────────────────────────> client
//! II   disk, direct I/O ────────────────── NI ─────────────────────────────> client
//! III  disk, direct I/O ─── producer ── shared memory, ring ── NI ─────────> client
//!
//! push          host ── shared memory ── NI's memory │ decision ── NI ─────> client
//! pull          host ── shared memory │ decision ── NI's memory ── NI ─────> client
//! ```
//! Push and pull (section 3.1.2) start at the scheduler's decision: the frame then is in the NI's
//! memory, or in memory that the host has written.
//!
//! Threads, each pinned to a core, replace the processors. The client is the measuring thread's own
//! socket, so no path includes a wake-up.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::hint::spin_loop;
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::elapsed_ns;

/// Length and number of the frames of Table 4.
const FRAME_BYTES: usize = 1_000;
const FRAMES: usize = 1_000;

/// Bytes of the file transferred in Table 5.
const FILE_BYTES: usize = 773_665;
const FILE_ROUNDS: usize = 101;

/// Reads and writes of single words.
const WORDS: usize = 10_001;

/// Block size of the disk, which aligns direct reads.
#[repr(align(4096))]
struct Block([u8; BLOCK]);
const BLOCK: usize = 4_096;

/// Returns the ranks, from 0, of the interval that covers the median of `count` values with a
/// probability of 95 % (normal approximation of the binomial distribution).
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn median_ranks(count: usize) -> [usize; 2] {
    let half = 0.98 * (count as f64).sqrt();
    let last = count - 1;
    let low = (count as f64 / 2.0 - half).max(0.0) as usize;
    [low, last - low]
}

/// Returns the CSV: quantity, median, 99th percentile and the median's interval of 95 %, ns.
pub(super) fn paths(film: &Path) -> io::Result<String> {
    let mut text = "what,median_ns,p99_ns,low_ns,high_ns\n".to_owned();
    let mut row = |what: &str, mut times: Vec<u64>| {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        let [low, high] = median_ranks(times.len()).map(|rank| times[rank]);
        let _ = writeln!(text, "{what},{},{},{low},{high}", at(50), at(99));
    };
    pin(0);
    let cached = File::open(film)?;
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(film)?;
    let blocks = cached.metadata()?.len() / BLOCK as u64;
    let place = |frame: usize| (frame as u64 * 7 % blocks) * BLOCK as u64;
    let client = UdpSocket::bind("127.0.0.1:0")?;
    let server = UdpSocket::bind("127.0.0.1:0")?;
    server.connect(client.local_addr()?)?;
    let mut block = Box::new(Block([0; BLOCK]));
    let mut received = [0; 2 * FRAME_BYTES];

    let mut times = Vec::with_capacity(FRAMES);
    for frame in 0..FRAMES {
        let start = Instant::now();
        cached.read_exact_at(&mut block.0[..FRAME_BYTES], place(frame))?;
        server.send(&block.0[..FRAME_BYTES])?;
        client.recv(&mut received)?;
        times.push(elapsed_ns(start));
    }
    row("I", times);

    let (mut times, mut disk, mut net) = (Vec::new(), Vec::new(), Vec::new());
    for frame in 0..FRAMES {
        let start = Instant::now();
        direct.read_exact_at(&mut block.0, place(frame))?;
        let read_ns = elapsed_ns(start);
        server.send(&block.0[..FRAME_BYTES])?;
        client.recv(&mut received)?;
        let all_ns = elapsed_ns(start);
        times.push(all_ns);
        disk.push(read_ns);
        net.push(all_ns - read_ns);
    }
    row("II", times);
    row("disk", disk);
    row("network", net);
    row("III", through_producer(&direct, &client, &server, place)?);
    let [push, pull] = push_and_pull(&client, &server)?;
    row("push", push);
    row("pull", pull);
    let (transfer, read, write) = between_cores();
    row("file between cores", transfer);
    row("word read", read);
    row("word write", write);
    Ok(text)
}

/// Measures path III: this thread reads frames into shared memory, another thread sends them.
fn through_producer(
    direct: &File,
    client: &UdpSocket,
    server: &UdpSocket,
    place: impl Fn(usize) -> u64,
) -> io::Result<Vec<u64>> {
    let shared: Vec<AtomicU64> = (0..FRAME_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    // Number of frames handed over; u64::MAX ends the sender.
    let handed = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            let mut frame = [0; FRAME_BYTES];
            for number in 1.. {
                loop {
                    match handed.load(Ordering::Acquire) {
                        u64::MAX => return,
                        count if count >= number => break,
                        _ => spin_loop(),
                    }
                }
                for (bytes, word) in frame.chunks_exact_mut(8).zip(&shared) {
                    bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
                }
                // The client detects a failed send by its time-out.
                let _ = server.send(&frame);
            }
        });
        client.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
        let mut block = Box::new(Block([0; BLOCK]));
        let mut times = Vec::with_capacity(FRAMES);
        let mut all = || -> io::Result<()> {
            for frame in 0..FRAMES {
                let start = Instant::now();
                direct.read_exact_at(&mut block.0, place(frame))?;
                for (bytes, word) in block.0.chunks_exact(8).zip(&shared) {
                    let bytes = bytes.try_into().expect("eight bytes");
                    word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
                }
                handed.store(frame as u64 + 1, Ordering::Release);
                client.recv(&mut [0; 2 * FRAME_BYTES])?;
                times.push(elapsed_ns(start));
            }
            Ok(())
        };
        let done = all();
        handed.store(u64::MAX, Ordering::Release);
        done.map(|()| times)
    })
}

/// Measures the dispatch of frames from the NI's memory (push) and from the host's (pull), ns.
///
/// The NI is this thread. The host, on another core, writes each frame before it is dispatched.
fn push_and_pull(client: &UdpSocket, server: &UdpSocket) -> io::Result<[Vec<u64>; 2]> {
    let shared: Vec<AtomicU64> = (0..FRAME_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    // An odd value asks the host to write a frame; u64::MAX ends it.
    let turn = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            loop {
                match turn.load(Ordering::Acquire) {
                    u64::MAX => return,
                    at if at % 2 == 1 => {
                        shared.iter().for_each(|word| word.store(at, Ordering::Relaxed));
                        turn.store(at + 1, Ordering::Release);
                    }
                    _ => spin_loop(),
                }
            }
        });
        let mut frame = [0; FRAME_BYTES];
        let copy = |frame: &mut [u8; FRAME_BYTES]| {
            for (bytes, word) in frame.chunks_exact_mut(8).zip(&shared) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
        };
        let mut times = [const { Vec::new() }; 2];
        let mut all = || -> io::Result<()> {
            for number in 0..2 * FRAMES {
                let request = 2 * number as u64 + 1;
                turn.store(request, Ordering::Release);
                while turn.load(Ordering::Acquire) == request {
                    spin_loop();
                }
                let pulled = number % 2;
                if pulled == 0 {
                    copy(&mut frame);
                }
                let start = Instant::now();
                if pulled == 1 {
                    copy(&mut frame);
                }
                server.send(&frame)?;
                client.recv(&mut [0; 2 * FRAME_BYTES])?;
                times[pulled].push(elapsed_ns(start));
            }
            Ok(())
        };
        let done = all();
        turn.store(u64::MAX, Ordering::Release);
        done.map(|()| times)
    })
}

/// Measures the cost of memory that another core has written, ns.
///
/// Returns the times to copy a file, to read a word and to write a word.
fn between_cores() -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let words: Vec<AtomicU64> = (0..FILE_BYTES.div_ceil(8)).map(|_| AtomicU64::new(1)).collect();
    let single = AtomicU64::new(0);
    // An odd value asks the other core to write all words; u64::MAX ends it.
    let turn = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            loop {
                match turn.load(Ordering::Acquire) {
                    u64::MAX => return,
                    at if at % 2 == 1 => {
                        // The file is written only in the first rounds, which measure the transfer.
                        if at < 2 * FILE_ROUNDS as u64 {
                            words.iter().for_each(|word| word.store(at, Ordering::Relaxed));
                        }
                        single.store(at, Ordering::Relaxed);
                        turn.store(at + 1, Ordering::Release);
                    }
                    _ => spin_loop(),
                }
            }
        });
        let mut next = 0;
        let mut other = || {
            turn.store(next + 1, Ordering::Release);
            next += 2;
            while turn.load(Ordering::Acquire) != next {
                spin_loop();
            }
        };
        let mut copy = vec![0; words.len()];
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..FILE_ROUNDS {
            other();
            let start = Instant::now();
            for (copied, word) in copy.iter_mut().zip(&words) {
                *copied = word.load(Ordering::Relaxed);
            }
            times[0].push(elapsed_ns(start));
            std::hint::black_box(&mut copy);
        }
        for _ in 0..WORDS {
            other();
            let start = Instant::now();
            std::hint::black_box(single.load(Ordering::SeqCst));
            times[1].push(elapsed_ns(start));
            other();
            let start = Instant::now();
            // A swap completes only when this core owns the cache line.
            single.swap(0, Ordering::SeqCst);
            times[2].push(elapsed_ns(start));
        }
        turn.store(u64::MAX, Ordering::Release);
        let [transfer, read, write] = times;
        (transfer, read, write)
    })
}

/// Pins this thread to `core`, if there are enough cores.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::median_ranks;

    #[test]
    fn ranks_of_the_median_follow_the_binomial_distribution() {
        // The exact ranks for 1,000 values are 469 and 532, from 1.
        assert_eq!(median_ranks(1_000), [469, 530]);
        assert_eq!(median_ranks(1), [0, 0]);
    }
}
