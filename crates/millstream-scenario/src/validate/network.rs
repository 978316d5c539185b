//! Validation of `[[hop]]` and of the sources and streams of a network.

use std::collections::HashSet;
use toml::Spanned;

use super::classes::{self, Tree};
use super::contract::{self, ContractKeys, Defaults};
use super::scheduler::{self, Keys};
use crate::error::{Problem, list, nearest};
use crate::file::network::HopTable;
use crate::file::{File, StreamTable};
use crate::network::{Direction, Hop, Network};
use crate::scenario::{Link, Stream};

/// The name of `[link]` among the hops.
const LINK: &str = "link";
/// The largest number of hops.
const MAX_HOPS: usize = 1_000;

/// Returns whether the scenario needs the simulation of a network, not of one link alone.
fn is_requested(file: &File, streams: &[Stream]) -> bool {
    let link = &file.link;
    let of_network = |stream: &StreamTable| {
        stream.flows.is_some()
            || stream.aqm.is_some()
            || stream.shares.is_some()
            || stream.direction.is_some()
    };
    !file.hop.is_empty()
        || link.delay.is_some()
        || link.loss.is_some()
        || link.queue.is_some()
        || file.stream.iter().any(|stream| of_network(stream.get_ref()))
        || streams.iter().any(|stream| stream.source.reacts())
}

