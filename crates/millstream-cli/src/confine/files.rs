//! What of the file system a live program may use once its ports are open (Landlock, landlock(7)): it reads, and
//! makes, changes and starts nothing but what is named here. No TCP connection is made, no TCP port opened.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::fs;
use std::path::{Path, PathBuf};

/// The newest version whose rights are meant here; of an older kernel's, those that it has.
const VERSION: ABI = ABI::V6;

/// What a program does with files besides reading them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// It starts itself again as another process.
    pub(crate) starts_itself: bool,
    /// It removes this file at its end.
    pub(crate) removes: Option<PathBuf>,
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
