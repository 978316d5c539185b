//! Attaches the qdisc to interfaces, by libbpf and `tc`.
//!
//! The maps and the link of an interface's qdisc are pinned in `/sys/fs/bpf/millstream/INTERFACE`:
//! the qdisc outlives the process that attached it.

use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, OpenMapMut};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Config, MAX_STREAMS, Rules};

/// The folder of the pins.
const PINS: &str = "/sys/fs/bpf/millstream";

/// The pinned maps, and their files.
const MAPS: [(&str, &str); 5] = [
    (".data.config", "config"),
    (".data.current", "current"),
    (".data.rules", "rules"),
    (".data.state", "state"),
    (".data.log", "log"),
];

/// The name of `struct Qdisc_ops` in the object.
const OPERATIONS: &str = "millstream";

/// The range of `id` in `struct Qdisc_ops`, behind two pointers.
const ID: std::ops::Range<usize> = 16..32;

/// The key of the only element of a map.
const KEY: [u8; 4] = [0; 4];

/// `struct ms_state`: the size of the fields before the streams.
const STATE_HEADER: usize = 72;

/// `struct ms_stream`: its size, and the offsets of its fields.
const STREAM_BYTES: usize = 208;
const WAITING_AT: usize = 4;
const COUNTERS_AT: usize = 152;

/// The reason why the qdisc cannot be attached or changed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The interface does not exist.
    #[error("interface {0} does not exist")]
    Interface(String),
    /// The qdisc is not attached to the interface.
    #[error("the qdisc is not attached to {0}")]
    Detached(String),
    /// The attached qdisc cannot change to the configuration.
    #[error("the discipline differs, or streams are removed; detach first")]
    Change,
    /// The kernel or libbpf failed.
    #[error("{0}: {1}; the qdisc needs root and Linux 6.16 with CONFIG_NET_SCH_BPF")]
    Bpf(&'static str, libbpf_rs::Error),
    /// `tc` failed.
    #[error("tc: {0}")]
    Tc(String),
    /// A file.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The counters of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Packets that wait.
    pub waiting: u32,
    /// Packets that arrived, dropped ones included.
    pub arrivals: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped because their deadline passed.
    pub dropped_late: u64,
    /// Packets dropped at a full queue.
    pub dropped_full: u64,
    /// Missed deadlines.
    pub missed: u64,
    /// Misses that the window did not allow.
    pub violations: u64,
}

/// Attaches the qdisc of the file `object` to `interface`, or changes the contracts of the attached
/// one without losing a packet.
///
/// # Errors
/// See [`AttachError`].
pub fn attach(
    interface: &str,
    object: &Path,
    config: &Config,
    rules: &Rules,
) -> Result<(), AttachError> {
    let pins = pins(interface)?;
    if pins.exists() {
        return change(&pins, config, rules);
    }
    let index =
        std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("ifindex"))
            .map_err(|_| AttachError::Interface(interface.to_owned()))?;
    // Names of qdiscs are unique in the kernel.
    let name = format!("ms_{}", index.trim());
    let attached = load(&pins, object, &name, config, rules)
        .and_then(|()| tc(&["qdisc", "replace", "dev", interface, "root", &name]));
    if attached.is_err() {
        remove(&pins)?;
    }
    attached
}

/// Removes the qdisc from `interface`, which may have been deleted meanwhile.
///
/// # Errors
/// See [`AttachError`].
pub fn detach(interface: &str) -> Result<(), AttachError> {
    let pins = attached_pins(interface)?;
    if Path::new("/sys/class/net").join(interface).exists() {
        tc(&["qdisc", "del", "dev", interface, "root"])?;
    }
    Ok(remove(&pins)?)
}

/// Returns the counters of the streams of the qdisc of `interface`.
///
/// # Errors
/// See [`AttachError`].
pub fn status(interface: &str) -> Result<Vec<StreamStatus>, AttachError> {
    let pins = attached_pins(interface)?;
    let current = read(&pins, "current")?[0] as usize & 1;
    let streams = word(&read(&pins, "config")?, current * size_of::<Config>() + 4) as usize;
    let state = read(&pins, "state")?;
    let streams = state[STATE_HEADER..].chunks_exact(STREAM_BYTES).take(streams.min(MAX_STREAMS));
    let status = streams.map(|stream| {
        let counter = |at: usize| {
            let at = COUNTERS_AT + 8 * at;
            u64::from(word(stream, at)) | u64::from(word(stream, at + 4)) << 32
        };
        StreamStatus {
            waiting: word(stream, WAITING_AT),
            arrivals: counter(0),
            sent: counter(1),
            sent_bytes: counter(2),
            dropped_late: counter(3),
            dropped_full: counter(4),
            missed: counter(5),
            violations: counter(6),
        }
    });
    Ok(status.collect())
}

