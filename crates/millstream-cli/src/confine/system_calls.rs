//! The system calls that a live program makes once it runs, and no others (seccomp(2)): a hole in
//! what reads packets, files or requests is worth less.
//!
//! | a call | |
//! |---|---|
//! | listed | goes through |
//! | listed, with arguments of [`refused`] | fails with EPERM: libraries continue without it |
//! | clone3 | fails with ENOSYS: C libraries then call clone, whose flags a filter can read |
//! | any other | ends the process (SIGSYS): nothing of the program makes it, so an attacker does |
//!
//! It is installed when every port is open. From then on no file is opened for writing, nothing is
//! connected to, and no memory is made executable. A router starts no thread; only a server that
//! restarts a process of its own starts programs.

use millstream_scenario::{InterfaceIo, PortKind, RouterScenario};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// What the ports of a router may need again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    /// One is an interface.
    interface: bool,
    /// And may be opened by AF_XDP.
    xdp: bool,
}

impl Ports {
    pub(crate) fn of(scenario: &RouterScenario) -> Self {
        let is = |wanted: &dyn Fn(InterfaceIo) -> bool| {
            scenario
                .ports
                .iter()
                .any(|port| matches!(&port.kind, PortKind::Interface(_, io) if wanted(*io)))
        };
        Self { interface: is(&|_| true), xdp: is(&|io| io != InterfaceIo::Packet) }
    }
}

/// A program that runs live, with what it may need again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `millstream route`.
    Router(Ports),
    /// `millstream serve`.
    Server {
        /// It starts its processor or producer again when one dies.
        children: bool,
        /// It removes the processor's socket file at its end.
        socket: bool,
    },
    /// A process that `serve` starts.
    Child,
}

impl Program {
    fn ports(self) -> Ports {
        match self {
            Self::Router(ports) => ports,
            _ => Ports { interface: false, xdp: false },
        }
    }

    fn starts_children(self) -> bool {
        matches!(self, Self::Server { children: true, .. })
    }

    fn starts_threads(self) -> bool {
        !matches!(self, Self::Router(_))
    }
}

/// What forwarding, reading the file again, answering by HTTP, following the kernel's routes,
/// logging and ending take.
const ALWAYS: &[i64] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads, signals and the end.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    // Time and chance.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // What the system is, as C libraries ask.
    libc::SYS_getcwd,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getuid,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Files.
    libc::SYS_close,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_getdents64,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Open sockets, and accepting connections to the status page.
    libc::SYS_accept4,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Listed to fail with an error: a host name lookup then reports that there is none.
    libc::SYS_connect,
    libc::SYS_socket,
];

/// The same by names that only older machines have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_access,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// What opening an interface again takes.
const INTERFACE: &[i64] = &[libc::SYS_bind, libc::SYS_eventfd2];

/// What serving takes besides, in the server and in the processes that it starts.
const MEDIA: &[i64] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_eventfd2,
    libc::SYS_fadvise64,
    libc::SYS_flock,
    libc::SYS_getppid,
    libc::SYS_getrusage,
    libc::SYS_kill,
    libc::SYS_mincore,
    libc::SYS_preadv,
    libc::SYS_recvmmsg,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sendmmsg,
    libc::SYS_socketpair,
];

