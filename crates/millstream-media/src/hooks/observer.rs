//! Detects the events of hooks: compares publishers, players and their contracts with those of the
//! last call.

use millstream_scenario::HookEvent;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{HookSender, variable};
use crate::files::library::Library;
use crate::live::publishing::Publishing;
use crate::rtsp::session::Sessions;
use crate::shared_memory::region::State;

/// The least time between two reports of violated contracts of a stream, ns.
const VIOLATION_INTERVAL_NS: u64 = 10_000_000_000;

/// What identifies each publisher or player, by number.
type Present = BTreeMap<usize, u64>;

/// The stream's name and the variables of a publisher or player.
type Description = (String, Vec<(String, String)>);

/// The publisher or the player of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    stream: String,
    /// Names it to the runner.
    of: u64,
    variables: Vec<(String, String)>,
}

/// The state of the last call.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// The publishers by the number of the live stream, with the publication's number.
    publishers: BTreeMap<usize, (u64, Seen)>,
    /// The players by the number of the session, with the time of its admission.
    players: BTreeMap<usize, (u64, Seen)>,
    /// Contract violations of current and former players by stream, and the time of the last
    /// report.
    violations: BTreeMap<String, (u64, u64)>,
    events: u64,
}

impl Observer {
    /// Reports what has changed.
    pub(crate) fn observe(
        &mut self,
        hooks: &HookSender,
        (library, live, sessions): (&Library, &Publishing, &Sessions),
        now_ns: u64,
    ) {
        let all = live.streams.iter().enumerate();
        let published = all.filter(|(_, of)| of.spec.audio.is_none() && of.is_published());
        let published: Present = published.map(|(number, of)| (number, of.publication)).collect();
        let describe = |number: usize| {
            let stream = live.streams.get(number)?;
            let publisher = stream.publisher.as_ref()?;
            let transport = publisher.transport.map_or("", |transport| transport.name());
            let variables =
                [variable("PEER", &publisher.peer.to_string()), variable("TRANSPORT", transport)];
            Some((stream.name.clone(), variables.to_vec()))
        };
        let events = (HookEvent::Publish, HookEvent::Unpublish);
        compare(hooks, events, (&mut self.publishers, &published), describe, &mut self.events);
        let mut playing = Present::new();
        for (number, session) in sessions.iter().filter(|(_, session)| !session.second) {
            if sessions.region.session(number).state() != State::Playing {
                // A pause does not end what began with the first frame.
                if self.players.get(&number).is_none_or(|(at, _)| *at != session.since_ns) {
                    continue;
                }
            }
            playing.insert(number, session.since_ns);
        }
        let describe = |number: usize| {
            let session = sessions.get(number)?;
            let variables = [
                variable("PEER", &session.peer.to_string()),
                variable("TRANSPORT", session.transport.name()),
                variable("SESSION", &number.to_string()),
            ];
            let name = live.stream_of(&library.titles[session.title]).to_owned();
            Some((name, variables.to_vec()))
        };
        let events = (HookEvent::Read, HookEvent::Unread);
        compare(hooks, events, (&mut self.players, &playing), describe, &mut self.events);
        if hooks.has(HookEvent::Violation) {
            let totals = sessions.totals();
            let violations = totals.iter().map(|(title, totals)| {
                (live.stream_of(&library.titles[*title]), totals.frames.violations)
            });
            self.report_violations(hooks, violations, now_ns);
        }
    }

    /// Reports streams with new violations of their contracts. `violations` has the name of the
    /// stream of each title, and their number so far.
    fn report_violations<'a>(
        &mut self,
        hooks: &HookSender,
        violations: impl Iterator<Item = (&'a str, u64)>,
        now_ns: u64,
    ) {
        // A stream, its audio and its recordings have titles of their own.
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        violations.for_each(|(stream, number)| *sums.entry(stream).or_default() += number);
        // A path has its name until another takes its place.
        self.violations.retain(|stream, _| sums.contains_key(stream.as_str()));
        for (stream, violations) in sums {
            let (known, last_ns) = self.violations.get(stream).copied().unwrap_or_default();
            let is_due = last_ns == 0 || now_ns.saturating_sub(last_ns) >= VIOLATION_INTERVAL_NS;
            if violations <= known || !is_due {
                continue;
            }
            let count = variable("VIOLATIONS", &(violations - known).to_string());
            self.violations.insert(stream.to_owned(), (violations, now_ns));
            self.events += 1;
            hooks.event(HookEvent::Violation, stream, self.events, &[count]);
        }
    }

    /// Reports the end of everything.
    pub(crate) fn end(&mut self, hooks: &HookSender) {
        let (none, describe) = (Present::new(), |_| None);
        let events = (HookEvent::Publish, HookEvent::Unpublish);
        compare(hooks, events, (&mut self.publishers, &none), describe, &mut self.events);
        let events = (HookEvent::Read, HookEvent::Unread);
        compare(hooks, events, (&mut self.players, &none), describe, &mut self.events);
    }
}

/// Reports what has begun and what has ended since the last call, and changes `known` to `now`.
/// `describe` is called for what has begun only.
fn compare(
    hooks: &HookSender,
    (begin, end): (HookEvent, HookEvent),
    (known, now): (&mut BTreeMap<usize, (u64, Seen)>, &Present),
    describe: impl Fn(usize) -> Option<Description>,
    events: &mut u64,
) {
    known.retain(|number, (id, seen)| {
        let stays = now.get(number) == Some(id);
        if !stays {
            hooks.ended(begin, &seen.stream, seen.of);
            hooks.event(end, &seen.stream, seen.of, &seen.variables);
        }
        stays
    });
    for (number, id) in now {
        let Entry::Vacant(entry) = known.entry(*number) else { continue };
        let Some((stream, variables)) = describe(*number) else { continue };
        *events += 1;
        hooks.event(begin, &stream, *events, &variables);
        entry.insert((*id, Seen { stream, of: *events, variables }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Order;
    use crate::hooks::tests::{hook, hooks, orders};

    const S: u64 = 1_000_000_000;

    #[test]
    fn violations_of_a_stream_are_reported_together_and_at_most_every_ten_seconds() {
        let (hooks, theirs) = hooks(&[hook(HookEvent::Violation, false)]);
        let mut observer = Observer::default();
        let mut reported = |violations: [(&'static str, u64); 3], now_ns| {
            observer.report_violations(hooks.sender(), violations.into_iter(), now_ns);
            let reports = orders(&theirs).into_iter().map(|order| match order {
                Order::Run { hook: 0, environment, .. } => {
                    let names = ["MILLSTREAM_STREAM", "MILLSTREAM_VIOLATIONS"];
                    names.map(|name| {
                        environment.iter().find(|(of, _)| of == name).unwrap().1.clone()
                    })
                }
                other => panic!("{other:?}"),
            });
            reports.map(|report| report.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(reported([("cam", 0), ("cam", 0), ("film", 0)], S), [""; 0]);
        // Two titles of `cam`: the stream, and a place for a player of its recordings.
        assert_eq!(reported([("cam", 2), ("cam", 1), ("film", 0)], 2 * S), ["cam 3"]);
        assert_eq!(reported([("cam", 2), ("cam", 4), ("film", 1)], 3 * S), ["film 1"]);
        assert_eq!(reported([("cam", 2), ("cam", 5), ("film", 1)], 12 * S), ["cam 4"]);
        assert_eq!(reported([("cam", 2), ("cam", 5), ("film", 1)], 40 * S), [""; 0]);
    }
}
