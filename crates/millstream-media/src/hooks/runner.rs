//! The process that runs the commands of hooks.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{HookCommand, Lasts, MAX_MESSAGE, Order, Outcome, encoded};

/// The most commands of a hook at once, and the most that wait. No hook delays another: commands
/// of a `while` hook can run for days.
const MAX_RUNNING: usize = 32;
const MAX_WAITING: usize = 256;

/// The time between two polls of running commands.
const POLL_INTERVAL_NS: i64 = 50_000_000;

/// The time from SIGTERM to SIGKILL.
const TERM_TIME: Duration = Duration::from_secs(5);

/// The least time between two starts of a command that always runs, and the most. It doubles with
/// each exit, until the command has run for `LONG_RUN`.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(16);
const LONG_RUN: Duration = Duration::from_secs(30);

/// A command that runs.
#[derive(Debug)]
struct Running {
    order: Waiting,
    child: Child,
    started_at: Instant,
    /// When it got SIGTERM.
    terminated_at: Option<Instant>,
}

/// A command that waits for another's end, or for its next start.
#[derive(Clone, Debug)]
struct Waiting {
    of: u64,
    environment: Vec<(String, String)>,
}

/// The commands of a hook.
#[derive(Debug)]
struct HookQueue {
    hook: HookCommand,
    running: Vec<Running>,
    waiting: VecDeque<Waiting>,
    /// The pause after the next exit of a command that always runs.
    pause: Duration,
    /// When a command that always runs may start.
    due_at: Instant,
}

/// The commands of the runner.
#[derive(Debug)]
struct Runner {
    socket: OwnedFd,
    hooks: Vec<HookQueue>,
}

