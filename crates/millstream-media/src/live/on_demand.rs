//! Live streams on demand: a command publishes the stream while it has players or held requests.
//!
//! ```text
//! request of a player ──> held ── published ──────────────────> answered
//!      │ starts            └───── not within `start` ─────────> refused
//!      v
//! command runs ── no request and no player for `close` ──> ended
//! ```
//! The runner of hooks starts the command, and again when it exits, until this module ends it.

use std::net::IpAddr;

use super::Unavailable;
use super::held::HeldRequests;
use crate::pages::rejects::limited_address;

/// The most requests that are held, in all and per client address.
const MAX_HELD: usize = 256;
const MAX_HELD_PER_ADDRESS: usize = 16;

/// The command of a stream.
#[derive(Debug)]
struct Command {
    /// The index of the live stream.
    stream: usize,
    start_ns: u64,
    close_ns: u64,
    /// The number of the run that is wanted, and when a client last needed it, ns.
    wanted: Option<(u64, u64)>,
    /// The number of the run that the runner was told to begin.
    told: Option<u64>,
}

/// A change for the runner. The numbers are those of the command and of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Begin to run the command of the live stream `stream`.
    Begin { command: usize, run: u64, stream: usize },
    /// End the run.
    End { command: usize, run: u64 },
}

/// The commands that publish streams on demand, and the requests that wait for them.
#[derive(Debug, Default)]
pub(crate) struct OnDemand {
    commands: Vec<Command>,
    /// Requests that wait for a publisher: of this stream, from this address.
    pub(super) held: HeldRequests<(usize, IpAddr)>,
    /// The number of runs so far.
    runs: u64,
}

impl OnDemand {
    /// Creates the commands of these streams: the index of the stream, the time that a request
    /// waits, and the time without players until the end of the command, ns.
    pub(crate) fn new(streams: impl Iterator<Item = (usize, u64, u64)>) -> Self {
        let command = |(stream, start_ns, close_ns)| Command {
            stream,
            start_ns,
            close_ns,
            wanted: None,
            told: None,
        };
        Self { commands: streams.map(command).collect(), held: HeldRequests::default(), runs: 0 }
    }

    /// Returns whether a command publishes the stream.
    pub(crate) fn has(&self, stream: usize) -> bool {
        self.commands.iter().any(|command| command.stream == stream)
    }

    /// Returns whether no command publishes the stream, and no request waits for it.
    pub(crate) fn is_idle(&self, stream: usize) -> bool {
        let runs = |of: &Command| of.wanted.is_some() || of.told.is_some();
        !self.commands.iter().any(|command| command.stream == stream && runs(command))
            && !self.held.wanted().any(|(of, _)| *of == stream)
    }

    /// Requests a stream that has a command for a player at `connection`. Starts the command
    /// unless the stream is published, and holds the request until it is.
    ///
    /// # Errors
    /// Fails if the request is held, has waited in vain, or if too many are held.
    pub(crate) fn request(
        &mut self,
        (stream, name): (usize, &str),
        (connection, peer): (usize, IpAddr),
        published: bool,
        now_ns: u64,
    ) -> Result<(), Unavailable> {
        let Some(command) = self.commands.iter_mut().find(|command| command.stream == stream)
        else {
            return Ok(());
        };
        if let Some((_, used_ns)) = &mut command.wanted {
            *used_ns = now_ns;
        }
        if published {
            return Ok(());
        }
        if self.held.has(connection) {
            let seconds = command.start_ns / 1_000_000_000;
            let why = format!("`{name}`: its command did not publish it within {seconds} s");
            return Err(Unavailable::Missing(why));
        }
        let peer = limited_address(peer);
        let of_peer = self.held.wanted().filter(|(_, from)| *from == peer).count();
        if self.held.wanted().len() >= MAX_HELD || of_peer >= MAX_HELD_PER_ADDRESS {
            let why = format!("`{name}`: too many requests wait for publishers");
            return Err(Unavailable::Busy(why));
        }
        if command.wanted.is_none() {
            self.runs += 1;
            command.wanted = Some((self.runs, now_ns));
        }
        let until_ns = now_ns.saturating_add(command.start_ns);
        self.held.hold(connection, (stream, peer), until_ns);
        Err(Unavailable::Busy(format!("`{name}`: waiting for its publisher")))
    }

