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

use super::{HookCommand, MAX_MESSAGE, Order, Outcome, encoded};

/// The most commands at once, and the most that wait.
const MAX_RUNNING: usize = 32;
const MAX_WAITING: usize = 256;

/// The time between two looks at running commands.
const LOOK_NS: i64 = 50_000_000;

/// The time from SIGTERM to SIGKILL.
const TERM_TIME: Duration = Duration::from_secs(5);

/// A command that runs.
#[derive(Debug)]
struct Running {
    hook: usize,
    of: u64,
    child: Child,
    /// When it was asked to end.
    asked: Option<Instant>,
}

/// A command that waits for another's end.
#[derive(Debug)]
struct Waiting {
    hook: usize,
    of: u64,
    environment: Vec<(String, String)>,
}

/// The commands of the runner.
#[derive(Debug)]
struct Runner {
    socket: OwnedFd,
    hooks: Vec<HookCommand>,
    running: Vec<Running>,
    waiting: VecDeque<Waiting>,
}

/// Runs the commands of hooks in a process that a server has started, until the server's end. Then
/// it ends the commands of `while` hooks.
///
/// # Errors
/// Fails if a server did not start this process.
pub fn run_hooks() -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let mut runner =
        Runner { socket, hooks: Vec::new(), running: Vec::new(), waiting: VecDeque::new() };
    let mut message = vec![0; MAX_MESSAGE];
    loop {
        runner.look();
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
    /// Waits for a message, or until it is time to look at the commands.
    fn is_readable(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
        let timeout = (!self.running.is_empty()).then_some(&look);
        match poll(&mut polled, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn execute(&mut self, order: Order) {
        match order {
            Order::Hook(command) => self.hooks.push(command),
            Order::Run { hook, of, environment } => {
                let hook = hook as usize;
                if hook >= self.hooks.len() {
                    return;
                }
                if self.running.len() < MAX_RUNNING {
                    self.start(&Waiting { hook, of, environment });
                } else if self.waiting.len() < MAX_WAITING {
                    self.waiting.push_back(Waiting { hook, of, environment });
                } else {
                    self.report(hook, Outcome::Dropped);
                }
            }
            Order::End { hook, of } => {
                let hook = hook as usize;
                self.waiting.retain(|waiting| (waiting.hook, waiting.of) != (hook, of));
                let of = |running: &&mut Running| (running.hook, running.of) == (hook, of);
                self.running.iter_mut().filter(of).for_each(Running::ask_to_end);
            }
        }
    }

    fn start(&mut self, waiting: &Waiting) {
        let Some((program, arguments)) = self.hooks[waiting.hook].command.split_first() else {
            return;
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(waiting.environment.iter().cloned());
        // Output of a command is part of the server's log. Its own group, to end all it starts.
        let output = io::stderr().as_fd().try_clone_to_owned();
        let output = output.map_or_else(|_| Stdio::null(), Stdio::from);
        match command.stdin(Stdio::null()).stdout(output).process_group(0).spawn() {
            Ok(child) => {
                self.report(waiting.hook, Outcome::Started);
                let (hook, of) = (waiting.hook, waiting.of);
                self.running.push(Running { hook, of, child, asked: None });
            }
            Err(error) => {
                eprintln!("hook `{program}` cannot be started: {error}");
                self.report(waiting.hook, Outcome::Failed);
            }
        }
    }

    /// Counts commands that have ended, kills those that do not end, and starts those that wait.
    fn look(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            let running = &mut self.running[at];
            let Ok(Some(status)) = running.child.try_wait() else {
                if running.asked.is_some_and(|asked| asked.elapsed() > TERM_TIME) {
                    running.signal(Signal::KILL);
                }
                at += 1;
                continue;
            };
            let Running { hook, asked, .. } = self.running.swap_remove(at);
            let outcome = if status.success() || asked.is_some() {
                Outcome::Succeeded
            } else {
                let program = self.hooks[hook].command.first().map_or("", String::as_str);
                eprintln!("hook `{program}` failed: {status}");
                Outcome::Failed
            };
            self.report(hook, outcome);
        }
        while self.running.len() < MAX_RUNNING
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.start(&waiting);
        }
    }

    fn report(&self, hook: usize, outcome: Outcome) {
        let number = u32::try_from(hook).unwrap_or(u32::MAX);
        if let Ok(message) = encoded(&(number, outcome)) {
            // A server that does not read loses counts, not commands.
            let _ = send(&self.socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Ends the commands of `while` hooks and waits for their end. Others finish by themselves.
    fn end(&mut self) {
        self.running.retain(|running| self.hooks[running.hook].is_while);
        self.running.iter_mut().for_each(Running::ask_to_end);
        self.waiting.clear();
        while !self.running.is_empty() {
            self.look();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Running {
    fn ask_to_end(&mut self) {
        self.asked.get_or_insert_with(Instant::now);
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    }
}