/// Runs the commands of hooks in a process that a server has started, until the server's end. Then
/// it ends the commands of `while` hooks.
///
/// # Errors
/// Fails if a server did not start this process.
pub fn run_hooks() -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let mut runner = Runner { socket, hooks: Vec::new() };
    let mut message = vec![0; MAX_MESSAGE];
    loop {
        runner.reap();
        if !runner.is_readable()? {
            continue;
        }
        match recv(&runner.socket, &mut message[..], RecvFlags::empty()) {
            // A server that was killed may have left outcomes unread.
            Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE) => break,
            Ok((length, _)) => match postcard::from_bytes(&message[..length.min(MAX_MESSAGE)]) {
                Ok(order) => runner.execute(order),
                Err(_) => eprintln!("a message about a hook is damaged"),
            },
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::NOTSOCK | Errno::NOTCONN) => {
                return Err(io::Error::other("only `millstream serve` starts this command"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    runner.end();
    Ok(())
}

impl Runner {
    /// Waits for a message, or until it is time to poll the commands.
    fn is_readable(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let interval = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL_NS };
        let waits = self.hooks.iter().any(|queue| !queue.waiting.is_empty());
        let timeout = (self.has_running() || waits).then_some(&interval);
        match poll(&mut polled, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn has_running(&self) -> bool {
        self.hooks.iter().any(|queue| !queue.running.is_empty())
    }

    fn execute(&mut self, order: Order) {
        match order {
            Order::Hook(hook) => {
                self.hooks.push(HookQueue::new(hook));
            }
            Order::Run { hook, of, environment } => {
                let hook = hook as usize;
                let Some(queue) = self.hooks.get_mut(hook) else { return };
                if queue.may_start() {
                    self.start(hook, Waiting { of, environment });
                } else if queue.waiting.len() < MAX_WAITING {
                    queue.waiting.push_back(Waiting { of, environment });
                } else {
                    self.report(hook, Outcome::Dropped);
                }
            }
            Order::End { hook, of } => {
                let hook = hook as usize;
                let Some(queue) = self.hooks.get_mut(hook) else { return };
                let before = queue.waiting.len();
                queue.waiting.retain(|waiting| waiting.of != of);
                let dropped = before - queue.waiting.len();
                let of = |running: &&mut Running| running.order.of == of;
                queue.running.iter_mut().filter(of).for_each(Running::terminate);
                // One that always runs may wait for its next start.
                let dropped = if queue.always_runs() { 0 } else { dropped };
                (0..dropped).for_each(|_| self.report(hook, Outcome::Dropped));
            }
        }
    }

    fn start(&mut self, hook: usize, order: Waiting) {
        let queue = &mut self.hooks[hook];
        queue.due_at = Instant::now() + MIN_PAUSE;
        let Some((program, arguments)) = queue.hook.command.split_first() else { return };
        let mut command = Command::new(program);
        command.args(arguments).envs(order.environment.iter().cloned());
        // Output of a command is part of the server's log. Its own group, to end all it starts.
        let output = io::stderr().as_fd().try_clone_to_owned();
        let output = output.map_or_else(|_| Stdio::null(), Stdio::from);
        match command.stdin(Stdio::null()).stdout(output).process_group(0).spawn() {
            Ok(child) => {
                let started_at = Instant::now();
                queue.running.push(Running { order, child, started_at, terminated_at: None });
                self.report(hook, Outcome::Started);
            }
            Err(error) => {
                eprintln!("{} cannot be started: {error}", queue.hook.name);
                if queue.always_runs() {
                    queue.start_again(order, Duration::ZERO);
                }
                self.report(hook, Outcome::Failed);
            }
        }
    }

    /// Counts commands that have ended, kills those that do not end, and starts those that wait.
    fn reap(&mut self) {
        for hook in 0..self.hooks.len() {
            let queue = &mut self.hooks[hook];
            let (mut outcomes, mut exited) = (Vec::new(), Vec::new());
            let name = &queue.hook.name;
            queue.running.retain_mut(|running| {
                let outcome = running.poll(name);
                outcomes.extend(outcome);
                if outcome.is_some() && running.terminated_at.is_none() {
                    exited.push((running.order.clone(), running.started_at.elapsed()));
                }
                outcome.is_none()
            });
            if queue.always_runs() {
                for (order, ran) in exited {
                    queue.start_again(order, ran);
                }
            }
            outcomes.into_iter().for_each(|outcome| self.report(hook, outcome));
            while self.hooks[hook].may_start()
                && let Some(order) = self.hooks[hook].waiting.pop_front()
            {
                self.start(hook, order);
            }
        }
    }

    fn report(&self, hook: usize, outcome: Outcome) {
        let number = u32::try_from(hook).unwrap_or(u32::MAX);
        if let Ok(message) = encoded(&(number, outcome)) {
            // A server that does not read loses counts, not commands.
            let _ = send(&self.socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Ends the commands with an end and waits for it. Commands of other hooks finish
    /// by themselves.
    fn end(&mut self) {
        for queue in &mut self.hooks {
            queue.waiting.clear();
            queue.running.retain(|_| queue.hook.lasts != Lasts::Once);
            queue.running.iter_mut().for_each(Running::terminate);
        }
        while self.has_running() {
            self.reap();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl HookQueue {
    fn new(hook: HookCommand) -> Self {
        let (running, waiting) = (Vec::new(), VecDeque::new());
        Self { hook, running, waiting, pause: MIN_PAUSE, due_at: Instant::now() }
    }

    fn always_runs(&self) -> bool {
        self.hook.lasts == Lasts::Always
    }

    /// Returns whether another command may start now.
    fn may_start(&self) -> bool {
        if self.always_runs() {
            return self.running.is_empty() && Instant::now() >= self.due_at;
        }
        self.running.len() < MAX_RUNNING
    }

    /// Starts a command that has run for a time once more, after a pause.
    fn start_again(&mut self, order: Waiting, ran: Duration) {
        if ran >= LONG_RUN {
            self.pause = MIN_PAUSE;
        }
        self.due_at = Instant::now() + self.pause;
        self.pause = (2 * self.pause).min(MAX_PAUSE);
        self.waiting.push_front(order);
    }
}

impl Running {
    /// Returns how the command has ended, `None` if it runs. Kills it if it does not end.
    fn poll(&mut self, name: &str) -> Option<Outcome> {
        let Ok(Some(status)) = self.child.try_wait() else {
            if self.terminated_at.is_some_and(|at| at.elapsed() > TERM_TIME) {
                self.signal(Signal::KILL);
            }
            return None;
        };
        if status.success() || self.terminated_at.is_some() {
            return Some(Outcome::Succeeded);
        }
        eprintln!("{name} failed: {status}");
        Some(Outcome::Failed)
    }

    fn terminate(&mut self) {
        self.terminated_at.get_or_insert_with(Instant::now);
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Hooks;
    use crate::hooks::tests::{hook, hooks};
    use millstream_scenario::HookEvent;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn command(words: &[&str], lasts: Lasts) -> Order {
        let command = words.iter().map(|&word| word.to_owned()).collect();
        Order::Hook(HookCommand::new(command, lasts))
    }

    fn run(runner: &mut Runner, hook: u32, of: u64) {
        runner.execute(Order::Run { hook, of, environment: Vec::new() });
    }

    /// Reaps commands until a hook has `expected` numbers of running and of waiting ones.
    fn reap_until(runner: &mut Runner, hook: usize, expected: [usize; 2]) {
        let end = Instant::now() + TIMEOUT;
        let counts = |runner: &Runner| {
            let HookQueue { running, waiting, .. } = &runner.hooks[hook];
            [running.len(), waiting.len()]
        };
        while counts(runner) != expected {
            assert!(Instant::now() < end, "{:?}, expected {expected:?}", counts(runner));
            std::thread::sleep(Duration::from_millis(5));
            runner.reap();
        }
    }

    /// Returns how many commands of a hook started, succeeded, failed and were dropped.
    fn outcomes(counted: &mut Hooks, hook: usize) -> [u64; 4] {
        counted.receive();
        let of = &counted.status()[hook];
        [of.started, of.succeeded, of.failed, of.dropped]
    }

    #[test]
    fn the_commands_of_a_hook_have_a_limit_that_delays_no_other_hook() {
        let (mut counted, socket) =
            hooks(&[hook(HookEvent::Read, true), hook(HookEvent::Publish, true)]);
        let mut runner = Runner { socket, hooks: Vec::new() };
        for command in [&["sleep", "60"][..], &["true"]] {
            runner.execute(self::command(command, Lasts::While));
        }
        let started = MAX_RUNNING as u64;
        for of in 0..started + MAX_WAITING as u64 + 3 {
            run(&mut runner, 0, of);
            // The server reads outcomes all the time.
            counted.receive();
        }
        reap_until(&mut runner, 0, [MAX_RUNNING, MAX_WAITING]);
        // Another hook runs at once.
        run(&mut runner, 1, 1);
        reap_until(&mut runner, 1, [0, 0]);
        // A command that ends makes room for the next one; one that waits need not begin.
        runner.execute(Order::End { hook: 0, of: 5 });
        runner.execute(Order::End { hook: 0, of: started + 7 });
        reap_until(&mut runner, 0, [MAX_RUNNING, MAX_WAITING - 2]);
        assert!(runner.hooks[0].running.iter().any(|running| running.order.of == started));
        runner.end();
        assert_eq!(outcomes(&mut counted, 0), [started + 1, started + 1, 0, 4]);
        assert_eq!(outcomes(&mut counted, 1), [1, 1, 0, 0]);
    }

    #[test]
    fn a_command_on_demand_starts_again_after_a_growing_pause() {
        let (mut counted, socket) = hooks(&[]);
        let mut runner = Runner { socket, hooks: Vec::new() };
        runner.execute(command(&["false"], Lasts::Always));
        run(&mut runner, 0, 1);
        for pause in [2, 4, 8, 16, 16].map(Duration::from_secs) {
            // Exits, and waits for its next start.
            reap_until(&mut runner, 0, [0, 1]);
            assert_eq!(runner.hooks[0].pause, pause);
            runner.hooks[0].due_at = Instant::now();
            runner.reap();
        }
        // Its end takes it out, and a later run keeps the pause.
        reap_until(&mut runner, 0, [0, 1]);
        runner.execute(Order::End { hook: 0, of: 1 });
        reap_until(&mut runner, 0, [0, 0]);
        run(&mut runner, 0, 2);
        reap_until(&mut runner, 0, [0, 1]);
        runner.end();
        assert_eq!(outcomes(&mut counted, 0), [6, 0, 6, 0]);
    }

    #[test]
    fn one_command_on_demand_runs_at_a_time_until_its_end() {
        let (mut counted, socket) = hooks(&[]);
        let mut runner = Runner { socket, hooks: Vec::new() };
        runner.execute(command(&["sleep", "60"], Lasts::Always));
        run(&mut runner, 0, 1);
        run(&mut runner, 0, 2);
        reap_until(&mut runner, 0, [1, 1]);
        runner.hooks[0].due_at += TIMEOUT;
        runner.execute(Order::End { hook: 0, of: 1 });
        reap_until(&mut runner, 0, [0, 1]);
        runner.hooks[0].due_at = Instant::now();
        reap_until(&mut runner, 0, [1, 0]);
        assert_eq!(runner.hooks[0].running[0].order.of, 2);
        assert_eq!(runner.hooks[0].pause, MIN_PAUSE);
        // A long run is no failure in a row.
        runner.hooks[0].pause = MAX_PAUSE;
        runner.hooks[0].start_again(Waiting { of: 3, environment: Vec::new() }, LONG_RUN);
        assert_eq!(runner.hooks[0].pause, 2 * MIN_PAUSE);
        runner.end();
        assert_eq!(outcomes(&mut counted, 0), [2, 2, 0, 0]);
    }

    #[test]
    fn a_command_that_ignores_sigterm_is_killed() {
        let (mut counted, socket) = hooks(&[hook(HookEvent::Read, true)]);
        let mut runner = Runner { socket, hooks: Vec::new() };
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script = format!("trap '' TERM; : > '{}'; while :; do sleep 1; done", ready.display());
        runner.execute(command(&["sh", "-c", &script], Lasts::While));
        run(&mut runner, 0, 9);
        let end = Instant::now() + TIMEOUT;
        while !ready.exists() {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
        }
        runner.execute(Order::End { hook: 0, of: 9 });
        // As if the time had passed.
        let Some(earlier) = Instant::now().checked_sub(2 * TERM_TIME) else { return };
        runner.hooks[0].running[0].terminated_at = Some(earlier);
        reap_until(&mut runner, 0, [0, 0]);
        counted.receive();
        assert_eq!((counted.status()[0].started, counted.status()[0].succeeded), (1, 1));
    }
}
