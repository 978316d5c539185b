//! The processes of a router and their numbers.

use crate::ids::{InputId, OutputId, PathId, ProcessId};
use crate::router::plan::Plan;

/// A process of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The input process of this input.
    Input(InputId),
    /// The forwarding process of this path.
    Forward(PathId),
    /// The output process of this output.
    Output(OutputId),
}

/// The numbers of a router's processes: those of inputs first, then of paths, then of outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessNumbers {
    inputs: usize,
    paths: usize,
    outputs: usize,
}

impl ProcessNumbers {
    /// Numbers the processes of `plan`.
    pub(super) fn new(plan: &Plan) -> Self {
        let (inputs, paths, outputs) = (plan.inputs.len(), plan.paths.len(), plan.outputs.len());
        Self { inputs, paths, outputs }
    }

    /// Returns the number of processes.
    #[inline]
    pub(super) fn count(self) -> usize {
        self.inputs + self.paths + self.outputs
    }

    /// Returns the numbers of inputs, paths and outputs.
    pub(super) fn sizes(self) -> (usize, usize, usize) {
        (self.inputs, self.paths, self.outputs)
    }

    /// Returns the process of this id.
    #[inline]
    pub(super) fn process(self, id: ProcessId) -> Process {
        let (number, output) = (id.0, self.inputs + self.paths);
        if number < self.inputs {
            Process::Input(InputId(number))
        } else if number < output {
            Process::Forward(PathId(number - self.inputs))
        } else {
            Process::Output(OutputId(number - output))
        }
    }

    /// Returns the id of a process.
    #[inline]
    pub(super) fn id(self, process: Process) -> ProcessId {
        ProcessId(match process {
            Process::Input(input) => input.0,
            Process::Forward(path) => self.inputs + path.0,
            Process::Output(output) => self.inputs + self.paths + output.0,
        })
    }

    /// Returns the ids of all processes, in order.
    pub(super) fn ids(self) -> impl Iterator<Item = ProcessId> {
        (0..self.count()).map(ProcessId)
    }
}

#[cfg(test)]
impl ProcessNumbers {
    /// Numbers the processes of this many inputs, paths and outputs.
    pub(super) fn of_sizes(inputs: usize, paths: usize, outputs: usize) -> Self {
        Self { inputs, paths, outputs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_of_one_process() {
        let numbers = ProcessNumbers::of_sizes(2, 3, 1);
        assert_eq!(numbers.count(), 6);
        assert_eq!(numbers.process(ProcessId(1)), Process::Input(InputId(1)));
        assert_eq!(numbers.process(ProcessId(2)), Process::Forward(PathId(0)));
        assert_eq!(numbers.process(ProcessId(5)), Process::Output(OutputId(0)));
        for id in numbers.ids() {
            assert_eq!(numbers.id(numbers.process(id)), id);
        }
    }
}