/// What starting a process again takes, in the server and in the process until it has limited
/// itself.
const CHILDREN: &[i64] = &[
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_execve,
    libc::SYS_mlockall,
    libc::SYS_pidfd_open,
    libc::SYS_pipe2,
    libc::SYS_sched_setscheduler,
    libc::SYS_seccomp,
    libc::SYS_set_tid_address,
    libc::SYS_setpgid,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// The same by names that only older machines have.
#[cfg(target_arch = "x86_64")]
const OLDER_CHILDREN: &[i64] =
    &[libc::SYS_arch_prctl, libc::SYS_dup2, libc::SYS_fork, libc::SYS_pipe, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CHILDREN: &[i64] = &[];

/// What removing a file takes.
#[cfg(target_arch = "x86_64")]
const REMOVE: &[i64] = &[libc::SYS_unlink, libc::SYS_unlinkat];
#[cfg(not(target_arch = "x86_64"))]
const REMOVE: &[i64] = &[libc::SYS_unlinkat];

/// Namespaces of its own would give a process all capabilities in them.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Of prctl(2), for a process that limits itself when it has started.
const LIMITING: &[libc::c_int] = &[
    libc::PR_CAPBSET_READ,
    libc::PR_CAPBSET_DROP,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_SET_SECCOMP,
];

/// Of prctl(2): the name of memory, which C libraries set.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// Of prctl(2): what the kernel told the process at its start: linux/prctl.h.
const PR_GET_AUXV: u64 = 0x4155_5856;

/// Commands of bpf(2) that attach a program that is loaded already: linux/bpf.h.
const BPF_MAP_UPDATE_ELEM: u64 = 2;
const BPF_LINK_CREATE: u64 = 28;

/// Why the system calls are not limited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LimitError {
    /// There is no list for this processor.
    #[error("there is no list for {}", std::env::consts::ARCH)]
    Processor,
    /// The kernel, or what this program runs in, does not allow it.
    #[error("{0}")]
    Refused(#[from] seccompiler::Error),
}

/// Limits what every thread may call from now on to what the program needs. Call it when all ports
/// are open and, for a router, all threads run.
pub(crate) fn limit(program: Program) -> Result<(), LimitError> {
    let processor =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|_| LimitError::Processor)?;
    let compile = |rules, otherwise, then| -> Result<BpfProgram, seccompiler::Error> {
        Ok(SeccompFilter::new(rules, otherwise, then, processor)?.try_into()?)
    };
    let errno = |number: libc::c_int| SeccompAction::Errno(number.cast_unsigned());
    let listed = compile(listed(program)?, SeccompAction::KillProcess, SeccompAction::Allow)?;
    let refused = compile(refused(program)?, SeccompAction::Allow, errno(libc::EPERM))?;
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let absent = compile(absent, SeccompAction::Allow, errno(libc::ENOSYS))?;
    // Of several filters the strictest answer counts; the first lets the others be installed.
    apply_filter_all_threads(&refused)?;
    if program.starts_threads() {
        apply_filter_all_threads(&absent)?;
    }
    apply_filter_all_threads(&listed)?;
    Ok(())
}

/// Calls by number, each with the ways in which it is meant: all, if none is given.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that go through, unless they are refused.
fn listed(program: Program) -> Result<Rules, seccompiler::Error> {
    let mut rules: Rules = ALWAYS.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let mut add = |calls: &[i64]| rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    match program {
        Program::Router(ports) if ports.interface => add(INTERFACE),
        Program::Router(_) => {}
        Program::Child => {
            add(MEDIA);
            // A thread that was started before may still be giving up its capabilities.
            add(&[libc::SYS_capget, libc::SYS_capset]);
        }
        Program::Server { children, socket } => {
            add(MEDIA);
            if children {
                add(CHILDREN);
                add(OLDER_CHILDREN);
            }
            if socket {
                add(REMOVE);
            }
        }
    }
    if program.ports().xdp {
        let attach = [BPF_MAP_UPDATE_ELEM, BPF_LINK_CREATE];
        let is = |command| rule(&[(0, SeccompCmpOp::Eq, command)]);
        rules.insert(libc::SYS_bpf, attach.into_iter().map(is).collect::<Result<_, _>>()?);
    }
    // Signals to this process only; its limits, and what the kernel told it at its start, are read
    // only.
    let own = u64::from(std::process::id());
    let mut signals = vec![rule(&[(0, SeccompCmpOp::Eq, own)])?];
    // A thread that has just been started may still name itself, and one that forwards says how
    // exactly it sleeps.
    let mut options = vec![PR_GET_AUXV, PR_SET_VMA];
    let mut number = |option: libc::c_int| options.push(u64::from(option.cast_unsigned()));
    [libc::PR_SET_NAME, libc::PR_SET_TIMERSLACK].into_iter().for_each(&mut number);
    if program.starts_children() || program == Program::Child {
        LIMITING.iter().copied().for_each(&mut number);
    }
    if program.starts_children() {
        // A process that it started may abort.
        signals.push(rule(&[(2, SeccompCmpOp::Eq, u64::from(libc::SIGABRT.cast_unsigned()))])?);
    }
    rules.insert(libc::SYS_tgkill, signals);
    let options = options.into_iter().map(|option| rule(&[(0, SeccompCmpOp::Eq, option)]));
    rules.insert(libc::SYS_prctl, options.collect::<Result<_, _>>()?);
    if program.starts_threads() {
        // Whether a process is there; and threads, but no processes.
        rules.insert(libc::SYS_kill, vec![rule(&[(1, SeccompCmpOp::Eq, 0)])?]);
        if !program.starts_children() {
            rules.insert(libc::SYS_clone, vec![has(0, libc::CLONE_THREAD)?]);
        }
    }
    let read = wide_rule(&[(2, SeccompCmpOp::Eq, 0)], SeccompCmpArgLen::Qword);
    rules.insert(libc::SYS_prlimit64, vec![read?]);
    Ok(rules)
}

/// Of the calls listed, those that fail.
fn refused(program: Program) -> Result<Rules, seccompiler::Error> {
    let mut rules = Rules::new();
    rules.insert(libc::SYS_connect, Vec::new());
    // Files are opened to be read. A process is started with `/dev/null` to write to, and loads its
    // program.
    let mut writes = vec![libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC];
    if !program.starts_children() {
        writes.push(libc::O_WRONLY);
        rules.insert(libc::SYS_mmap, vec![has(2, libc::PROT_EXEC)?]);
        rules.insert(libc::SYS_mprotect, vec![has(2, libc::PROT_EXEC)?]);
    }
    let writes: Result<_, _> = writes.into_iter().map(|flag| has(2, flag)).collect();
    rules.insert(libc::SYS_openat, writes?);
    // TIOCSTI would type into the controlling terminal of the parent shell.
    let typed = wide_rule(&[(1, SeccompCmpOp::Eq, libc::TIOCSTI)], SeccompCmpArgLen::Dword)?;
    rules.insert(libc::SYS_ioctl, vec![typed]);
    if program.starts_threads() {
        let apart: Result<_, _> = NAMESPACES.iter().map(|flag| has(0, *flag)).collect();
        rules.insert(libc::SYS_clone, apart?);
    }
    let mut families = Vec::new();
    let ports = program.ports();
    if ports.interface {
        // C libraries ask for an interface's number by a UNIX socket, libpcap for more by netlink;
        // groups of IPv6 are joined by one of that.
        families.extend([libc::AF_PACKET, libc::AF_NETLINK, libc::AF_UNIX, libc::AF_INET6]);
    }
    if ports.xdp {
        families.push(libc::AF_XDP);
    }
    let other: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
        .collect();
    let sockets = if other.is_empty() { Vec::new() } else { vec![rule(&other)?] };
    rules.insert(libc::SYS_socket, sockets);
    Ok(rules)
}

/// That an argument, by number, has all bits of a flag.
fn has(argument: u8, flag: libc::c_int) -> Result<SeccompRule, seccompiler::Error> {
    let bits = u64::from(flag.cast_unsigned());
    rule(&[(argument, SeccompCmpOp::MaskedEq(bits), bits)])
}

/// That arguments of a call, by number, compare so with values; all must.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::Error> {
    wide_rule(conditions, SeccompCmpArgLen::Dword)
}

