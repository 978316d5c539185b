//! The scheduler of a run: the engine's, or with `structure = "rtl"` the hardware's.

use std::ops::{Deref, DerefMut};

use miette::miette;
use millstream::catalogue::DynScheduler;
use millstream::{Contract, Rules, ZeroWindow};
use millstream_hw::rtl::{self, Trouble};
use millstream_hw::{Mode, Settings};
use millstream_scenario::Scenario;

use crate::failure::Failure;

/// A scheduler, and what it says if it cannot go on.
pub(crate) struct Chosen {
    scheduler: Box<dyn DynScheduler + Send>,
    trouble: Trouble,
}

impl Chosen {
    /// Whether all went well.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.trouble.first().map_or(Ok(()), |what| Err(Failure::Run(miette!("{what}"))))
    }
}

impl Deref for Chosen {
    type Target = Box<dyn DynScheduler + Send>;

    fn deref(&self) -> &Self::Target {
        &self.scheduler
    }
}

impl DerefMut for Chosen {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.scheduler
    }
}

/// The scheduler that the scenario asks for, its streams added.
pub(crate) fn scheduler(scenario: &Scenario) -> Result<Chosen, Failure> {
    if !scenario.hardware {
        return Ok(Chosen { scheduler: scenario.scheduler(), trouble: Trouble::default() });
    }
    let options = scenario.scheduler.options.dwcs;
    let name = scenario.scheduler.discipline.name;
    let settings = Settings {
        mode: match name {
            "dwcs" => Mode::Dwcs,
            "edf" => Mode::Edf,
            _ => Mode::Static,
        },
        lowest_denominator: options.zero_window == ZeroWindow::LowestDenominator,
        rtas99: options.rules == Rules::Rtas99,
    };
    // First come, first served: all of one priority.
    let level = |contract: Contract| if name == "fifo" { contract.priority(0) } else { contract };
    let contracts: Vec<_> =
        scenario.streams.iter().map(|stream| level(stream.contract.clone())).collect();
    let (scheduler, trouble) =
        rtl::scheduler(settings, &contracts).map_err(|error| Failure::Run(miette!("{error}")))?;
    Ok(Chosen { scheduler, trouble })
}
