//! The cgroup of a match: its number and level, by which the qdisc knows it and those below it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A cgroup of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// The number by which the kernel knows it; 0 is none.
    pub(crate) id: u64,
    /// Its depth; that of the root is 0.
    pub(crate) level: u32,
}

/// The reason why a cgroup is not found.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The system has no cgroups of version 2.
    #[error("cgroups of version 2, which this system does not have")]
    NoMount,
    /// The cgroup's folder cannot be read.
    #[error("cgroup {0}: {1}")]
    Folder(PathBuf, io::Error),
}

impl Cgroup {
    /// Finds the cgroup `path`, such as `/system.slice/ssh.service`.
    ///
    /// # Errors
    /// Fails if there is no such cgroup, or the system has no cgroups of version 2.
    pub fn find(path: &str) -> Result<Self, CgroupError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self::below(Path::new(mount(&mounts).ok_or(CgroupError::NoMount)?), path)
    }

    fn below(root: &Path, path: &str) -> Result<Self, CgroupError> {
        let names = path.split('/').filter(|name| !name.is_empty());
        let folder = root.join(path.trim_matches('/'));
        let level = u32::try_from(names.count()).unwrap_or(u32::MAX);
        match fs::metadata(&folder) {
            // The kernel's number of a cgroup is that of its folder.
            Ok(found) if found.is_dir() => Ok(Self { id: found.ino(), level }),
            Ok(_) => Err(CgroupError::Folder(folder, io::ErrorKind::NotADirectory.into())),
            Err(error) => Err(CgroupError::Folder(folder, error)),
        }
    }
}

/// Returns the folder where the file system of version 2 is mounted.
fn mount(mounts: &str) -> Option<&str> {
    let words = mounts.lines().map(|line| line.split(' '));
    let mut rows = words.map(|mut words| (words.nth(1), words.next()));
    rows.find(|(_, kind)| *kind == Some("cgroup2")).and_then(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_has_the_number_of_its_folder_and_its_level() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("system.slice/a.service");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        let find = |path| Cgroup::below(root.path(), path);
        let id = fs::metadata(&folder).unwrap().ino();
        assert_eq!(find("/system.slice/a.service").unwrap(), Cgroup { id, level: 2 });
        assert_eq!(find("/system.slice/a.service/").unwrap(), Cgroup { id, level: 2 });
        assert_eq!(find("/").unwrap().level, 0);
        for path in ["/b.service", "/system.slice/a.service/cgroup.procs"] {
            let error = find(path).unwrap_err().to_string();
            assert!(error.contains(path) && error.starts_with("cgroup "), "{error}");
        }
    }

    #[test]
    fn the_mount_is_that_of_version_2() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount(hybrid), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mount("proc /proc proc rw 0 0\n"), None);
    }
}
