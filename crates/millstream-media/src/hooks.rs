//! Hooks: commands of the scenario that run when something happens to a stream, and those that
//! publish a stream on demand.
//!
//! ```text
//! server (confined) ── socket: number of the hook, environment ──> runner ──> commands
//!                   <── outcomes ─────────────────────────────────┘
//! ```
//! The confined server starts no programs. The runner is a process that it starts before it is
//! confined. It knows the commands from its start on: the server names them by number and adds
//! environment variables, so a server under an attacker's control can run no other commands. It
//! parses no packets.

pub(crate) mod observer;
pub(crate) mod runner;

use millstream_scenario::{Hook, HookEvent};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::live::on_demand::Change;
use crate::srt::SrtCommand;

/// The longest message on the socket, bytes.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;

/// The longest value of an environment variable, bytes. Longer ones are cut.
const MAX_VALUE: usize = 1_024;

/// The name of the event that starts a command on demand.
const DEMAND: &str = "demand";

/// The name of the event that starts a receiver by SRT: the start of the server.
const SRT: &str = "srt";

/// The longest wait for the runner at the end of the server.
const END_TIMEOUT: Duration = Duration::from_secs(8);

/// A command, as the runner learns it at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HookCommand {
    /// What messages about it call it.
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) lasts: Lasts,
}

/// How long a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lasts {
    /// Until it exits.
    Once,
    /// Until it exits, at most until the end of what began it.
    While,
    /// Until the end of what began it: it is started again when it exits. One runs at a time.
    Always,
}

/// A message to the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The command of the next hook.
    Hook(HookCommand),
    /// Runs the hook with this number. `of` names what began it.
    Run { hook: u32, of: u64, environment: Vec<(String, String)> },
    /// Ends the commands of a `while` hook that `of` began.
    End { hook: u32, of: u64 },
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// It was started.
    Started,
    /// It ended with status 0, or at the server's request.
    Succeeded,
    /// It could not be started, or ended with another status.
    Failed,
    /// Too many commands run or wait.
    Dropped,
}

/// The counters of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookStatus {
    /// The event: `publish`, `unpublish`, `read`, `unread`, `segment` or `violation`. `demand`: the
    /// command publishes a stream on demand. `srt`: it receives a stream by SRT.
    pub event: String,
    /// The program.
    pub program: String,
    /// Commands started.
    pub started: u64,
    /// Commands that succeeded, or were ended with what began them.
    pub succeeded: u64,
    /// Commands that could not be started or failed.
    pub failed: u64,
    /// Events without a command, because too many ran.
    pub dropped: u64,
}

/// Sends events to the runner, from any thread.
#[derive(Clone, Debug)]
pub(crate) struct HookSender {
    socket: Arc<OwnedFd>,
    hooks: Arc<[Hook]>,
    /// The RTSP port, for commands on demand.
    rtsp_port: u16,
    /// Events that did not fit the socket, by hook.
    unsent: Arc<[AtomicU64]>,
    ends: Arc<Mutex<Ends>>,
}

/// The ends that the runner must learn of, by hook and what began the command.
#[derive(Debug, Default)]
struct Ends {
    /// Commands of `while` hooks that the runner was told to start and not to end.
    begun: BTreeSet<(u32, u64)>,
    /// Ends that are not sent yet, in order: a lost one would leave a command running.
    unsent: VecDeque<(u32, u64)>,
}

/// The hooks of a server, and their runner.
#[derive(Debug)]
pub(crate) struct Hooks {
    sender: HookSender,
    counts: Vec<HookStatus>,
    is_running: bool,
}

/// Returns the environment variable of a value.
pub(crate) fn variable(name: &str, value: &str) -> (String, String) {
    let mut value: String = value.chars().filter(|letter| !letter.is_control()).collect();
    let end = (0..=MAX_VALUE.min(value.len())).rfind(|at| value.is_char_boundary(*at));
    value.truncate(end.unwrap_or(0));
    (format!("MILLSTREAM_{name}"), value)
}

