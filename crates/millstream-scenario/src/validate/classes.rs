//! Validation of the `[[class]]` tables: the tree, and the contract of each class.

use std::collections::HashMap;
use toml::Spanned;

use super::contract::{self, ContractKeys, Defaults, IgnoredAttributes};
use super::scheduler::{self, Keys};
use crate::error::{Problem, list, nearest};
use crate::file::{File, StreamTable};
use crate::scenario::{Class, SchedulerConfig};

/// The tree of classes and streams. Classes are numbered by depth, then by file order.
pub(super) struct Tree<'a> {
    /// The position in the file of each class, by number.
    order: Vec<usize>,
    /// The parent of each class, by number; `None` for the root.
    parents: Vec<Option<usize>>,
    /// The class of each stream, in file order; `None` for the root.
    streams: Vec<Option<usize>>,
    /// The names of the children of the root and of each class: classes, then streams.
    children: Vec<Vec<&'a str>>,
}

impl<'a> Tree<'a> {
    pub(super) fn of(file: &'a File, problems: &mut Vec<Problem>) -> Self {
        let mut positions: HashMap<&str, usize> = HashMap::new();
        for (position, class) in file.class.iter().map(Spanned::get_ref).enumerate() {
            let name = class.name.get_ref().as_str();
            if name.is_empty() {
                problems.push(Problem::new(class.name.span(), "a class's name is empty"));
            }
            if positions.insert(name, position).is_some() {
                let message = format!("two classes are called `{name}`");
                problems.push(Problem::new(class.name.span(), message).label("the second"));
            }
        }
        let named = |name: Option<&Spanned<String>>, problems: &mut Vec<Problem>| {
            let name = name?;
            let found = positions.get(name.get_ref().as_str()).copied();
            if found.is_none() {
                problems.push(unknown_class(name, &positions));
            }
            found
        };
        let above: Vec<Option<usize>> = file
            .class
            .iter()
            .map(|class| named(class.get_ref().parent.as_ref(), problems))
            .collect();
        let order = parents_first(file, &above, problems);
        let mut numbers = vec![None; above.len()];
        for (number, position) in order.iter().enumerate() {
            numbers[*position] = Some(number);
        }
        let number = |position: Option<usize>| position.and_then(|position| numbers[position]);
        let parents: Vec<_> = order.iter().map(|position| number(above[*position])).collect();
        let own: Vec<_> = file
            .stream
            .iter()
            .map(|stream| number(named(stream.get_ref().class.as_deref(), problems)))
            .collect();
        // A stream without a queue is where the queue is that it shares.
        let streams: Vec<_> = file
            .stream
            .iter()
            .zip(&own)
            .map(|(stream, class)| shared(file, stream.get_ref()).map_or(*class, |at| own[at]))
            .collect();
        let mut children = vec![Vec::new(); order.len() + 1];
        let at = |class: Option<usize>| class.map_or(0, |class| class + 1);
        for (position, parent) in order.iter().zip(&parents) {
            children[at(*parent)].push(file.class[*position].get_ref().name.get_ref().as_str());
        }
        for (stream, class) in file.stream.iter().zip(&streams) {
            children[at(*class)].push(stream.get_ref().name.get_ref().as_str());
        }
        Self { order, parents, streams, children }
    }

    /// Returns the names of the children of a class, or of the root.
    pub(super) fn children(&self, class: Option<usize>) -> &[&'a str] {
        &self.children[class.map_or(0, |class| class + 1)]
    }

    /// Returns the class of each stream, in file order.
    pub(super) fn classes_of_streams(&self) -> impl Iterator<Item = Option<usize>> {
        self.streams.iter().copied()
    }

    /// Validates the classes; returns none if one of them is invalid.
    pub(super) fn classes(
        &self,
        file: &File,
        root: Option<&SchedulerConfig>,
        defaults: &Defaults,
        ignored: &mut IgnoredAttributes,
        problems: &mut Vec<Problem>,
    ) -> Vec<Class> {
        let mut classes: Vec<Class> = Vec::with_capacity(self.order.len());
        for (number, (position, parent)) in self.order.iter().zip(&self.parents).enumerate() {
            let table = file.class[*position].get_ref();
            let children = self.children(Some(number));
            if children.is_empty() {
                let message = format!("class `{}` has no children", table.name.get_ref());
                problems.push(
                    Problem::new(table.name.span(), message)
                        .help("name it as the `class` of a stream or the `parent` of a class"),
                );
            }
            let keys = Keys::of_class(file, table);
            let scheduler = scheduler::scheduler(&keys, children, problems);
            let above = parent.map_or(root, |parent| classes.get(parent).map(|c| &c.scheduler));
            let discipline = above.map(|scheduler| scheduler.discipline);
            let contract_keys = ContractKeys::of_class(table);
            let contract = contract::contract(&contract_keys, discipline, defaults, problems);
            if let Some(discipline) = discipline {
                ignored.note(&contract_keys, discipline);
            }
            let (Some(scheduler), Some(contract)) = (scheduler, contract) else {
                return Vec::new();
            };
            let name = table.name.get_ref().clone();
            classes.push(Class { name, parent: *parent, contract, scheduler });
        }
        classes
    }
}

/// Returns the position of the stream that `shares` of `stream` names, if it is in the file.
pub(super) fn shared(file: &File, stream: &StreamTable) -> Option<usize> {
    let name = stream.shares.as_ref()?.get_ref();
    file.stream.iter().position(|other| other.get_ref().name.get_ref() == name)
}

fn unknown_class(name: &Spanned<String>, known: &HashMap<&str, usize>) -> Problem {
    let message = format!("no class is called `{}`", name.get_ref());
    let mut names: Vec<_> = known.keys().copied().collect();
    names.sort_unstable();
    let help = match nearest(name.get_ref(), names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "the file has no [[class]]".to_owned(),
        None => format!("classes: {}", list(names.into_iter())),
    };
    Problem::new(name.span(), message).help(help)
}

/// Returns the positions of the classes, parents first; reports and omits classes in a cycle.
fn parents_first(file: &File, above: &[Option<usize>], problems: &mut Vec<Problem>) -> Vec<usize> {
    let mut depths = Vec::with_capacity(above.len());
    for (position, class) in file.class.iter().enumerate() {
        let (mut depth, mut at) = (0, above[position]);
        while let Some(parent) = at.filter(|_| depth <= above.len()) {
            depth += 1;
            at = above[parent];
        }
        if depth > above.len() {
            let name = &class.get_ref().name;
            let message = format!("class `{}` contains itself", name.get_ref());
            problems.push(
                Problem::new(name.span(), message)
                    .help("its chain of `parent` keys leads back to it"),
            );
        }
        depths.push(depth);
    }
    let mut order: Vec<usize> = (0..above.len()).filter(|p| depths[*p] <= above.len()).collect();
    order.sort_by_key(|position| depths[*position]);
    order
}
