//! Validation of the discipline, queue structure and options of the root or a class.

use millstream::catalogue::{
    DISCIPLINES, DisciplineRow, DwcsOrder, MinBwAlgorithm, Options, StructureName,
};
use millstream::{DwcsOptions, Rules, StreamId, ZeroWindow};
use std::collections::{HashMap, HashSet};
use toml::Spanned;

use super::{hilq, rtl};
use crate::error::{Problem, list, nearest};
use crate::file::{AlgorithmName, ClassTable, File, OrderName, RulesName, ZeroWindowName};
use crate::scenario::SchedulerConfig;

/// The keys of `[scheduler]` or a `[[class]]` that define how it serves its children.
pub(super) struct Keys<'a> {
    discipline: &'a Spanned<String>,
    pub(super) structure: Option<&'a Spanned<String>>,
    pub(super) order: Option<OrderName>,
    rules: Option<RulesName>,
    pub(super) zero_window: Option<ZeroWindowName>,
    table: Option<&'a [Spanned<String>]>,
    algorithm: Option<AlgorithmName>,
    link: millstream::Link,
    /// Whether the file has classes.
    pub(super) tree: bool,
}

macro_rules! keys {
    ($file:expr, $table:expr) => {
        Keys {
            discipline: &$table.discipline,
            structure: $table.structure.as_ref(),
            order: $table.order,
            rules: $table.rules,
            zero_window: $table.zero_window,
            table: $table.table.as_deref(),
            algorithm: $table.algorithm,
            link: $file.link.wire(),
            tree: !$file.class.is_empty(),
        }
    };
}

impl<'a> Keys<'a> {
    pub(super) fn of_root(file: &'a File) -> Self {
        keys!(file, file.scheduler)
    }

    /// Returns the keys of a hop with a discipline of its own, on `link`.
    pub(super) fn of_hop(
        file: &'a File,
        discipline: &'a Spanned<String>,
        link: millstream::Link,
    ) -> Self {
        Keys { discipline, structure: None, table: None, link, ..Self::of_root(file) }
    }

    pub(super) fn of_class(file: &File, class: &'a ClassTable) -> Self {
        keys!(file, class)
    }
}

/// Validates how the root or a class serves its `children`, given by name.
pub(super) fn scheduler(
    keys: &Keys,
    children: &[&str],
    problems: &mut Vec<Problem>,
) -> Option<SchedulerConfig> {
    let discipline = discipline(keys, problems)?;
    let options = Options {
        dwcs: DwcsOptions {
            rules: match keys.rules {
                Some(RulesName::Rtas99) => Rules::Rtas99,
                Some(RulesName::Standard) | None => Rules::Standard,
            },
            zero_window: match keys.zero_window {
                Some(ZeroWindowName::LowestDenominator) => ZeroWindow::LowestDenominator,
                Some(ZeroWindowName::HighestDenominator) | None => ZeroWindow::HighestDenominator,
            },
        },
        order: match keys.order {
            Some(OrderName::LossFirst) => DwcsOrder::LossFirst,
            Some(OrderName::EdfFirst) | None => DwcsOrder::EdfFirst,
        },
        link: keys.link,
        table: entries(keys, discipline, children, problems),
        algorithm: match keys.algorithm {
            Some(AlgorithmName::Wfq) => MinBwAlgorithm::Wfq,
            Some(AlgorithmName::Drr) => MinBwAlgorithm::Drr,
            Some(AlgorithmName::Scfq) | None => MinBwAlgorithm::Scfq,
        },
        virtual_origin: 0,
    };
    let structure = structure(keys, discipline, &options, children.len(), problems)?;
    Some(SchedulerConfig { discipline, structure, options })
}

fn discipline(keys: &Keys, problems: &mut Vec<Problem>) -> Option<&'static DisciplineRow> {
    let name = keys.discipline.get_ref();
    let row = DisciplineRow::parse(name);
    if row.is_none() {
        let names = || DISCIPLINES.iter().map(|row| row.name);
        let meant =
            nearest(name, names()).map_or(String::new(), |near| format!("did you mean `{near}`? "));
        problems.push(
            Problem::new(keys.discipline.span(), format!("unknown discipline `{name}`"))
                .help(format!("{meant}disciplines: {}", list(names()))),
        );
    }
    row
}

/// Returns the named structure, or the automatic choice for this number of children.
fn structure(
    keys: &Keys,
    discipline: &DisciplineRow,
    options: &Options,
    children: usize,
    problems: &mut Vec<Problem>,
) -> Option<StructureName> {
    let auto = discipline.auto_structure(options, children);
    let Some(name) = keys.structure.filter(|name| name.get_ref() != "auto") else {
        return Some(auto);
    };
    let on_hardware = rtl::DISCIPLINES.contains(&discipline.name);
    if name.get_ref() == rtl::NAME && on_hardware {
        return rtl::check_keys(keys, name, children, problems).then_some(auto);
    }
    let structure = StructureName::parse(name.get_ref());
    let structures = discipline.structures(options);
    if structure.is_some_and(|structure| structures.contains(&structure)) {
        return structure;
    }
    if structure.is_some_and(|structure| discipline.approximations().contains(&structure)) {
        return hilq::check_keys(keys, name, problems).then_some(StructureName::Hilq);
    }
    let others = structures.iter().chain(discipline.approximations());
    let names = others.map(|structure| structure.name());
    let names = names.chain(on_hardware.then_some(rtl::NAME)).chain(["auto"]);
    let message = match structure {
        None if name.get_ref() == rtl::NAME => {
            format!("structure `rtl` cannot hold `{}`", discipline.name)
        }
        Some(_) => format!("structure `{}` cannot hold `{}`", name.get_ref(), discipline.name),
        None => format!("unknown structure `{}`", name.get_ref()),
    };
    let help = format!("structures for {}: {}", discipline.name, list(names));
    problems.push(Problem::new(name.span(), message).help(help));
    None
}

/// Returns the entries of the table scheduler, and checks that they include every child.
fn entries(
    keys: &Keys,
    discipline: &DisciplineRow,
    children: &[&str],
    problems: &mut Vec<Problem>,
) -> Vec<StreamId> {
    let needed = discipline.needs.contains(&"table");
    let Some(table) = keys.table else {
        if needed {
            problems.push(
                Problem::new(keys.discipline.span(), "the table scheduler needs its `table`").help(
                    "for example table = [\"a\", \"b\", \"a\"], with each child at least once",
                ),
            );
        }
        return Vec::new();
    };
    let numbers: HashMap<&str, u32> = children.iter().copied().zip(0u32..).collect();
    let mut entries = Vec::with_capacity(table.len());
    for name in table {
        if let Some(number) = numbers.get(name.get_ref().as_str()) {
            entries.push(StreamId(*number));
        } else {
            let help = nearest(name.get_ref(), children.iter().copied())
                .map_or_else(String::new, |near| format!("did you mean `{near}`?"));
            let message = format!("`{}` is not a stream or class of this table", name.get_ref());
            problems.push(Problem::new(name.span(), message).help(help));
        }
    }
    let listed: HashSet<StreamId> = entries.iter().copied().collect();
    let missing = children.iter().zip(0u32..).find(|(_, n)| !listed.contains(&StreamId(*n)));
    if let Some((missing, _)) = missing.filter(|_| needed) {
        let message = format!("the table never serves `{missing}`");
        problems.push(
            Problem::new(keys.discipline.span(), message)
                .help("list each child at least once in `table`"),
        );
    }
    entries
}