/// Compares an argument: 32 bits of an integer, 64 bits of a pointer.
fn wide_rule(
    conditions: &[(u8, SeccompCmpOp, u64)],
    length: SeccompCmpArgLen,
) -> Result<SeccompRule, seccompiler::Error> {
    let condition = |(argument, is, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, length.clone(), is.clone(), *value)
    };
    let conditions: Result<Vec<_>, _> = conditions.iter().map(condition).collect();
    Ok(SeccompRule::new(conditions?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus, exit};
    use std::{env, fs, io, thread};

    /// Says in a process of its own what it tries there.
    const TRIES: &str = "MILLSTREAM_TEST_TRIES";
    /// How that process ends where it is told that it may not.
    const REFUSED: i32 = 77;

    fn tries(what: &str) -> ExitStatus {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "confine::system_calls::tests::a_limited_process", "--nocapture"]);
        child.env(TRIES, what).output().unwrap().status
    }

    #[test]
    fn a_limited_process() {
        let Ok(what) = env::var(TRIES) else { return };
        let (program, what) = what.split_once(' ').unwrap();
        limit(match program {
            "router" => Program::Router(Ports { interface: false, xdp: false }),
            "interfaces" => Program::Router(Ports { interface: true, xdp: false }),
            "server" => Program::Server { children: false, socket: false },
            "parent" => Program::Server { children: true, socket: true },
            "child" => Program::Child,
            other => panic!("{other}"),
        })
        .unwrap();
        let refused = |tried: io::Result<()>| {
            let error = tried.expect_err("it may");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            exit(REFUSED);
        };
        match what {
            "read" => exit(i32::from(fs::read_to_string("/proc/self/status").is_err())),
            "write" => refused(fs::write("/dev/null", "")),
            "connect" => refused(TcpStream::connect("127.0.0.1:9").map(drop)),
            "program" => exit(Command::new("true").status().unwrap().code().unwrap()),
            "thread" => exit(thread::spawn(|| 0).join().unwrap()),
            "remove" => exit(i32::from(fs::remove_file("/nonexistent/file").is_ok())),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_is_not_listed_ends_the_process_and_ways_out_are_refused() {
        for program in ["router", "interfaces", "server", "parent", "child"] {
            let tries = |what: &str| tries(&format!("{program} {what}"));
            assert_eq!(tries("read").code(), Some(0), "{program}");
            for what in ["write", "connect"] {
                let status = tries(what);
                assert_eq!(status.code(), Some(REFUSED), "{program} {what}: {status}");
            }
            for (what, may) in [
                ("program", program == "parent"),
                ("thread", !["router", "interfaces"].contains(&program)),
                ("remove", program == "parent"),
            ] {
                let status = tries(what);
                let (code, signal) = if may { (Some(0), None) } else { (None, Some(libc::SIGSYS)) };
                assert_eq!((status.code(), status.signal()), (code, signal), "{program} {what}");
            }
        }
    }

    #[test]
    fn interfaces_and_af_xdp_take_more() {
        let no = Ports { interface: false, xdp: false };
        let packet = Ports { interface: true, ..no };
        let xdp = Ports { xdp: true, ..packet };
        let may = |ports, call: i64| listed(Program::Router(ports)).unwrap().contains_key(&call);
        assert!(!may(no, libc::SYS_bind) && may(packet, libc::SYS_bind));
        assert!(!may(packet, libc::SYS_bpf) && may(xdp, libc::SYS_bpf));
        for call in [libc::SYS_execve, libc::SYS_clone, libc::SYS_ptrace, libc::SYS_listen] {
            assert!(!may(xdp, call));
        }
    }
}
