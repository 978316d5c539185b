//! Detects the events of hooks: compares publishers, players and their contracts with those of the
//! last call.

use millstream_scenario::HookEvent;
use std::collections::BTreeMap;

use super::{HookSender, variable};
use crate::files::library::Library;
use crate::live::publishing::Publishing;
use crate::rtsp::session::Sessions;
use crate::shared_memory::region::State;

/// The least time between two reports of violated contracts of a stream, ns.
const VIOLATION_INTERVAL_NS: u64 = 10_000_000_000;

/// What identifies a publisher or player, the stream's name and the variables, by number.
type Present = BTreeMap<usize, (u64, String, Vec<(String, String)>)>;

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
    /// Contract violations of current and former players by title, and the time of the last report.
    violations: BTreeMap<usize, (u64, u64)>,
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
        let mut published = Present::new();
        for (number, (spec, publisher, ingested)) in live.statuses().enumerate() {
            let Some(publisher) = publisher.filter(|_| spec.audio.is_none()) else { continue };
            let transport = publisher.transport.map_or("", |transport| transport.name());
            let variables =
                [variable("PEER", &publisher.peer.to_string()), variable("TRANSPORT", transport)];
            let entry = (ingested.publications, spec.name.clone(), variables.to_vec());
            published.insert(number, entry);
        }
        let events = (HookEvent::Publish, HookEvent::Unpublish);
        compare(hooks, events, &mut self.publishers, published, &mut self.events);
        let mut playing = Present::new();
        for (number, session) in sessions.iter().filter(|(_, session)| !session.second) {
            if sessions.region.session(number).state() != State::Playing {
                // A pause does not end what began with the first frame.
                if self.players.get(&number).is_none_or(|(at, _)| *at != session.since_ns) {
                    continue;
                }
            }
            let name = library.titles[session.title].stream_name().to_owned();
            let variables = [
                variable("PEER", &session.peer.to_string()),
                variable("TRANSPORT", session.transport.name()),
                variable("SESSION", &number.to_string()),
            ];
            playing.insert(number, (session.since_ns, name, variables.to_vec()));
        }
        let events = (HookEvent::Read, HookEvent::Unread);
        compare(hooks, events, &mut self.players, playing, &mut self.events);
        if hooks.has(HookEvent::Violation) {
            self.violated(hooks, library, sessions, now_ns);
        }
    }

    /// Reports streams with new violations of their contracts.
    fn violated(
        &mut self,
        hooks: &HookSender,
        library: &Library,
        sessions: &Sessions,
        now_ns: u64,
    ) {
        for (title, totals) in sessions.totals() {
            let (known, last_ns) = self.violations.entry(title).or_insert((0, 0));
            let violations = totals.frames.violations;
            let is_due = *last_ns == 0 || now_ns.saturating_sub(*last_ns) >= VIOLATION_INTERVAL_NS;
            if violations <= *known || !is_due {
                continue;
            }
            let count = variable("VIOLATIONS", &(violations - *known).to_string());
            (*known, *last_ns) = (violations, now_ns);
            self.events += 1;
            let name = library.titles[title].stream_name();
            hooks.event(HookEvent::Violation, name, self.events, &[count]);
        }
    }

    /// Reports the end of everything.
    pub(crate) fn end(&mut self, hooks: &HookSender) {
        let events = (HookEvent::Publish, HookEvent::Unpublish);
        compare(hooks, events, &mut self.publishers, BTreeMap::new(), &mut self.events);
        let events = (HookEvent::Read, HookEvent::Unread);
        compare(hooks, events, &mut self.players, BTreeMap::new(), &mut self.events);
    }
}

/// Reports what has begun and what has ended since the last call, and changes `known`.
fn compare(
    hooks: &HookSender,
    (begin, end): (HookEvent, HookEvent),
    known: &mut BTreeMap<usize, (u64, Seen)>,
    now: Present,
    events: &mut u64,
) {
    known.retain(|number, (id, seen)| {
        let stays = now.get(number).is_some_and(|(other, ..)| other == id);
        if !stays {
            hooks.ended(begin, &seen.stream, seen.of);
            hooks.event(end, &seen.stream, seen.of, &seen.variables);
        }
        stays
    });
    for (number, (id, stream, variables)) in now {
        known.entry(number).or_insert_with(|| {
            *events += 1;
            hooks.event(begin, &stream, *events, &variables);
            (id, Seen { stream, of: *events, variables })
        });
    }
}
