//! Microengines and their hardware contexts.

use super::program::Program;

/// The location of a context: its engine and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextId {
    pub(super) engine: usize,
    pub(super) context: usize,
}

/// The progress of a context in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The context requests work from its source.
    Requesting,
    /// The prologue: index of the next operation, and the number of packets of the batch.
    Prologue(usize, usize),
    /// The context takes the next packet; the number of packets left in the batch.
    Dequeuing(usize),
    /// The body: index of the next operation, and the number of packets left after this one.
    Body(usize, usize),
}

/// A hardware context.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) program: Program,
    pub(super) progress: Progress,
    /// Whether the context waits only for its engine.
    pub(super) ready: bool,
    /// Whether the context holds a packet.
    pub(super) holds_packet: bool,
    /// Number of finished runs of the body.
    pub(super) finished: u64,
    /// Time of the next start by a timer, cycles.
    pub(super) timer: u64,
}

/// A microengine: runs one context until it waits, then the next ready one.
#[derive(Clone, Debug)]
pub(super) struct Microengine {
    pub(super) contexts: Vec<Context>,
    /// The context that runs or ran last.
    pub(super) current: usize,
    pub(super) running: bool,
}

impl Microengine {
    /// Creates an engine with one context per program, at most four.
    pub(super) fn new(programs: &[Program]) -> Self {
        assert!(programs.len() <= super::constants::CONTEXTS, "an engine has four contexts");
        let context = |program: &Program| Context {
            program: program.clone(),
            progress: Progress::Requesting,
            ready: true,
            holds_packet: false,
            finished: 0,
            timer: 0,
        };
        let contexts: Vec<_> = programs.iter().map(context).collect();
        // The search starts after the current context, so context 0 runs first.
        let current = contexts.len().saturating_sub(1);
        Self { contexts, current, running: false }
    }

    /// Returns the next ready context after the current one, round robin.
    pub(super) fn next_ready(&self) -> Option<usize> {
        let count = self.contexts.len();
        (1..=count)
            .map(|k| (self.current + k) % count)
            .find(|context| self.contexts[*context].ready)
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::QueueId;
    use super::*;

    #[test]
    fn contexts_run_round_robin_after_the_current_one() {
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