/// Encodes a message.
fn encoded(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_extend(message, Vec::new()).map_err(|error| io::Error::other(error.to_string()))
}

/// Returns the program of a command.
fn program(command: &[String]) -> &str {
    command.first().map_or("", String::as_str)
}

impl HookCommand {
    /// Creates the command of a hook.
    pub(crate) fn new(command: Vec<String>, lasts: Lasts) -> Self {
        Self { name: format!("hook `{}`", program(&command)), command, lasts }
    }
}

impl Hooks {
    /// Starts the runner of `hooks`, of the commands `on_demand`, which publish at `rtsp_port`, and
    /// of the commands `srt`, which run from now on. Returns `None` if there are none.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub(crate) fn start(
        hooks: &[Hook],
        on_demand: &[&[String]],
        srt: &[SrtCommand],
        rtsp_port: u16,
    ) -> io::Result<Option<Self>> {
        if hooks.is_empty() && on_demand.is_empty() && srt.is_empty() {
            return Ok(None);
        }
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Command::new(std::env::current_exe()?)
            .arg("hooks")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            // Keeps Ctrl-C from the process: the server ends it.
            .process_group(0)
            .spawn()?;
        let of_hook = |hook: &Hook| {
            let lasts = if hook.is_while { Lasts::While } else { Lasts::Once };
            HookCommand::new(hook.command.clone(), lasts)
        };
        let of_stream = |command: &&[String]| HookCommand::new(command.to_vec(), Lasts::Always);
        let of_srt = |srt: &SrtCommand| HookCommand {
            name: srt.name.clone(),
            command: srt.command.clone(),
            lasts: Lasts::Always,
        };
        let commands = hooks.iter().map(of_hook).chain(on_demand.iter().map(of_stream));
        for command in commands.chain(srt.iter().map(of_srt)) {
            send(&ours, &encoded(&Order::Hook(command))?, SendFlags::NOSIGNAL)?;
        }
        for number in (hooks.len() + on_demand.len()..).take(srt.len()) {
            let hook = u32::try_from(number).unwrap_or(u32::MAX);
            let environment = vec![variable("EVENT", SRT)];
            let run = Order::Run { hook, of: 0, environment };
            send(&ours, &encoded(&run)?, SendFlags::NOSIGNAL)?;
        }
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok(Some(Self::with_runner(hooks, on_demand, srt, rtsp_port, ours)))
    }

    /// Returns the hooks with a runner at the other end of a socket that does not block.
    fn with_runner(
        hooks: &[Hook],
        on_demand: &[&[String]],
        srt: &[SrtCommand],
        rtsp_port: u16,
        socket: OwnedFd,
    ) -> Self {
        let status = |event: &str, program: &str| HookStatus {
            event: event.to_owned(),
            program: program.to_owned(),
            ..HookStatus::default()
        };
        let counts = hooks.iter().map(|hook| status(hook.event.name(), program(&hook.command)));
        let counts = counts.chain(on_demand.iter().map(|command| status(DEMAND, program(command))));
        let counts = counts.chain(srt.iter().map(|_| status(SRT, crate::srt::PROGRAM)));
        let counts: Vec<_> = counts.collect();
        let sender = HookSender {
            socket: Arc::new(socket),
            hooks: hooks.into(),
            rtsp_port,
            unsent: counts.iter().map(|_| AtomicU64::new(0)).collect(),
            ends: Arc::default(),
        };
        Self { sender, counts, is_running: true }
    }

    /// Returns a sender of events.
    pub(crate) fn sender(&self) -> &HookSender {
        &self.sender
    }

    /// Reads the outcomes of commands, and sends the ends that did not fit the socket.
    pub(crate) fn receive(&mut self) {
        self.sender.send_ends();
        let mut message = [0; 64];
        while self.is_running {
            match recv(&*self.sender.socket, &mut message[..], RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.is_running = false;
                    eprintln!("the process that runs hooks has ended: no hook runs any more");
                }
                Ok((length, _)) => self.count(&message[..length.min(message.len())]),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn count(&mut self, message: &[u8]) {
        let Ok((hook, outcome)) = postcard::from_bytes::<(u32, Outcome)>(message) else { return };
        let Some(of) = self.counts.get_mut(hook as usize) else { return };
        *match outcome {
            Outcome::Started => &mut of.started,
            Outcome::Succeeded => &mut of.succeeded,
            Outcome::Failed => &mut of.failed,
            Outcome::Dropped => &mut of.dropped,
        } += 1;
    }

    /// Returns the counters of each hook.
    pub(crate) fn status(&self) -> Vec<HookStatus> {
        let all = self.counts.iter().zip(self.sender.unsent.iter());
        let status = |(of, unsent): (&HookStatus, &AtomicU64)| HookStatus {
            dropped: of.dropped + unsent.load(Ordering::Relaxed),
            ..of.clone()
        };
        all.map(status).collect()
    }

    /// Ends the runner and waits for its end: it ends the commands of `while` hooks.
    pub(crate) fn end(&mut self) {
        let _ = rustix::net::shutdown(&*self.sender.socket, rustix::net::Shutdown::Write);
        // The confined server may not wait for a process, but sees the end of the socket.
        let begun = Instant::now();
        let mut message = [0; 64];
        while begun.elapsed() < END_TIMEOUT {
            match recv(&*self.sender.socket, &mut message[..], RecvFlags::empty()) {
                Ok((0, _)) => return,
                Ok((length, _)) => self.count(&message[..length.min(message.len())]),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl HookSender {
    /// Returns whether the socket has taken the message.
    fn send(&self, order: &Order) -> bool {
        encoded(order).is_ok_and(|order| {
            order.len() <= MAX_MESSAGE
                && send(self.socket.as_fd(), &order, SendFlags::NOSIGNAL).is_ok()
        })
    }

    fn send_ends(&self) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((hook, of)) = ends.unsent.front().copied()
            && self.send(&Order::End { hook, of })
        {
            ends.unsent.pop_front();
        }
    }

    /// Tells the runner to run or to end a command on demand. `name` returns the name of a stream.
    /// Returns whether the runner has got it.
    pub(crate) fn change<'a>(&self, change: Change, name: impl Fn(usize) -> &'a str) -> bool {
        // The commands on demand follow the hooks.
        let number = |command| u32::try_from(self.hooks.len() + command).unwrap_or(u32::MAX);
        self.send(&match change {
            Change::Begin { command, run, stream } => Order::Run {
                hook: number(command),
                of: run,
                environment: vec![
                    variable("EVENT", DEMAND),
                    variable("STREAM", name(stream)),
                    variable("RTSP_PORT", &self.rtsp_port.to_string()),
                ],
            },
            Change::End { command, run } => Order::End { hook: number(command), of: run },
        })
    }

    /// Returns whether any hook is for this event.
    pub(crate) fn has(&self, event: HookEvent) -> bool {
        self.hooks.iter().any(|hook| hook.event == event)
    }

    /// Reports an event of a stream. `of` names what began, for [`ended`](Self::ended).
    pub(crate) fn event(
        &self,
        event: HookEvent,
        stream: &str,
        of: u64,
        variables: &[(String, String)],
    ) {
        for (number, hook) in (0..).zip(self.hooks.iter()) {
            if hook.event != event || !hook.is_for(stream) {
                continue;
            }
            let own = [variable("EVENT", event.name()), variable("STREAM", stream)];
            let environment = own.iter().chain(variables).cloned().collect();
            if !self.send(&Order::Run { hook: number, of, environment }) {
                self.unsent[number as usize].fetch_add(1, Ordering::Relaxed);
            } else if hook.is_while {
                let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
                ends.begun.insert((number, of));
            }
        }
    }

    /// Reports the end of what `of` began, now or at a later [`Hooks::receive`].
    pub(crate) fn ended(&self, event: HookEvent, stream: &str, of: u64) {
        for (number, hook) in (0..).zip(self.hooks.iter()) {
            if hook.event == event && hook.is_while && hook.is_for(stream) {
                let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
                // If its start was not sent, the runner does not know the command.
                if ends.begun.remove(&(number, of)) {
                    ends.unsent.push_back((number, of));
                }
            }
        }
        self.send_ends();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a hook that is for all streams.
    pub(super) fn hook(event: HookEvent, is_while: bool) -> Hook {
        Hook { event, command: vec!["true".to_owned()], streams: None, is_while }
    }

    /// Returns hooks and a command on demand without a runner, and the runner's end of their
    /// socket.
    pub(super) fn hooks(hooks: &[Hook]) -> (Hooks, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.unwrap();
        (Hooks::with_runner(hooks, &[&["publish".to_owned()]], &[], 554, ours), theirs)
    }

    /// Returns the messages that a runner finds in its socket.
    pub(super) fn orders(theirs: &OwnedFd) -> Vec<Order> {
        let (mut found, mut message) = (Vec::new(), vec![0; MAX_MESSAGE]);
        while let Ok((length, _)) = recv(theirs, &mut message[..], RecvFlags::empty()) {
            found.push(postcard::from_bytes(&message[..length]).unwrap());
        }
        found
    }

    #[test]
    fn an_end_that_does_not_fit_the_socket_is_sent_later() {
        let (mut hooks, theirs) =
            hooks(&[hook(HookEvent::Read, true), hook(HookEvent::Unread, false)]);
        let sender = hooks.sender().clone();
        sender.event(HookEvent::Read, "cam", 1, &[]);
        while hooks.status()[1].dropped == 0 {
            sender.event(HookEvent::Unread, "cam", 1, &[]);
        }
        sender.event(HookEvent::Read, "cam", 2, &[]);
        // The runner never learns that the second command began.
        sender.ended(HookEvent::Read, "cam", 1);
        sender.ended(HookEvent::Read, "cam", 2);
        hooks.receive();
        let dropped: Vec<_> = hooks.status().iter().map(|of| of.dropped).collect();
        assert_eq!(dropped, [1, 1, 0]);
        let ends = |order: &Order| matches!(order, Order::End { .. });
        assert!(!orders(&theirs).iter().any(ends));
        hooks.receive();
        assert_eq!(orders(&theirs), [Order::End { hook: 0, of: 1 }]);
        hooks.receive();
        assert_eq!(orders(&theirs), []);
    }

    #[test]
    fn a_command_on_demand_follows_the_hooks() {
        let (mut hooks, theirs) = hooks(&[hook(HookEvent::Read, true)]);
        let sender = hooks.sender().clone();
        let name = |stream| ["film", "cam"][stream];
        assert!(sender.change(Change::Begin { command: 0, run: 7, stream: 1 }, name));
        assert!(sender.change(Change::End { command: 0, run: 7 }, name));
        let environment = vec![
            variable("EVENT", "demand"),
            variable("STREAM", "cam"),
            variable("RTSP_PORT", "554"),
        ];
        let expected = [Order::Run { hook: 1, of: 7, environment }, Order::End { hook: 1, of: 7 }];
        assert_eq!(orders(&theirs), expected);
        let started = encoded(&(1_u32, Outcome::Started)).unwrap();
        send(&theirs, &started, SendFlags::NOSIGNAL).unwrap();
        hooks.receive();
        let status = hooks.status();
        assert_eq!((status[1].event.as_str(), status[1].started), ("demand", 1));
    }

    #[test]
    fn values_of_variables_have_a_limit_and_no_control_characters() {
        assert_eq!(variable("PEER", "a\nb\0c"), ("MILLSTREAM_PEER".into(), "abc".into()));
        let long = variable("FILE", &"ä".repeat(2_000)).1;
        assert_eq!((long.len(), long.chars().all(|letter| letter == 'ä')), (1_024, true));
    }

    #[test]
    fn messages_survive_the_socket() {
        let environment = vec![variable("STREAM", "cam")];
        let order = Order::Run { hook: 3, of: 7, environment };
        let bytes = encoded(&order).unwrap();
        assert_eq!(postcard::from_bytes::<Order>(&bytes).unwrap(), order);
    }
}
