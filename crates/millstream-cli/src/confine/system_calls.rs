//! The system call filters of a live program (seccomp(2)). They limit what an exploit of a packet,
//! file or request parser can do.
//!
//! | system call | effect |
//! |---|---|
//! | listed | is allowed |
//! | listed, with arguments of [`refused`] | fails with EPERM: libraries continue without it |
//! | clone3 | fails with ENOSYS: C libraries then call clone, whose flags a filter can read |
//! | any other | kills the process (SIGSYS): the program never makes it, but an attacker might |
//!
//! The filters are installed when every port is open. From then on the program opens no file for
//! writing except new recordings, makes no connection and makes no memory executable. A router
//! starts no thread. Only a server that restarts its child processes executes programs.

use millstream_scenario::{InterfaceIo, PortKind, RouterScenario};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// The kinds of router ports that may need to reopen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    /// Whether a port is an interface.
    interface: bool,
    /// Whether an interface may be opened by AF_XDP.
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

/// A live program, with the operations that it may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `millstream route`.
    Router(Ports),
    /// `millstream serve`.
    Server {
        /// Whether it restarts its data plane or frame reader process.
        children: bool,
        /// Whether it removes files: the socket of the data plane at exit, or old recordings.
        removes: bool,
        /// Whether it creates recordings.
        records: bool,
        /// Whether it makes and removes directories: those of the recordings of paths.
        directories: bool,
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

    fn records(self) -> bool {
        matches!(self, Self::Server { records: true, .. })
    }

    fn starts_threads(self) -> bool {
        !matches!(self, Self::Router(_))
    }
}

/// System calls of every live program: forwarding, reloading the file, HTTP answers, following the
/// kernel's routes, logging and exit.
const ALWAYS: &[i64] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads, signals and exit.
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
    // Time and random numbers.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // Properties of the system, which C libraries query.
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
    // Open sockets, and connections to the status page.
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
    // These calls are listed so that they fail with EPERM: a host name lookup then returns an
    // error.
    libc::SYS_connect,
    libc::SYS_socket,
];

/// Equivalents of [`ALWAYS`] that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[i64] = &[
    libc::SYS_access,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[i64] = &[];

/// System calls that reopen an interface.
const INTERFACE: &[i64] = &[libc::SYS_bind, libc::SYS_eventfd2];

/// Additional system calls of a media server and its child processes.
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

/// System calls that restart a child process: in the server, and in the child until it has confined
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

/// Equivalents of [`CHILDREN`] that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const LEGACY_CHILDREN: &[i64] =
    &[libc::SYS_arch_prctl, libc::SYS_dup2, libc::SYS_fork, libc::SYS_pipe, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY_CHILDREN: &[i64] = &[];

/// System calls that remove a file.
#[cfg(target_arch = "x86_64")]
const REMOVE: &[i64] = &[libc::SYS_unlink, libc::SYS_unlinkat];
#[cfg(not(target_arch = "x86_64"))]
const REMOVE: &[i64] = &[libc::SYS_unlinkat];

/// System calls that make or remove a directory.
#[cfg(target_arch = "x86_64")]
const DIRECTORIES: &[i64] = &[libc::SYS_mkdir, libc::SYS_mkdirat, libc::SYS_rmdir];
#[cfg(not(target_arch = "x86_64"))]
const DIRECTORIES: &[i64] = &[libc::SYS_mkdirat];

/// Flags of clone(2) that are refused: a process has all capabilities in its own new namespace.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Options of prctl(2) with which a child process confines itself.
const CONFINEMENT_OPTIONS: &[libc::c_int] = &[
    libc::PR_CAPBSET_READ,
    libc::PR_CAPBSET_DROP,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_SET_SECCOMP,
];

/// The option of prctl(2) that names memory; C libraries use it.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// The option of prctl(2) that reads the auxiliary vector (linux/prctl.h).
const PR_GET_AUXV: u64 = 0x4155_5856;

/// Commands of bpf(2) that attach a loaded program (linux/bpf.h).
const BPF_MAP_UPDATE_ELEM: u64 = 2;
const BPF_LINK_CREATE: u64 = 28;

/// The reason why the system calls are not limited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LimitError {
    /// The filter does not support this architecture.
    #[error("unsupported architecture {}", std::env::consts::ARCH)]
    UnsupportedArchitecture,
    /// The kernel or a sandbox around this program rejects the filter.
    #[error("{0}")]
    Refused(#[from] seccompiler::Error),
}

/// Limits the system calls of every thread to those that the program needs.
///
/// Call this when all ports are open and, for a router, all threads run.
pub(crate) fn limit(program: Program) -> Result<(), LimitError> {
    let processor = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| LimitError::UnsupportedArchitecture)?;
    let compile = |rules, otherwise, then| -> Result<BpfProgram, seccompiler::Error> {
        Ok(SeccompFilter::new(rules, otherwise, then, processor)?.try_into()?)
    };
    let errno = |number: libc::c_int| SeccompAction::Errno(number.cast_unsigned());
    let listed = compile(listed(program)?, SeccompAction::KillProcess, SeccompAction::Allow)?;
    let refused = compile(refused(program)?, SeccompAction::Allow, errno(libc::EPERM))?;
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let absent = compile(absent, SeccompAction::Allow, errno(libc::ENOSYS))?;
    // The kernel applies the strictest result of all filters. The first still allows the other
    // filters to be installed.
    apply_filter_all_threads(&refused)?;
    if program.starts_threads() {
        apply_filter_all_threads(&absent)?;
    }
    apply_filter_all_threads(&listed)?;
    Ok(())
}

