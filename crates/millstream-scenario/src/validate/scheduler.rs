//! The `[scheduler]` table: discipline, structure, settings.

use millstream::catalogue::{DISCIPLINES, DisciplineRow, DwcsOrder, Options, StructureName};
use millstream::{DwcsOptions, Rules, StreamId, ZeroWindow};
use std::collections::{HashMap, HashSet};

use crate::error::{Problem, list, nearest};
use crate::file::{File, OrderName, RulesName, SchedulerTable, ZeroWindowName};

/// The discipline that is named.
pub(super) fn discipline(
    table: &SchedulerTable,
    problems: &mut Vec<Problem>,
) -> Option<&'static DisciplineRow> {
    let name = table.discipline.get_ref();
    let row = DisciplineRow::parse(name);
    if row.is_none() {
        let names = || DISCIPLINES.iter().map(|row| row.name);
        let meant =
            nearest(name, names()).map_or(String::new(), |near| format!("did you mean `{near}`? "));
        problems.push(
            Problem::new(table.discipline.span(), format!("unknown discipline `{name}`"))
                .help(format!("{meant}disciplines: {}", list(names()))),
        );
    }
    row
}

/// The structure that is named, or the best for so many streams.
pub(super) fn structure(
    table: &SchedulerTable,
    discipline: &DisciplineRow,
    streams: usize,
    problems: &mut Vec<Problem>,
) -> Option<StructureName> {
    let auto = discipline.auto_structure(streams);
    let Some(name) = table.structure.as_ref().filter(|name| name.get_ref() != "auto") else {
        return Some(auto);
    };
    let structure = StructureName::parse(name.get_ref());
    if structure.is_some_and(|structure| discipline.structures.contains(&structure)) {
        return structure;
    }
    let names = discipline.structures.iter().map(|structure| structure.name()).chain(["auto"]);
    let message = match structure {
        Some(_) => format!("structure `{}` cannot hold `{}`", name.get_ref(), discipline.name),
        None => format!("unknown structure `{}`", name.get_ref()),
    };
    let help = format!("structures for {}: {}", discipline.name, list(names));
    problems.push(Problem::new(name.span(), message).help(help));
    None
}

/// The discipline's settings.
pub(super) fn options(file: &File, problems: &mut Vec<Problem>) -> Options {
    let table = file.scheduler.get_ref();
    Options {
        dwcs: DwcsOptions {
            rules: match table.rules {
                Some(RulesName::Rtas99) => Rules::Rtas99,
                Some(RulesName::Standard) | None => Rules::Standard,
            },
            zero_window: match table.zero_window {
                Some(ZeroWindowName::LowestDenominator) => ZeroWindow::LowestDenominator,
                Some(ZeroWindowName::HighestDenominator) | None => ZeroWindow::HighestDenominator,
            },
        },
        order: match table.order {
            Some(OrderName::LossFirst) => DwcsOrder::LossFirst,
            Some(OrderName::EdfFirst) | None => DwcsOrder::EdfFirst,
        },
        link: millstream::Link { rate_bps: file.link.rate.0, overhead_bytes: file.link.overhead },
        table: entries(file, problems),
        virtual_origin: 0,
    }
}

/// The entries of the table scheduler, every stream among them.
fn entries(file: &File, problems: &mut Vec<Problem>) -> Vec<StreamId> {
    let scheduler = file.scheduler.get_ref();
    let Some(table) = &scheduler.table else {
        if scheduler.discipline.get_ref() == "table" {
            problems.push(
                Problem::new(scheduler.discipline.span(), "the table scheduler needs its `table`")
                    .help("for example table = [\"a\", \"b\", \"a\"], with every stream at least once"),
            );
        }
        return Vec::new();
    };
    let names = || (0u32..).zip(file.stream.iter().map(|s| s.get_ref().name.get_ref().as_str()));
    let numbers: HashMap<&str, u32> = names().map(|(number, name)| (name, number)).collect();
    let mut entries = Vec::with_capacity(table.len());
    for name in table {
        if let Some(number) = numbers.get(name.get_ref().as_str()) {
            entries.push(StreamId(*number));
        } else {
            let known = names().map(|(_, name)| name);
            let help = nearest(name.get_ref(), known)
                .map_or_else(String::new, |near| format!("did you mean `{near}`?"));
            let message = format!("no stream is called `{}`", name.get_ref());
            problems.push(Problem::new(name.span(), message).help(help));
        }
    }
    let listed: HashSet<StreamId> = entries.iter().copied().collect();
    if let Some((_, missing)) = names().find(|(number, _)| !listed.contains(&StreamId(*number)))
        && scheduler.discipline.get_ref() == "table"
    {
        problems.push(
            Problem::new(
                scheduler.discipline.span(),
                format!("the table never serves `{missing}`"),
            )
            .help("every stream must stand in `table` at least once"),
        );
    }
    entries
}