/// Validates the network of a file; `None` without one. `tree` has its classes, and its streams are
/// valid.
pub(super) fn network(
    file: &File,
    streams: &[Stream],
    tree: &Tree<'_>,
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> Option<Network> {
    if !is_requested(file, streams) {
        return None;
    }
    let link = &file.link;
    refuse_combinations(file, problems);
    let mut hops = vec![Hop {
        name: LINK.into(),
        direction: Direction::Forward,
        link: Link::of(link.wire()),
        scheduler: None,
        delay_ns: link.delay.map_or(0, |delay| delay.0),
        loss: loss(link.loss.as_ref(), problems),
        queue: queue(link.queue.as_ref(), problems),
    }];
    if let Some(more) = file.hop.get(MAX_HOPS) {
        let message = format!("{} hops", file.hop.len());
        problems.push(Problem::new(more.span(), message).help(format!("at most {MAX_HOPS}")));
    }
    let mut links: HashSet<&str> = HashSet::from([LINK]);
    for table in file.hop.iter().map(Spanned::get_ref) {
        let name = table.name.get_ref().as_str();
        table.overhead.check(table.framing.as_ref(), problems);
        if !links.insert(name) {
            let message = format!("two links are called `{name}`");
            problems.push(Problem::new(table.name.span(), message).label("the second"));
        }
        hops.push(Hop {
            name: name.to_owned(),
            direction: table.direction,
            link: Link::of(table.wire()),
            scheduler: discipline(file, table, tree, defaults, problems),
            delay_ns: table.delay.map_or(0, |delay| delay.0),
            loss: loss(table.loss.as_ref(), problems),
            queue: queue(table.queue.as_ref(), problems),
        });
    }
    let returns = hops.iter().any(|hop| hop.direction == Direction::Return);
    for stream in file.stream.iter().map(Spanned::get_ref).filter(|_| !returns) {
        if let Some(direction) = &stream.direction
            && *direction.get_ref() == Direction::Return
        {
            let message = format!("no link for the data of `{}`", stream.name.get_ref());
            let help = "add a [[hop]] with direction = \"return\"";
            problems.push(Problem::new(direction.span(), message).help(help));
        }
    }
    Some(Network { hops })
}

/// Returns the scheduler of a hop that has a discipline of its own.
fn discipline(
    file: &File,
    table: &HopTable,
    tree: &Tree<'_>,
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> Option<crate::scenario::SchedulerConfig> {
    let name = table.discipline.as_ref()?;
    let keys = Keys::of_hop(file, name, table.wire());
    let scheduler = scheduler::scheduler(&keys, tree.children(None), problems)?;
    // Classes keep their disciplines; the hop's is that of the root.
    let classes = file.class.iter().map(Spanned::get_ref).filter(|class| class.parent.is_none());
    let streams = file.stream.iter().map(Spanned::get_ref).zip(tree.classes_of_streams());
    let streams = streams.filter(|(stream, class)| class.is_none() && stream.shares.is_none());
    let keys = classes.map(ContractKeys::of_class);
    for keys in keys.chain(streams.map(|(stream, _)| ContractKeys::of_stream(stream))) {
        contract::contract(&keys, Some(scheduler.discipline), defaults, problems);
    }
    Some(scheduler)
}

/// Refuses what the simulation of a network does not have.
fn refuse_combinations(file: &File, problems: &mut Vec<Problem>) {
    let mut refuse = |span, what: &str, help: &str| {
        let message = format!("{what} beside hops, flows, shared queues or sources that react");
        problems.push(Problem::new(span, message).help(help));
    };
    if let Some(fabric) = &file.fabric {
        let help = "a fabric loses no packet, so no queue is managed, and its sources do not \
                    react: a scenario of links, without `[fabric]`";
        refuse(fabric.span(), "a fabric", help);
    }
    for (structure, why) in [
        ("rtl", "the core has one queue for each stream, and one link"),
        ("hilq", "it drops late packets, which flows and sources that react do not allow"),
    ] {
        let name = file.scheduler.structure.as_ref().filter(|name| name.get_ref() == structure);
        if let Some(name) = name {
            let help = format!("{why}: structure = \"auto\"");
            refuse(name.span(), &format!("structure `{structure}`"), &help);
        }
    }
    if file.link.credits.is_some() {
        let span = file.scheduler.discipline.span();
        refuse(span, "credits", "leave out the `credits` of the link");
    }
    if let Some(media) = &file.media {
        refuse(media.span(), "`[media]`", "a media server has clients of its own");
    }
}

/// Validates `shares`; returns the other stream's position in the file.
pub(super) fn shares(
    table: &StreamTable,
    file: &File,
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let shared = table.shares.as_ref()?;
    let name = shared.get_ref().as_str();
    let names = || file.stream.iter().map(|stream| stream.get_ref().name.get_ref().as_str());
    let Some(at) = classes::shared(file, table) else {
        let meant =
            nearest(name, names()).map_or(String::new(), |near| format!("did you mean `{near}`? "));
        let help = format!("{meant}streams: {}", list(names()));
        let message = format!("unknown stream `{name}`");
        problems.push(Problem::new(shared.span(), message).help(help));
        return None;
    };
    let other = file.stream[at].get_ref();
    if other.shares.is_some() {
        let message = if name == table.name.get_ref().as_str() {
            format!("stream `{name}` shares its own queue")
        } else {
            format!("stream `{name}` shares a queue itself")
        };
        let help = "name a stream that has a queue of its own";
        problems.push(Problem::new(shared.span(), message).help(help));
        return None;
    }
    let own = [
        ("class", table.class.is_some()),
        ("flows", table.flows.is_some()),
        ("aqm", table.aqm.is_some()),
        ("period", table.period.is_some()),
        ("window", table.window.is_some()),
        ("first-deadline", table.first_deadline.is_some()),
        ("late", table.late.is_some()),
        ("weight", table.weight.is_some()),
        ("quantum", table.quantum.is_some()),
        ("priority", table.priority.is_some()),
        ("queue", table.queue.is_some()),
        ("max-rate", table.max_rate.is_some()),
        ("burst", table.burst.is_some()),
        ("fmc", table.fmc.is_some()),
    ];
    for (key, _) in own.into_iter().filter(|(_, given)| *given) {
        let message = format!("`{key}` of a stream that shares the queue of `{name}`");
        let help = format!("the contract is that of `{name}`: move `{key}` there");
        problems.push(Problem::new(shared.span(), message).help(help));
    }
    Some(at)
}

/// Returns a probability of loss in 2^-64.
fn loss(given: Option<&Spanned<f64>>, problems: &mut Vec<Problem>) -> u64 {
    let Some(given) = given else { return 0 };
    let loss = *given.get_ref();
    if !(0.0..1.0).contains(&loss) {
        let message = format!("a loss of {loss}");
        let help = "a probability from 0 to below 1, for example loss = 0.001";
        problems.push(Problem::new(given.span(), message).help(help));
        return 0;
    }
    // Below 2^64, since the loss is below 1 and has 53 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let loss = (loss * 18_446_744_073_709_551_616.0) as u64;
    loss
}

fn queue(given: Option<&Spanned<u32>>, problems: &mut Vec<Problem>) -> Option<u32> {
    let given = given?;
    if *given.get_ref() == 0 {
        let message = "a `queue` of 0 packets: every packet that has to wait is lost";
        problems.push(Problem::new(given.span(), message).help("at least 1"));
    }
    Some(*given.get_ref())
}