/// System calls by number. A call matches if one of its rules matches, or if it has no rules.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the calls that are allowed, unless [`refused`] matches them.
fn listed(program: Program) -> Result<Rules, seccompiler::Error> {
    let mut rules: Rules = ALWAYS.iter().chain(LEGACY).map(|call| (*call, Vec::new())).collect();
    let mut add = |calls: &[i64]| rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    match program {
        Program::Router(ports) if ports.interface => add(INTERFACE),
        Program::Router(_) => {}
        Program::Child => {
            add(MEDIA);
            // An earlier thread may still be dropping its capabilities.
            add(&[libc::SYS_capget, libc::SYS_capset]);
        }
        Program::Server { children, removes, directories, .. } => {
            add(MEDIA);
            if children {
                add(CHILDREN);
                add(LEGACY_CHILDREN);
            }
            if removes {
                add(REMOVE);
            }
            if directories {
                add(DIRECTORIES);
            }
        }
    }
    if program.ports().xdp {
        let attach = [BPF_MAP_UPDATE_ELEM, BPF_LINK_CREATE];
        let is = |command| rule(&[(0, SeccompCmpOp::Eq, command)]);
        rules.insert(libc::SYS_bpf, attach.into_iter().map(is).collect::<Result<_, _>>()?);
    }
    // Signals go only to this process; its resource limits and auxiliary vector are only read.
    let own = u64::from(std::process::id());
    let mut signals = vec![rule(&[(0, SeccompCmpOp::Eq, own)])?];
    // A new thread may still set its name, and a forwarding thread sets its timer slack.
    let mut options = vec![PR_GET_AUXV, PR_SET_VMA];
    let mut number = |option: libc::c_int| options.push(u64::from(option.cast_unsigned()));
    [libc::PR_SET_NAME, libc::PR_SET_TIMERSLACK].into_iter().for_each(&mut number);
    if program.starts_children() || program == Program::Child {
        CONFINEMENT_OPTIONS.iter().copied().for_each(&mut number);
    }
    if program.starts_children() {
        // A new child process may abort.
        signals.push(rule(&[(2, SeccompCmpOp::Eq, u64::from(libc::SIGABRT.cast_unsigned()))])?);
    }
    rules.insert(libc::SYS_tgkill, signals);
    let options = options.into_iter().map(|option| rule(&[(0, SeccompCmpOp::Eq, option)]));
    rules.insert(libc::SYS_prctl, options.collect::<Result<_, _>>()?);
    if program.starts_threads() {
        // `kill` only tests whether a process exists, and `clone` only starts threads.
        rules.insert(libc::SYS_kill, vec![rule(&[(1, SeccompCmpOp::Eq, 0)])?]);
        if !program.starts_children() {
            rules.insert(libc::SYS_clone, vec![has(0, libc::CLONE_THREAD)?]);
        }
    }
    let read = rule_of_length(&[(2, SeccompCmpOp::Eq, 0)], SeccompCmpArgLen::Qword);
    rules.insert(libc::SYS_prlimit64, vec![read?]);
    Ok(rules)
}