/// Returns the folder of the pins of an interface, which is never another folder.
fn pins(interface: &str) -> Result<PathBuf, AttachError> {
    if interface.is_empty() || interface.contains('/') || [".", ".."].contains(&interface) {
        return Err(AttachError::Interface(interface.to_owned()));
    }
    Ok(Path::new(PINS).join(interface))
}

fn attached_pins(interface: &str) -> Result<PathBuf, AttachError> {
    let pins = pins(interface)?;
    if pins.exists() { Ok(pins) } else { Err(AttachError::Detached(interface.to_owned())) }
}

/// Removes the pins. The kernel frees the maps and programs when the qdisc is gone too.
fn remove(pins: &Path) -> io::Result<()> {
    if pins.exists() { std::fs::remove_dir_all(pins) } else { Ok(()) }
}

/// Returns the little-endian word at `at`.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Loads the object, registers its qdisc as `name` and pins its maps.
fn load(
    pins: &Path,
    object: &Path,
    name: &str,
    config: &Config,
    rules: &Rules,
) -> Result<(), AttachError> {
    let failed = |action| move |error| AttachError::Bpf(action, error);
    let mut open = ObjectBuilder::default().open_file(object).map_err(failed("opening"))?;
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some(".data.config") => set(&mut map, &[config.bytes(), config.bytes()].concat()),
            Some(".data.rules") => set(&mut map, rules.bytes()),
            Some(OPERATIONS) => {
                let mut id = [0; ID.end - ID.start];
                id[..name.len()].copy_from_slice(name.as_bytes());
                if let Some(value) = map.initial_value_mut() {
                    value[ID].copy_from_slice(&id);
                }
            }
            _ => {}
        }
    }
    let mut object = open.load().map_err(failed("loading"))?;
    std::fs::create_dir_all(pins)?;
    for mut map in object.maps_mut() {
        let file = MAPS.iter().find(|(map_name, _)| map.name() == *map_name);
        if let Some((_, file)) = file {
            map.pin(pins.join(file)).map_err(failed("pinning a map"))?;
        } else if map.name() == OPERATIONS {
            let mut link = map.attach_struct_ops().map_err(failed("registering the qdisc"))?;
            link.pin(pins.join("link")).map_err(failed("pinning the qdisc"))?;
        }
    }
    Ok(())
}

fn set(map: &mut OpenMapMut<'_>, bytes: &[u8]) {
    if let Some(value) = map.initial_value_mut() {
        // The kernel rounds the size of some maps up.
        value[..bytes.len()].copy_from_slice(bytes);
    }
}

/// Writes the configuration that is not in use, then selects it.
fn change(pins: &Path, config: &Config, rules: &Rules) -> Result<(), AttachError> {
    let current = read(pins, "current")?[0] & 1;
    let mut both = read(pins, "config")?;
    let (first, second) = both.split_at_mut(size_of::<Config>());
    let (old, other) = if current == 0 { (first, second) } else { (second, first) };
    let (discipline, streams) = (word(old, 0), word(old, 4));
    let new = config.bytes();
    if word(new, 0) != discipline || word(new, 4) < streams {
        return Err(AttachError::Change);
    }
    other[..new.len()].copy_from_slice(new);
    write(pins, "config", &both)?;
    write(pins, "current", &u32::from(current ^ 1).to_le_bytes())?;
    // Afterwards: rules may name streams that only the new configuration has.
    write(pins, "rules", rules.bytes())
}

fn open(pins: &Path, file: &str) -> Result<MapHandle, AttachError> {
    MapHandle::from_pinned_path(pins.join(file)).map_err(|e| AttachError::Bpf("opening a map", e))
}

fn read(pins: &Path, file: &str) -> Result<Vec<u8>, AttachError> {
    let value = open(pins, file)?.lookup(&KEY, MapFlags::ANY);
    let value = value.map_err(|e| AttachError::Bpf("reading a map", e))?;
    Ok(value.unwrap_or_default())
}

fn write(pins: &Path, file: &str, value: &[u8]) -> Result<(), AttachError> {
    let map = open(pins, file)?;
    map.update(&KEY, value, MapFlags::ANY).map_err(|e| AttachError::Bpf("writing a map", e))
}

fn tc(arguments: &[&str]) -> Result<(), AttachError> {
    let output = Command::new("tc").args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(AttachError::Tc(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_a_path_is_no_interface() {
        for name in ["", ".", "..", "../../etc", "a/b", "/"] {
            for error in [detach(name).unwrap_err(), status(name).unwrap_err()] {
                assert!(matches!(error, AttachError::Interface(of) if of == name), "{name}");
            }
        }
        assert!(matches!(detach("no-such-if").unwrap_err(), AttachError::Detached(_)));
    }
}
