//! What of the file system a live program may use once its ports are open (Landlock, landlock(7)):
//! it reads, and makes, changes and starts nothing but what is named here. It makes no TCP
//! connection.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::fs;
use std::path::{Path, PathBuf};

/// The Landlock ABI version asked for. On an older kernel the rights that it knows are used.
const VERSION: ABI = ABI::V6;

/// What a program does with files besides reading them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// It starts itself again as another process.
    pub(crate) starts_itself: bool,
    /// It removes this file at its end.
    pub(crate) removes: Option<PathBuf>,
    /// It opens this TCP port later.
    pub(crate) listens: Option<u16>,
}

/// How much of it the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforced {
    Fully,
    /// By an older version of Landlock.
    Partly,
    /// The kernel has no Landlock, or it is switched off.
    Not,
}

/// Limits this thread, and those and the processes that it starts from now on.
///
/// # Errors
/// If the kernel has Landlock and refuses.
pub(crate) fn limit(files: &Files) -> Result<Enforced, RulesetError> {
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::AbstractUnixSocket)?
        .create()?;
    let mut rules = allow(rules, Path::new("/"), reads)?;
    if files.starts_itself {
        rules = allow(rules, Path::new("/dev/null"), AccessFs::WriteFile.into())?;
        for program in programs() {
            rules = allow(rules, &program, AccessFs::Execute.into())?;
        }
    }
    if let Some(folder) = files.removes.as_deref().and_then(Path::parent) {
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        rules = allow(rules, folder, AccessFs::RemoveFile.into())?;
    }
    if let Some(port) = files.listens {
        rules = rules.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Fully,
        RulesetStatus::PartiallyEnforced => Enforced::Partly,
        RulesetStatus::NotEnforced => Enforced::Not,
    })
}

/// Allows `access` beneath `path`; without effect where it does not exist.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(at) => rules.add_rule(PathBeneath::new(at, access)),
        Err(_) => Ok(rules),
    }
}

/// This program and the loader of its libraries, which the kernel starts with it.
fn programs() -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_loader = |path: &&Path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("ld-"))
    };
    let mut programs: Vec<PathBuf> = mapped.filter(is_loader).map(Path::to_owned).collect();
    programs.extend(std::env::current_exe());
    programs.dedup();
    programs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, ErrorKind};
    use std::net::TcpListener;
    use std::process::Command;
    use std::thread;

    /// What a thread that is limited so gets from `tries`; `None` where the kernel has no Landlock.
    fn limited<R: Send + 'static>(
        files: Files,
        tries: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let limited = move || match limit(&files).unwrap() {
            Enforced::Not => {
                eprintln!("not tested: the kernel has no Landlock");
                None
            }
            Enforced::Fully | Enforced::Partly => Some(tries()),
        };
        thread::spawn(limited).join().unwrap()
    }

    fn denied(tried: io::Result<()>) -> bool {
        tried.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    #[test]
    fn files_are_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        fs::write(&there, "text").unwrap();
        let tried = limited(Files::default(), move || {
            (
                fs::read_to_string(&there).unwrap(),
                [
                    fs::write(&there, "other"),
                    fs::write(there.with_extension("new"), ""),
                    fs::remove_file(&there),
                    Command::new("/bin/true").status().map(drop),
                ]
                .map(denied),
            )
        });
        assert!(tried.is_none_or(|tried| tried == ("text".to_owned(), [true; 4])));
    }

    #[test]
    fn what_is_named_may_be_removed_and_started() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        fs::write(&socket, "").unwrap();
        let may = Files { removes: Some(socket.clone()), starts_itself: true, listens: None };
        let tried = limited(may, move || {
            let mut again = Command::new(std::env::current_exe().unwrap());
            let started = again.arg("--list").stdout(std::process::Stdio::null()).status();
            let other = denied(Command::new("/bin/true").status().map(drop));
            (fs::remove_file(&socket).is_ok(), started.unwrap().success(), other)
        });
        assert!(tried.is_none_or(|tried| tried == (true, true, true)), "{tried:?}");
    }

    #[test]
    fn one_tcp_port_may_be_opened_if_it_is_named() {
        let bind = |port| TcpListener::bind(("127.0.0.1", port)).map(drop);
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let may = Files { listens: Some(free), ..Files::default() };
        let Some((this, other)) = limited(may, move || (bind(free), bind(0))) else { return };
        // Kernels before 6.7 do not limit ports.
        assert!(this.is_ok() && (other.is_ok() || denied(other)));
    }
}