/// Returns the listed calls that fail with EPERM.
fn refused(program: Program) -> Result<Rules, seccompiler::Error> {
    let mut rules = Rules::new();
    rules.insert(libc::SYS_connect, Vec::new());
    // Files are opened only for reading. A new child process opens `/dev/null` for writing and maps
    // its program as executable.
    // Recordings are new files, which O_EXCL creates; Landlock limits them to their directory.
    let unless_new = if program.records() { libc::O_EXCL } else { 0 };
    let mut writes = vec![(libc::O_RDWR, 0), (libc::O_TRUNC, 0), (libc::O_CREAT, unless_new)];
    if !program.starts_children() {
        writes.push((libc::O_WRONLY, unless_new));
        rules.insert(libc::SYS_mmap, vec![has(2, libc::PROT_EXEC)?]);
        rules.insert(libc::SYS_mprotect, vec![has(2, libc::PROT_EXEC)?]);
    }
    let writes: Result<_, _> =
        writes.into_iter().map(|(flag, without)| has_without(2, flag, without)).collect();
    rules.insert(libc::SYS_openat, writes?);
    // TIOCSTI would type into the controlling terminal of the parent shell.
    let typed = rule_of_length(&[(1, SeccompCmpOp::Eq, libc::TIOCSTI)], SeccompCmpArgLen::Dword)?;
    rules.insert(libc::SYS_ioctl, vec![typed]);
    if program.starts_threads() {
        let unshared: Result<_, _> = NAMESPACES.iter().map(|flag| has(0, *flag)).collect();
        rules.insert(libc::SYS_clone, unshared?);
    }
    let mut families = Vec::new();
    let ports = program.ports();
    if ports.interface {
        // C libraries look up an interface's index through a UNIX socket, and libpcap uses netlink.
        // Joining IPv6 multicast groups needs an IPv6 socket.
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

/// Returns the rule that an argument, by number, has all bits of a flag.
fn has(argument: u8, flag: libc::c_int) -> Result<SeccompRule, seccompiler::Error> {
    has_without(argument, flag, 0)
}

/// Returns the rule that an argument has all bits of `flag` and none of `without`.
fn has_without(
    argument: u8,
    flag: libc::c_int,
    without: libc::c_int,
) -> Result<SeccompRule, seccompiler::Error> {
    let bits = |flag: libc::c_int| u64::from(flag.cast_unsigned());
    rule(&[(argument, SeccompCmpOp::MaskedEq(bits(flag | without)), bits(flag))])
}

/// Returns the rule that all conditions on 32-bit arguments hold: number, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::Error> {
    rule_of_length(conditions, SeccompCmpArgLen::Dword)
}

/// Returns the rule of [`rule`] for arguments of `length`: 32 bits of an integer, 64 bits of a
/// pointer.
fn rule_of_length(
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

    /// The environment variable with the action that a child test process attempts.
    const TRIES: &str = "MILLSTREAM_TEST_TRIES";
    /// The exit status of that process if the action fails with EPERM.
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
        let server = |children, removes, records, directories| Program::Server {
            children,
            removes,
            records,
            directories,
        };
        limit(match program {
            "router" => Program::Router(Ports { interface: false, xdp: false }),
            "interfaces" => Program::Router(Ports { interface: true, xdp: false }),
            "server" => server(false, false, false, false),
            "recorder" => server(false, true, true, false),
            "recorder-of-paths" => server(false, true, true, true),
            "recording-parent" => server(true, true, true, false),
            "parent" => server(true, true, false, false),
            "child" => Program::Child,
            other => panic!("{other}"),
        })
        .unwrap();
        let refused = |tried: io::Result<()>| {
            let error = tried.expect_err("the action is refused");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            exit(REFUSED);
        };
        match what {
            "read" => exit(i32::from(fs::read_to_string("/proc/self/status").is_err())),
            "write" => refused(fs::write("/dev/null", "")),
            "append" => exit(open_existing(fs::OpenOptions::new().append(true))),
            "open-or-create" => {
                exit(open_existing(fs::OpenOptions::new().append(true).create(true)))
            }
            "connect" => refused(TcpStream::connect("127.0.0.1:9").map(drop)),
            "program" => exit(Command::new("true").status().unwrap().code().unwrap()),
            "thread" => exit(thread::spawn(|| 0).join().unwrap()),
            "create" => exit(i32::from(!can_create())),
            "make-directory" => exit(i32::from(!can_make_directory())),
            "remove" => exit(i32::from(fs::remove_file("/nonexistent/file").is_ok())),
            other => panic!("{other}"),
        }
    }

    /// Opens an existing file. Returns [`REFUSED`] if that fails with EPERM.
    fn open_existing(options: &fs::OpenOptions) -> i32 {
        match options.open("/dev/null") {
            Ok(_) => 0,
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => REFUSED,
            Err(_) => 1,
        }
    }

    /// Creates, writes and removes a file as the recording does.
    fn can_create() -> bool {
        let path = env::temp_dir().join(format!("millstream-{}.mp4", std::process::id()));
        let file = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let written = file.and_then(|mut file| io::Write::write_all(&mut file, b"frames"));
        written.is_ok() && fs::remove_file(&path).is_ok()
    }

    /// Makes and removes a directory as the recording of a path does.
    fn can_make_directory() -> bool {
        let path = env::temp_dir().join(format!("millstream-{}", std::process::id()));
        fs::create_dir(&path).is_ok() && fs::remove_dir(&path).is_ok()
    }

    #[test]
    fn only_a_recorder_of_paths_makes_directories() {
        assert_eq!(tries("recorder-of-paths make-directory").code(), Some(0));
        assert_eq!(tries("recorder make-directory").signal(), Some(libc::SIGSYS));
    }

    #[test]
    fn only_a_recorder_creates_files() {
        assert_eq!(tries("recorder create").code(), Some(0));
        assert_eq!(tries("recording-parent create").code(), Some(0));
        assert_eq!(tries("server create").code(), Some(1));
    }

    #[test]
    fn a_recorder_opens_no_existing_file_for_writing() {
        for program in ["recorder", "recording-parent", "server", "parent"] {
            // A new child process opens `/dev/null`.
            let may = ["recording-parent", "parent"].contains(&program);
            let appended = tries(&format!("{program} append")).code();
            assert_eq!(appended, Some(if may { 0 } else { REFUSED }), "{program}");
            let created = tries(&format!("{program} open-or-create")).code();
            assert_eq!(created, Some(REFUSED), "{program}");
        }
    }

    #[test]
    fn unlisted_calls_kill_the_process_and_refused_calls_fail() {
        for program in ["router", "interfaces", "server", "recorder", "parent", "child"] {
            let tries = |what: &str| tries(&format!("{program} {what}"));
            assert_eq!(tries("read").code(), Some(0), "{program}");
            for what in ["write", "connect"] {
                let status = tries(what);
                assert_eq!(status.code(), Some(REFUSED), "{program} {what}: {status}");
            }
            for (what, may) in [
                ("program", program == "parent"),
                ("thread", !["router", "interfaces"].contains(&program)),
                ("remove", ["recorder", "parent"].contains(&program)),
            ] {
                let status = tries(what);
                let (code, signal) = if may { (Some(0), None) } else { (None, Some(libc::SIGSYS)) };
                assert_eq!((status.code(), status.signal()), (code, signal), "{program} {what}");
            }
        }
    }

    #[test]
    fn interfaces_and_af_xdp_need_more_calls() {
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
