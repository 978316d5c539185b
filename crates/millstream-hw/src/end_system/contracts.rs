//! Writes contracts to the card's registers.

use millstream::{Contract, ContractError, Late};

use super::Options;
use super::clock;
use super::registers::{
    CONTROL, CONTROL_ENABLE, CONTROL_LOWEST_DENOMINATOR, CONTROL_MODE, CONTROL_RTAS99, LOAD,
    LOAD_STREAM, TIME, TIME_DEADLINE, TIME_PERIOD, WINDOW, WINDOW_DROP, WINDOW_FIRST,
    WINDOW_GROWTH, WINDOW_X, WINDOW_Y,
};
use crate::rtl::card::Card;
use crate::{Load, Mode};

/// Loads every contract and enables decisions; returns the longest period in packet-times.
///
/// # Errors
/// Fails if a contract does not fit the card's registers.
pub(crate) fn load(
    card: &mut Card,
    options: &Options,
    contracts: &[Contract],
) -> Result<u64, ContractError> {
    let settings = options.settings;
    let control = CONTROL_MODE.put(settings.mode as u32)
        | CONTROL_LOWEST_DENOMINATOR.put(settings.lowest_denominator.into())
        | CONTROL_RTAS99.put(settings.rtas99.into());
    card.write(CONTROL, control);
    let mut longest = 1;
    for (stream, contract) in (0..).zip(contracts) {
        let load = fields(contract, options)?;
        longest = longest.max(u64::from(load.period));
        let rtas99 = settings.rtas99;
        let window = WINDOW_X.put(load.x.into())
            | WINDOW_Y.put(load.y.into())
            | WINDOW_GROWTH.put(load.growth(rtas99).into())
            | WINDOW_DROP.put(load.drop.into())
            | WINDOW_FIRST.put(load.first.into());
        let deadline = match settings.mode {
            Mode::Static => load.priority,
            _ => clock::low(load.deadline),
        };
        card.write(WINDOW, window);
        let time = TIME_PERIOD.put(load.period.into()) | TIME_DEADLINE.put(deadline.into());
        card.write(TIME, time);
        card.write(LOAD, LOAD_STREAM.put(stream));
    }
    card.write(CONTROL, control | CONTROL_ENABLE.put(1));
    Ok(longest)
}

/// Converts a contract to register fields.
fn fields(contract: &Contract, options: &Options) -> Result<Load, ContractError> {
    let unsupported =
        |attribute, need| ContractError::Unfit { attribute, by: "the end-system card", need };
    let terms = contract.terms();
    let byte = |value| u8::try_from(value).map_err(|_| unsupported("window", "to be at most 255"));
    let ticks = |attribute, time_ns: u64| {
        let ticks = time_ns / options.packet_time_ns;
        if !time_ns.is_multiple_of(options.packet_time_ns) || ticks >= 1 << 14 {
            return Err(unsupported(
                attribute,
                "to be a multiple of the packet-time and shorter than 2^14 packet-times",
            ));
        }
        Ok(u16::try_from(ticks).expect("below 2^14"))
    };
    let deadlines = matches!(options.settings.mode, Mode::Dwcs | Mode::Edf);
    let period = match terms.period_ns {
        Some(period_ns) if deadlines => ticks("period", period_ns)?,
        None if deadlines => return Err(ContractError::Missing { attribute: "period" }),
        _ => 1,
    };
    let first = terms.first_deadline_ns.filter(|_| deadlines);
    let deadline = first.map_or(Ok(0), |deadline_ns| ticks("first-deadline", deadline_ns))?;
    if contract.is_limited() {
        return Err(unsupported("max-rate", "and the link's `credits` to be unset"));
    }
    let priority = u16::try_from(terms.priority).ok().filter(|priority| *priority < 1 << 15);
    Ok(Load {
        deadline: deadline.into(),
        period,
        priority: priority.ok_or(unsupported("priority", "to be below 2^15"))?,
        weight: 1,
        x: byte(terms.window.lost())?,
        y: byte(terms.window.of())?,
        drop: u8::from(terms.late == Late::Drop),
        first: u8::from(first.is_some()),
    })
}
