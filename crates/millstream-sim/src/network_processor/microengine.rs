//! Microengines and their hardware contexts.

use super::program::Program;

/// Where a context is: its engine and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextId {
    pub(super) engine: usize,
    pub(super) place: usize,
}

/// How far a context's program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It wants work from its source.
    Asking,
    /// The operation of the prologue that is next, and the packets it is for.
    Prologue(usize, usize),
    /// It takes the next of so many packets.
    Taking(usize),
    /// The operation of the body that is next, and the packets that follow.
    Body(usize, usize),
}

/// A hardware context.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) program: Program,
    pub(super) progress: Progress,
    /// Whether it waits for nothing but its engine.
    pub(super) ready: bool,
    /// Whether it has a packet in hand.
    pub(super) holds: bool,
    /// Bodies finished.
    pub(super) finished: u64,
    /// When a timer next starts it, cycles.
    pub(super) timer: u64,
}

/// A microengine: runs one of its contexts until that waits, then the next that is ready.
#[derive(Clone, Debug)]
pub(super) struct Microengine {
    pub(super) contexts: Vec<Context>,
    /// The context that has the engine, or had it last.
    pub(super) current: usize,
    pub(super) running: bool,
}

impl Microengine {
    /// An engine whose contexts run the given programs, at most four.
    pub(super) fn new(programs: &[Program]) -> Self {
        assert!(programs.len() <= super::constants::CONTEXTS, "an engine has four contexts");
        let context = |program: &Program| Context {
            program: program.clone(),
            progress: Progress::Asking,
            ready: true,
            holds: false,
            finished: 0,
            timer: 0,
        };
        let contexts: Vec<_> = programs.iter().map(context).collect();
        // So that the first to run is the first.
        let current = contexts.len().saturating_sub(1);
        Self { contexts, current, running: false }
    }

    /// The next context after the current one that is ready, round robin.
    pub(super) fn next_ready(&self) -> Option<usize> {
        let count = self.contexts.len();
        (1..=count).map(|k| (self.current + k) % count).find(|place| self.contexts[*place].ready)
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::QueueId;
    use super::*;

    #[test]
    fn the_context_after_the_current_one_goes_first() {
        let program = Program::for_each(QueueId(0), Vec::new());
        let mut engine = Microengine::new(&[program.clone(), program.clone(), program]);
        assert_eq!(engine.next_ready(), Some(0));
        engine.current = 1;
        assert_eq!(engine.next_ready(), Some(2));
        engine.contexts[2].ready = false;
        assert_eq!(engine.next_ready(), Some(0));
        engine.contexts[0].ready = false;
        assert_eq!(engine.next_ready(), Some(1));
    }
}