    /// Starts the command of each stream that has players or held requests. Ends the others after
    /// `on-demand-close`. Returns the connections whose held requests can be answered now; while
    /// the server drains, these are all. `published` returns whether a stream has a publisher,
    /// `played` whether it has players.
    pub(crate) fn tick(
        &mut self,
        published: impl Fn(usize) -> bool,
        played: impl Fn(usize) -> bool,
        draining: bool,
        now_ns: u64,
    ) -> Vec<usize> {
        let due = self.held.due(|(stream, _)| draining || published(*stream), now_ns);
        for command in &mut self.commands {
            let played = played(command.stream);
            let waits = self.held.wanted().any(|(stream, _)| *stream == command.stream);
            match command.wanted {
                Some((run, _)) if played || waits => command.wanted = Some((run, now_ns)),
                Some((_, used_ns)) if now_ns.saturating_sub(used_ns) >= command.close_ns => {
                    command.wanted = None;
                }
                // The players of a server that has crashed.
                None if played && !published(command.stream) => {
                    self.runs += 1;
                    command.wanted = Some((self.runs, now_ns));
                }
                _ => {}
            }
        }
        due
    }

    /// Gives `send` the changes that the runner does not know. It returns whether the runner has
    /// got a change; the others are given again by the next call.
    pub(crate) fn send_changes(&mut self, mut send: impl FnMut(Change) -> bool) {
        for (number, command) in self.commands.iter_mut().enumerate() {
            let wanted = command.wanted.map(|(run, _)| run);
            if command.told == wanted {
                continue;
            }
            if let Some(run) = command.told
                && send(Change::End { command: number, run })
            {
                command.told = None;
            }
            if let Some(run) = wanted.filter(|_| command.told.is_none()) {
                let begin = Change::Begin { command: number, run, stream: command.stream };
                command.told = send(begin).then_some(run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Returns the command of stream 3; requests wait for 5 s, and it ends 2 s after the last.
    fn on_demand() -> OnDemand {
        OnDemand::new([(3, 5 * S, 2 * S)].into_iter())
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn request(on_demand: &mut OnDemand, connection: usize, published: bool, now_ns: u64) -> u16 {
        let address = peer(u8::try_from(connection % 256).unwrap());
        let result = on_demand.request((3, "cam"), (connection, address), published, now_ns);
        match result {
            Ok(()) => 200,
            Err(Unavailable::Missing(why)) => {
                assert!(why.contains("within 5 s"), "{why}");
                404
            }
            Err(Unavailable::Busy(_)) => 503,
        }
    }

    fn tick(on_demand: &mut OnDemand, usage: [bool; 2], now_ns: u64) -> Vec<usize> {
        let [published, played] = usage;
        on_demand.tick(|_| published, |_| played, false, now_ns)
    }

    fn changes(on_demand: &mut OnDemand) -> Vec<Change> {
        let mut all = Vec::new();
        on_demand.send_changes(|change| {
            all.push(change);
            true
        });
        all
    }

    fn begin(run: u64) -> Change {
        Change::Begin { command: 0, run, stream: 3 }
    }

    fn end(run: u64) -> Change {
        Change::End { command: 0, run }
    }

    #[test]
    fn a_request_is_held_until_the_stream_is_published() {
        let mut of = on_demand();
        assert!(of.has(3) && !of.has(2));
        assert_eq!(changes(&mut of), []);
        assert_eq!(request(&mut of, 7, false, S), 503);
        assert!(of.held.is_waiting(7) && !of.held.is_resumed(7) && !of.held.is_waiting(8));
        assert!(of.is_idle(2) && !of.is_idle(3));
        assert_eq!((changes(&mut of), changes(&mut of)), (vec![begin(1)], vec![]));
        assert_eq!(tick(&mut of, [false, false], 2 * S), [0; 0]);
        assert_eq!(tick(&mut of, [true, false], 3 * S), [7]);
        assert_eq!(tick(&mut of, [true, false], 3 * S), [0; 0], "once");
        assert!(!of.held.is_waiting(7) && of.held.is_resumed(7));
        assert_eq!(request(&mut of, 7, true, 3 * S), 200);
        of.held.answered(7);
        assert!(!of.held.is_resumed(7));
        // It plays, then leaves.
        assert_eq!(tick(&mut of, [true, true], 9 * S), [0; 0]);
        tick(&mut of, [true, false], 11 * S - 1);
        assert_eq!(changes(&mut of), []);
        tick(&mut of, [true, false], 11 * S);
        assert!(!of.is_idle(3), "until the runner knows of the end");
        assert_eq!(changes(&mut of), [end(1)]);
        assert!(of.is_idle(3));
        // The next player has a run of its own.
        assert_eq!(request(&mut of, 8, false, 12 * S), 503);
        assert_eq!(changes(&mut of), [begin(2)]);
    }

    #[test]
    fn a_request_that_waits_in_vain_is_refused() {
        let mut of = on_demand();
        assert_eq!(request(&mut of, 7, false, S), 503);
        assert_eq!(request(&mut of, 8, false, 2 * S), 503);
        assert_eq!(tick(&mut of, [false, false], 6 * S - 1), [0; 0]);
        assert_eq!(tick(&mut of, [false, false], 6 * S), [7]);
        assert_eq!(request(&mut of, 7, false, 6 * S), 404);
        of.held.answered(7);
        // The command runs on for the other request, then for the time to close.
        assert_eq!(tick(&mut of, [false, false], 7 * S), [8]);
        of.held.answered(8);
        tick(&mut of, [false, false], 9 * S - 1);
        assert_eq!(changes(&mut of), [begin(1)]);
        tick(&mut of, [false, false], 9 * S);
        assert_eq!(changes(&mut of), [end(1)]);
    }

    #[test]
    fn held_requests_are_bounded_and_free_their_place() {
        let mut of = on_demand();
        let mut ask = |connection: usize, address: u8| {
            let _ = of.request((3, "cam"), (connection, peer(address)), false, S);
            let held = of.held.is_waiting(connection);
            if connection == 5 {
                of.held.closed(5);
            }
            held
        };
        for connection in 0..=MAX_HELD_PER_ADDRESS {
            assert!(ask(connection, 1), "one of them has closed");
        }
        assert!(!ask(100, 1));
        let others = (MAX_HELD_PER_ADDRESS..MAX_HELD).map(|number| number + 1_000);
        for (connection, address) in others.zip((20..).flat_map(|address| [address; 2])) {
            assert!(ask(connection, address));
        }
        assert!(!ask(9_999, 9));
        assert_eq!(of.held.wanted().len(), MAX_HELD);
        assert_eq!(of.tick(|_| false, |_| false, true, S).len(), MAX_HELD);
    }

    #[test]
    fn players_that_wait_for_a_publisher_need_its_command() {
        let mut of = on_demand();
        // Another publishes.
        tick(&mut of, [true, true], S);
        assert_eq!(changes(&mut of), []);
        tick(&mut of, [false, true], 2 * S);
        // The runner does not take the change at once.
        of.send_changes(|change| {
            assert_eq!(change, begin(1));
            false
        });
        assert_eq!(changes(&mut of), [begin(1)]);
        tick(&mut of, [true, false], 4 * S);
        of.send_changes(|_| false);
        assert_eq!(request(&mut of, 1, false, 4 * S), 503);
        // The end of the first run comes before the second.
        assert_eq!(changes(&mut of), [end(1), begin(2)]);
    }
}
