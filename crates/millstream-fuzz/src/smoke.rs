//! The driver of `make test`: a fixed number of inputs from a fixed seed, on stable Rust.

use std::any::Any;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::mutation::mutant;
use crate::{Depth, Target};

/// Maximum length of an input, bytes.
pub const MAX_BYTES: usize = 40_000;

/// Maximum number of accepted mutants that are mutated further.
const MAX_KEPT: usize = 128;

/// Time limit of one input; a longer run counts as an endless loop.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Runs the seeds of a target and `inputs` mutants. A failing input is written to `folder`.
///
/// # Panics
/// Panics if an input violates an invariant or takes longer than a minute.
#[must_use]
pub fn smoke(target: &'static Target, inputs: usize, random: u64, folder: &Path) -> Depth {
    let current: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (report, reports) = channel();
    let shared = Arc::clone(&current);
    let running = thread::spawn(move || {
        inputs_of(target, inputs, random, |input| {
            input.clone_into(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
            // The receiver is dropped after a time-out.
            let _ = report.send(());
            (target.run)(input)
        })
    });
    let why = loop {
        match reports.recv_timeout(TIME_LIMIT) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => break format!("takes more than {TIME_LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => match running.join() {
                Ok(depth) => return depth,
                Err(panic) => break format!("panics: {}", message(&*panic)),
            },
        }
    };
    let path = folder.join(format!("fuzz-{}", target.name));
    let input = current.lock().unwrap_or_else(PoisonError::into_inner);
    fs::write(&path, &*input).unwrap_or_else(|error| eprintln!("{}: {error}", path.display()));
    panic!("{}: an input {why}; it is in {}", target.name, path.display())
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn inputs_of(
    target: &Target,
    inputs: usize,
    random: u64,
    mut run: impl FnMut(&[u8]) -> bool,
) -> Depth {
    let seeds: Arc<[Vec<u8>]> = (target.seeds)().into();
    let mut random = Rng::with_seed(random);
    let mut kept = seeds.to_vec();
    let mut depth = Depth::default();
    for seed in &*seeds {
        depth.count(run(seed));
    }
    for _ in 0..inputs {
        let from = &kept[random.usize(..kept.len())];
        let input = mutant(target, &seeds, from, random.u64(..), MAX_BYTES, None);
        let passed = run(&input);
        depth.count(passed);
        // Accepted mutants accumulate changes; seeds stay.
        if passed && random.u8(..8) == 0 {
            if kept.len() < seeds.len() + MAX_KEPT {
                kept.push(input);
            } else {
                let at = seeds.len() + random.usize(..MAX_KEPT);
                kept[at] = input;
            }
        }
    }
    depth
}
