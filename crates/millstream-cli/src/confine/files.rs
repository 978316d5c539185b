//! Limits on the file access of a live program once its ports are open (Landlock, landlock(7)).
//!
//! The program may read all files. It may create, change, remove and execute only the files named
//! here. It makes no TCP connection.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::fs;
use std::path::{Path, PathBuf};

/// The requested version of the Landlock ABI; an older kernel enforces the rights that it knows.
const VERSION: ABI = ABI::V6;

/// The access that a program needs in addition to reading files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// Whether the program executes itself as a child process.
    pub(crate) executes_itself: bool,
    /// A file that the program removes at exit.
    pub(crate) removes: Option<PathBuf>,
    /// The directory beneath which the program creates, writes and removes recordings.
    pub(crate) records: Option<PathBuf>,
    /// Whether it makes and removes directories there.
    pub(crate) directories: bool,
    /// A TCP port that the program binds later.
    pub(crate) listens: Option<u16>,
}

/// The extent to which the kernel enforces the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// Every requested right.
    Fully,
    /// The rights that an older version of Landlock knows.
    Partly,
    /// Nothing: the kernel has no Landlock, or Landlock is disabled.
    Not,
}

/// Limits this thread and all threads and processes that it starts later.
///
/// # Errors
/// Fails if the kernel has Landlock and rejects the rules.
pub(crate) fn limit(files: &Files) -> Result<Enforcement, RulesetError> {
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::AbstractUnixSocket)?
        .create()?;
    let mut rules = allow(rules, Path::new("/"), reads)?;
    if files.executes_itself {
        rules = allow(rules, Path::new("/dev/null"), AccessFs::WriteFile.into())?;
        for executed in loader().into_iter().chain(std::env::current_exe()) {
            rules = allow(rules, &executed, AccessFs::Execute.into())?;
        }
    }
    if let Some(folder) = files.removes.as_deref().and_then(Path::parent) {
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        rules = allow(rules, folder, AccessFs::RemoveFile.into())?;
    }
    if let Some(folder) = &files.records {
        let mut writes = AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::RemoveFile;
        if files.directories {
            writes |= AccessFs::MakeDir | AccessFs::RemoveDir;
        }
        rules = allow(rules, folder, writes)?;
    }
    if let Some(port) = files.listens {
        rules = rules.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Enforcement::Fully,
        RulesetStatus::PartiallyEnforced => Enforcement::Partly,
        RulesetStatus::NotEnforced => Enforcement::Not,
    })
}

/// Allows `access` beneath `path`; has no effect if `path` does not exist.
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

/// Returns the path of the dynamic loader, which the kernel executes with the program; `None` for a
/// statically linked one.
fn loader() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_loader = |path: &&Path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("ld-"))
    };
    paths.find(is_loader).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, ErrorKind};
    use std::net::TcpListener;
    use std::process::Command;
    use std::thread;

    /// Returns the result of `tries` in a limited thread; `None` if the kernel has no Landlock.
    fn limited<R: Send + 'static>(
        files: Files,
        tries: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let limited = move || match limit(&files).unwrap() {
            Enforcement::Not => {
                eprintln!("not tested: the kernel has no Landlock");
                None
            }
            Enforcement::Fully | Enforcement::Partly => Some(tries()),
        };
        thread::spawn(limited).join().unwrap()
    }

    fn denied(tried: io::Result<()>) -> bool {
        tried.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    #[test]
    fn files_can_only_be_read_by_default() {
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
    fn named_files_can_be_removed_and_executed() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        fs::write(&socket, "").unwrap();
        let may =
            Files { removes: Some(socket.clone()), executes_itself: true, ..Files::default() };
        let tried = limited(may, move || {
            let mut again = Command::new(std::env::current_exe().unwrap());
            let started = again.arg("--list").stdout(std::process::Stdio::null()).status();
            let other = denied(Command::new("/bin/true").status().map(drop));
            (fs::remove_file(&socket).is_ok(), started.unwrap().success(), other)
        });
        assert!(tried.is_none_or(|tried| tried == (true, true, true)), "{tried:?}");
    }

    #[test]
    fn recordings_are_written_in_their_directory_only() {
        let folder = tempfile::tempdir().unwrap();
        let stream = folder.path().join("recordings").join("cam");
        fs::create_dir_all(&stream).unwrap();
        let may = Files { records: stream.parent().map(Path::to_owned), ..Files::default() };
        let beside = folder.path().join("a.mp4");
        let tried = limited(may, move || {
            let file = stream.join("a.mp4");
            let written = fs::write(&file, "frames").and_then(|()| fs::remove_file(&file));
            let link = std::os::unix::fs::symlink("/etc/passwd", stream.join("link"));
            let tries = [fs::write(beside, ""), fs::create_dir(stream.join("more")), link];
            (written.is_ok(), tries.map(denied))
        });
        assert!(tried.is_none_or(|tried| tried == (true, [true; 3])), "{tried:?}");
    }

    #[test]
    fn recorders_of_paths_make_directories_there_only() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("recordings");
        fs::create_dir(&records).unwrap();
        let files = Files { records: Some(records.clone()), directories: true, ..Files::default() };
        let beside = folder.path().join("more");
        let tried = limited(files, move || {
            let path = records.join("front");
            let made = fs::create_dir(&path).and_then(|()| fs::remove_dir(&path));
            (made.is_ok(), denied(fs::create_dir(beside)))
        });
        assert!(tried.is_none_or(|tried| tried == (true, true)), "{tried:?}");
    }

    #[test]
    fn only_a_named_tcp_port_can_be_bound() {
        let bind = |port| TcpListener::bind(("127.0.0.1", port)).map(drop);
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let may = Files { listens: Some(free), ..Files::default() };
        let Some((this, other)) = limited(may, move || (bind(free), bind(0))) else { return };
        // Kernels before 6.7 do not limit ports. A program that another test starts may still hold
        // a copy of the listener that found the port, so the port may be in use.
        assert!(!denied(this) && (other.is_ok() || denied(other)));
    }
}
