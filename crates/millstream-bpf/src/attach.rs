//! Attaches the qdisc to interfaces, by libbpf and `tc`, and reads it by libbpf and rtnetlink.
//!
//! The maps and the link of an interface's qdisc are pinned in `/sys/fs/bpf/millstream/INTERFACE`,
//! with `:` in place of dots: the qdisc outlives the process that attached it.

use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapMut, ObjectBuilder, OpenMapMut};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::config::DISCIPLINES;
use crate::{Config, MAX_STREAMS, Qdisc, Rules, root_qdisc};

/// The compiled `src/c/qdisc.bpf.c`; `scripts/kernel.sh` writes it.
const OBJECT: &[u8] = include_bytes!("c/qdisc.bpf.o");

/// The folder of the pins.
const PINS: &str = "/sys/fs/bpf/millstream";

/// The pinned maps, their files and the least sizes of their values.
const MAPS: [(&str, &str, usize); 8] = [
    (".bss.config", "config", 2 * size_of::<Config>()),
    (".bss.current", "current", 4),
    (".bss.rules", "rules", size_of::<Rules>()),
    (".bss.state", "state", STATE_HEADER + MAX_STREAMS * STREAM_BYTES),
    (".bss.link", "times", LONGEST_AT + MAX_STREAMS * 8),
    (".bss.names", "names", MAX_STREAMS * NAME_BYTES),
    (".bss.bounds", "bounds", MAX_STREAMS * 8),
    (".bss.log", "log", 8),
];

/// The name of `struct Qdisc_ops` in the object.
const OPERATIONS: &str = "millstream";

/// The type by which a kernel with BPF qdiscs registers `struct Qdisc_ops`, in its BTF.
const KERNEL_TYPE: &[u8] = b"bpf_struct_ops_Qdisc_ops";

/// The range of `id` in `struct Qdisc_ops` of `src/c/kernel.h`.
const ID: std::ops::Range<usize> = 0..16;

/// The key of the only element of a map.
const KEY: [u8; 4] = [0; 4];

/// `struct ms_config`: the offset of `logs`.
const LOGS_AT: usize = std::mem::offset_of!(Config, logs);

/// `struct ms_state`: the size of the fields before the streams.
const STATE_HEADER: usize = 72;

/// `struct ms_stream`: its size, and the offsets of its fields.
const STREAM_BYTES: usize = 264;
const WAITING_AT: usize = 4;
const COUNTERS_AT: usize = 152;
const WAITING_IN_FLOWS_AT: usize = 232;
const FLOWS_AT: usize = 240;

/// `struct ms_link`: the offsets of the configuration in use and of the timer's longest lateness;
/// the size of the fields before the sojourn times, their buckets, and the offsets of their sums
/// and maxima.
const APPLIED_AT: usize = 28;
const TIMER_LATE_AT: usize = 40;
const TIMES_HEADER: usize = 48;
const BUCKETS: usize = 40;
const SUMS_AT: usize = TIMES_HEADER + MAX_STREAMS * BUCKETS * 8;
const LONGEST_AT: usize = SUMS_AT + MAX_STREAMS * 8;

/// The size of a stream's name in `ms_names`.
const NAME_BYTES: usize = 64;

/// The number and interval of attempts to register the qdisc: the kernel frees the name of a
/// removed qdisc a moment later.
const ATTEMPTS: u32 = 50;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The reason why the qdisc cannot be attached, changed, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The interface does not exist.
    #[error("interface {0} does not exist")]
    Interface(String),
    /// The process is not root.
    #[error("the qdisc needs root")]
    Root,
    /// The kernel, of this release, has no BPF qdiscs.
    #[error("the kernel, Linux {0}, has no BPF qdiscs")]
    Kernel(String),
    /// The qdisc is not attached to the interface.
    #[error("no qdisc of Millstream is attached to {0}")]
    Detached(String),
    /// The attached qdisc cannot change to the configuration.
    #[error("the attached qdisc cannot change: {0}")]
    Change(String),
    /// The attached qdisc is of a program with other maps.
    #[error("the attached qdisc is of another version of this program")]
    Version,
    /// The kernel or libbpf failed.
    #[error("{0}: {1}")]
    Bpf(&'static str, libbpf_rs::Error),
    /// A filter, which is for Ethernet, on an interface with other frames.
    #[error("`filter` needs Ethernet frames, which {0} does not have")]
    Frames(String),
    /// `tc` is not installed.
    #[error("the program tc is not installed")]
    NoTc,
    /// `tc` failed.
    #[error("tc: {0}")]
    Tc(String),
    /// The kernel did not say which qdisc an interface has.
    #[error("cannot read the root qdisc of {0}: {1}")]
    RootQdisc(String, io::Error),
    /// A file.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
}

/// The state of an attached qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The discipline.
    pub discipline: &'static str,
    /// The rate of the link, bits/s.
    pub rate_bps: u64,
    /// The longest time, ns, by which the kernel's timer was late. The bounds of
    /// [`Qdisc::delay_bounds_ns`] do not include it.
    pub timer_late_longest_ns: u64,
    /// The streams, in the order of their numbers.
    pub streams: Vec<StreamStatus>,
}

/// The counters of a stream since the qdisc was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct StreamStatus {
    /// The name; a long one is truncated.
    pub name: String,
    /// Packets that wait.
    pub waiting: u32,
    /// Flows that have packets, or had some a moment ago.
    pub flows: u32,
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
    /// Packets dropped by queue management.
    pub dropped_by_aqm: u64,
    /// Packets dropped from the longest flow at a limit.
    pub dropped_from_longest: u64,
    /// Missed deadlines.
    pub missed: u64,
    /// Misses that the window did not allow.
    pub violations: u64,
    /// Packets sent by sojourn time: n-th is from 2ⁿ ns to below 2ⁿ⁺¹ ns, the last one also above.
    #[serde(skip)]
    pub sojourn: Vec<u64>,
    /// The sum of the sojourn times of the packets sent, ns.
    pub sojourn_sum_ns: u64,
    /// The longest sojourn time of a packet sent, ns.
    pub sojourn_longest_ns: u64,
    /// The bound of [`Qdisc::delay_bounds_ns`].
    pub delay_bound_ns: Option<u64>,
}

impl StreamStatus {
    /// Returns the packets dropped, for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_late + self.dropped_full + self.dropped_by_aqm + self.dropped_from_longest
    }

    /// Returns an upper bound, ns, of the sojourn time of `percent` % of the packets sent: a power
    /// of two, at most twice the time. `None` if none was sent.
    #[must_use]
    pub fn sojourn_bound_ns(&self, percent: u64) -> Option<u64> {
        let all: u64 = self.sojourn.iter().sum();
        let wanted = (u128::from(all) * u128::from(percent)).div_ceil(100).max(1);
        let mut below = 0;
        let bucket = self.sojourn.iter().position(|count| {
            below += u128::from(*count);
            below >= wanted
        });
        bucket.map(|bucket| 2 << bucket)
    }
}

/// What [`attach`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// It attached a new qdisc.
    New,
    /// It changed the attached one.
    Changed,
}

/// Attaches the qdisc to `interface`, or changes the contracts of the attached one without losing a
/// packet.
///
/// # Errors
/// See [`AttachError`].
pub fn attach(interface: &str, qdisc: &Qdisc) -> Result<Attached, AttachError> {
    let pins = pins(interface)?;
    let index = index(interface)?;
    check_system()?;
    if qdisc.rules.has_filters() && !has_ethernet_frames(interface) {
        return Err(AttachError::Frames(interface.to_owned()));
    }
    if pins.exists() {
        if is_root(interface, index)? {
            change(&pins, qdisc)?;
            return Ok(Attached::Changed);
        }
        // Its interface or its qdisc was deleted, or the process that attached it was killed.
        remove(&pins)?;
    }
    let name = name(index);
    let attached = load(&pins, &name, qdisc)
        .and_then(|()| tc(&["qdisc", "replace", "dev", interface, "root", &name]).map(drop));
    if attached.is_err() {
        remove(&pins)?;
    }
    attached.map(|()| Attached::New)
}

/// Removes the qdisc from `interface`, which may have been deleted meanwhile.
///
/// # Errors
/// See [`AttachError`].
pub fn detach(interface: &str) -> Result<(), AttachError> {
    let pins = attached_pins(interface)?;
    // Another qdisc may have replaced this one; it stays.
    if let Ok(index) = index(interface)
        && is_root(interface, index)?
    {
        tc(&["qdisc", "del", "dev", interface, "root"])?;
    }
    remove(&pins)
}

/// Returns the state of the qdisc of `interface`.
///
/// # Errors
/// See [`AttachError`].
pub fn status(interface: &str) -> Result<Status, AttachError> {
    let pins = attached_pins(interface)?;
    if !is_root(interface, index(interface)?)? {
        return Err(AttachError::Detached(interface.to_owned()));
    }
    let current = read(&pins, "current")?[0] as usize & 1;
    let config = read(&pins, "config")?;
    let config = &config[current * size_of::<Config>()..];
    let count = (word(config, 4) as usize).min(MAX_STREAMS);
    let (state, times) = (read(&pins, "state")?, read(&pins, "times")?);
    let (names, bounds) = (read(&pins, "names")?, read(&pins, "bounds")?);
    let streams = (state[STATE_HEADER..].chunks_exact(STREAM_BYTES))
        .zip(times[TIMES_HEADER..].chunks_exact(BUCKETS * 8))
        .zip(names.chunks_exact(NAME_BYTES))
        .take(count)
        .enumerate();
    let streams = streams.map(|(number, ((stream, buckets), name))| {
        let counter = |at: usize| double_word(stream, COUNTERS_AT + 8 * at);
        let delay_bound_ns = double_word(&bounds, 8 * number);
        StreamStatus {
            name: text(name),
            waiting: word(stream, WAITING_AT) + word(stream, WAITING_IN_FLOWS_AT),
            flows: word(stream, FLOWS_AT),
            arrivals: counter(0),
            sent: counter(1),
            sent_bytes: counter(2),
            dropped_late: counter(3),
            dropped_full: counter(4),
            missed: counter(5),
            violations: counter(6),
            dropped_by_aqm: counter(7),
            dropped_from_longest: counter(8),
            sojourn: (0..BUCKETS).map(|bucket| double_word(buckets, 8 * bucket)).collect(),
            sojourn_sum_ns: double_word(&times, SUMS_AT + 8 * number),
            sojourn_longest_ns: double_word(&times, LONGEST_AT + 8 * number),
            delay_bound_ns: (delay_bound_ns > 0).then_some(delay_bound_ns),
        }
    });
    Ok(Status {
        discipline: discipline(config),
        rate_bps: double_word(config, 8),
        timer_late_longest_ns: double_word(&times, TIMER_LATE_AT),
        streams: streams.collect(),
    })
}

/// Makes the attached qdisc log its first events into the pinned map `log`, for tests.
///
/// # Errors
/// See [`AttachError`].
#[doc(hidden)]
pub fn log_events(interface: &str) -> Result<(), AttachError> {
    let pins = attached_pins(interface)?;
    let mut both = read(&pins, "config")?;
    for config in both.chunks_exact_mut(size_of::<Config>()) {
        config[LOGS_AT..LOGS_AT + 4].copy_from_slice(&1u32.to_le_bytes());
    }
    write(&pins, "config", &both)
}

/// Checks that the process may attach qdiscs and the kernel has them.
fn check_system() -> Result<(), AttachError> {
    if std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() != 0) {
        return Err(AttachError::Root);
    }
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    if has_bpf_qdiscs(&types) {
        return Ok(());
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Err(AttachError::Kernel(release.trim().to_owned()))
}

/// Returns whether the kernel of these BTF types has BPF qdiscs.
fn has_bpf_qdiscs(types: &[u8]) -> bool {
    types.split(|byte| *byte == 0).any(|name| name == KERNEL_TYPE)
}

/// Returns the index of an interface.
fn index(interface: &str) -> Result<i32, AttachError> {
    let file = Path::new("/sys/class/net").join(interface).join("ifindex");
    let index = std::fs::read_to_string(file).ok().and_then(|index| index.trim().parse().ok());
    index.ok_or_else(|| AttachError::Interface(interface.to_owned()))
}

/// Returns the name of the qdisc of the interface with this index; names of qdiscs are unique in
/// the kernel.
fn name(index: i32) -> String {
    format!("ms_{index}")
}

/// Returns whether frames begin with a header of Ethernet: by the type of the interface,
/// `ARPHRD_ETHER` or `ARPHRD_LOOPBACK`.
fn has_ethernet_frames(interface: &str) -> bool {
    let kind = std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("type"));
    kind.is_ok_and(|kind| ["1", "772"].contains(&kind.trim()))
}

/// Returns whether the qdisc is the root qdisc of the interface with this index.
fn is_root(interface: &str, index: i32) -> Result<bool, AttachError> {
    let kind = root_qdisc::kind(index);
    let kind = kind.map_err(|error| AttachError::RootQdisc(interface.to_owned(), error))?;
    Ok(kind.is_some_and(|kind| kind == name(index)))
}

/// Returns the folder of the pins of an interface, which is never another folder.
fn pins(interface: &str) -> Result<PathBuf, AttachError> {
    if interface.is_empty() || interface.contains('/') || [".", ".."].contains(&interface) {
        return Err(AttachError::Interface(interface.to_owned()));
    }
    // The BPF file system has no dots in names, interfaces no colons.
    Ok(Path::new(PINS).join(interface.replace('.', ":")))
}

fn attached_pins(interface: &str) -> Result<PathBuf, AttachError> {
    let pins = pins(interface)?;
    match pins.try_exists() {
        Ok(true) => Ok(pins),
        // The folder above may be root's only.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(AttachError::Root),
        _ => Err(AttachError::Detached(interface.to_owned())),
    }
}

/// Removes the pins. The kernel frees the maps and programs when the qdisc is gone too.
fn remove(pins: &Path) -> Result<(), AttachError> {
    match std::fs::remove_dir_all(pins) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(AttachError::File(pins.to_owned(), error))
        }
        _ => Ok(()),
    }
}

/// Returns the little-endian word at `at`.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Returns the little-endian double word at `at`.
fn double_word(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Returns the text before the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns the names as the map of the qdisc holds them, truncated between characters.
fn names(names: &[String]) -> Vec<u8> {
    let mut bytes = vec![0; MAX_STREAMS * NAME_BYTES];
    for (place, name) in bytes.chunks_exact_mut(NAME_BYTES).zip(names) {
        let end = name.floor_char_boundary(NAME_BYTES - 1);
        place[..end].copy_from_slice(&name.as_bytes()[..end]);
    }
    bytes
}

/// Returns the bounds as the map of the qdisc holds them.
fn bounds(bounds_ns: &[Option<u64>]) -> Vec<u8> {
    let mut bytes = vec![0; MAX_STREAMS * 8];
    for (place, bound_ns) in bytes.chunks_exact_mut(8).zip(bounds_ns) {
        place.copy_from_slice(&bound_ns.unwrap_or(0).to_le_bytes());
    }
    bytes
}

/// Returns the name of the discipline of a configuration.
fn discipline(config: &[u8]) -> &'static str {
    DISCIPLINES.get(word(config, 0) as usize).copied().unwrap_or("unknown")
}

/// Loads the object, registers its qdisc as `name` and pins its maps.
fn load(pins: &Path, name: &str, qdisc: &Qdisc) -> Result<(), AttachError> {
    let failed = |action| move |error| AttachError::Bpf(action, error);
    let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(failed("opening"))?;
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some(".bss.config") => set(&mut map, qdisc.config.bytes()),
            Some(".bss.rules") => set(&mut map, qdisc.rules.bytes()),
            Some(".bss.names") => set(&mut map, &names(&qdisc.names)),
            Some(".bss.bounds") => set(&mut map, &bounds(&qdisc.delay_bounds_ns)),
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
    let mut object = open.load().map_err(failed("loading the qdisc into the kernel"))?;
    std::fs::create_dir_all(pins).map_err(|error| AttachError::File(pins.to_owned(), error))?;
    for mut map in object.maps_mut() {
        let file = MAPS.iter().find(|(map_name, ..)| map.name() == *map_name);
        if let Some((_, file, _)) = file {
            map.pin(pins.join(file)).map_err(failed("pinning a map"))?;
        } else if map.name() == OPERATIONS {
            let mut link = register(&mut map).map_err(failed("registering the qdisc"))?;
            link.pin(pins.join("link")).map_err(failed("pinning the qdisc"))?;
        }
    }
    Ok(())
}

/// Registers the qdisc, once the name of a removed one is free.
fn register(map: &mut MapMut<'_>) -> libbpf_rs::Result<Link> {
    for _ in 1..ATTEMPTS {
        match map.attach_struct_ops() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                thread::sleep(RETRY_INTERVAL);
            }
            result => return result,
        }
    }
    map.attach_struct_ops()
}

fn set(map: &mut OpenMapMut<'_>, bytes: &[u8]) {
    if let Some(value) = map.initial_value_mut() {
        // The kernel rounds the size of some maps up.
        value[..bytes.len()].copy_from_slice(bytes);
    }
}

/// Writes the configuration that is not in use, then selects it.
fn change(pins: &Path, qdisc: &Qdisc) -> Result<(), AttachError> {
    let mut both = read(pins, "config")?;
    let selected = usize::from(read(pins, "current")?[0] & 1);
    let selected = &both[selected * size_of::<Config>()..];
    check_change(selected, &read(pins, "names")?, qdisc)?;
    let current = unselect_waiting(pins)?;
    let (first, second) = both.split_at_mut(size_of::<Config>());
    let (old, other) = if current == 0 { (first, second) } else { (second, first) };
    let new = qdisc.config.bytes();
    other[..new.len()].copy_from_slice(new);
    other[LOGS_AT..LOGS_AT + 4].copy_from_slice(&old[LOGS_AT..LOGS_AT + 4]);
    write(pins, "config", &both)?;
    write(pins, "names", &names(&qdisc.names))?;
    write(pins, "bounds", &bounds(&qdisc.delay_bounds_ns))?;
    write(pins, "current", &u32::from(current ^ 1).to_le_bytes())?;
    // Afterwards: rules may name streams that only the new configuration has.
    write(pins, "rules", qdisc.rules.bytes())
}

/// Returns the configuration in use, which is then also the selected one: a change that no packet
/// has followed waits, and is not applied.
fn unselect_waiting(pins: &Path) -> Result<u8, AttachError> {
    loop {
        let applied = u8::from(word(&read(pins, "times")?, APPLIED_AT) & 1 == 1);
        if read(pins, "current")?[0] & 1 == applied {
            return Ok(applied);
        }
        write(pins, "current", &u32::from(applied).to_le_bytes())?;
        // An operation that has read the selection is over a moment later.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Checks that the discipline and the streams stay, with their numbers and flows.
fn check_change(old: &[u8], old_names: &[u8], qdisc: &Qdisc) -> Result<(), AttachError> {
    let (attached, wanted) = (discipline(old), discipline(qdisc.config.bytes()));
    if attached != wanted {
        let message = format!("its discipline is {attached}, that of the scenario {wanted}");
        return Err(AttachError::Change(message));
    }
    let new_names = names(&qdisc.names);
    let both = old_names.chunks_exact(NAME_BYTES).zip(new_names.chunks_exact(NAME_BYTES));
    let count = word(old, 4) as usize;
    let mut both = both.take(count).enumerate();
    let Some((at, (old_name, new))) = both.find(|(_, (old, new))| old != new) else {
        return check_flows(old, count, qdisc);
    };
    let (old, number) = (text(old_name), at + 1);
    Err(AttachError::Change(match text(new) {
        new if new.is_empty() => format!("the scenario lacks its stream {number}, `{old}`"),
        new => format!("its stream {number} is `{old}`, that of the scenario `{new}`"),
    }))
}

/// Checks that the first `count` streams have as many flows as before.
fn check_flows(old: &[u8], count: usize, qdisc: &Qdisc) -> Result<(), AttachError> {
    let mut streams = qdisc.names.iter().enumerate().take(count);
    let flows = |at| word(old, Config::flows_at(at)) as usize;
    let Some((at, name)) = streams.find(|(at, _)| flows(*at) != qdisc.config.flows(*at)) else {
        return Ok(());
    };
    let (old, new) = (flows(at), qdisc.config.flows(at));
    let message = format!("its stream `{name}` has {old} flows, that of the scenario {new}");
    Err(AttachError::Change(message))
}

fn open(pins: &Path, file: &str) -> Result<MapHandle, AttachError> {
    let path = pins.join(file);
    if !path.exists() {
        return Err(AttachError::Version);
    }
    MapHandle::from_pinned_path(path).map_err(|e| AttachError::Bpf("opening a map", e))
}

/// Reads a pinned map. Fails if its value is smaller than in [`MAPS`].
fn read(pins: &Path, file: &str) -> Result<Vec<u8>, AttachError> {
    let value = open(pins, file)?.lookup(&KEY, MapFlags::ANY);
    let value = value.map_err(|e| AttachError::Bpf("reading a map", e))?.unwrap_or_default();
    let known = MAPS.iter().any(|(_, of, bytes)| *of == file && value.len() >= *bytes);
    if known { Ok(value) } else { Err(AttachError::Version) }
}

fn write(pins: &Path, file: &str, value: &[u8]) -> Result<(), AttachError> {
    let map = open(pins, file)?;
    map.update(&KEY, value, MapFlags::ANY).map_err(|e| AttachError::Bpf("writing a map", e))
}

/// Runs `tc`; returns its output.
fn tc(arguments: &[&str]) -> Result<String, AttachError> {
    let output = Command::new("tc").args(arguments).output().map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return AttachError::NoTc;
        }
        AttachError::Tc(error.to_string())
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
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
        let error = detach("no-such-if").unwrap_err();
        assert!(matches!(error, AttachError::Detached(_) | AttachError::Root), "{error}");
        assert_eq!(pins("eth0.100").unwrap(), Path::new("/sys/fs/bpf/millstream/eth0:100"));
    }

    #[test]
    fn a_kernel_with_bpf_qdiscs_has_their_type() {
        assert!(has_bpf_qdiscs(b"\0bpf_struct_ops_tcp\0bpf_struct_ops_Qdisc_ops\0"));
        assert!(!has_bpf_qdiscs(b"\0Qdisc_ops\0bpf_struct_ops_tcp\0"));
        assert!(!has_bpf_qdiscs(b""));
    }

    #[test]
    fn names_are_truncated_between_characters() {
        let long = "é".repeat(40);
        let bytes = names(&["voice".into(), long]);
        let mut texts = bytes.chunks_exact(NAME_BYTES).map(text);
        assert_eq!(texts.next().unwrap(), "voice");
        assert_eq!(texts.next().unwrap(), "é".repeat(31));
        assert_eq!(texts.next().unwrap(), "");
    }

    #[test]
    fn the_sojourn_bound_is_the_end_of_a_bucket() {
        let mut stream = StreamStatus { sojourn: vec![0; BUCKETS], ..StreamStatus::default() };
        assert_eq!(stream.sojourn_bound_ns(50), None);
        stream.sojourn[10] = 98;
        stream.sojourn[20] = 2;
        assert_eq!(stream.sojourn_bound_ns(0), Some(2_048));
        assert_eq!(stream.sojourn_bound_ns(98), Some(2_048));
        assert_eq!(stream.sojourn_bound_ns(99), Some(2 << 20));
    }

    fn qdisc(text: &str) -> Qdisc {
        let scenario = millstream_scenario::Scenario::parse("test.toml", text, Path::new(""));
        Qdisc::of_scenario(&scenario.unwrap()).unwrap()
    }

    #[test]
    fn a_change_keeps_the_discipline_and_the_streams() {
        let text = |discipline: &str, streams: &[&str]| {
            let mut text = "link.rate = \"1 Mbit/s\"\nscenario.duration = \"1 s\"\n".to_owned();
            text += &format!("scheduler.discipline = \"{discipline}\"\n");
            for (at, name) in streams.iter().enumerate() {
                let (name, flows) = name.split_once(' ').unwrap_or((name, ""));
                text += &format!("[[stream]]\nname = \"{name}\"\n");
                text += if flows.is_empty() { "" } else { "flows = { buckets = 20 }\n" };
                text += if at == 0 { "" } else { "match = [{ mark = 1 }]\n" };
                text += "source = { kind = \"cbr\", bytes = 100, interval = \"1 ms\" }\n";
            }
            text
        };
        let old = qdisc(&text("drr", &["a", "b"]));
        let to = |discipline, streams: &[&str]| {
            let changed = qdisc(&text(discipline, streams));
            check_change(old.config.bytes(), &names(&old.names), &changed)
                .map_err(|error| error.to_string())
        };
        assert_eq!(to("drr", &["a", "b", "c"]), Ok(()));
        let error = to("wf2q+", &["a", "b"]).unwrap_err();
        assert!(error.ends_with("its discipline is drr, that of the scenario wf2q+"), "{error}");
        let error = to("drr", &["a"]).unwrap_err();
        assert!(error.ends_with("the scenario lacks its stream 2, `b`"), "{error}");
        let error = to("drr", &["a", "b with flows"]).unwrap_err();
        let flows = "its stream `b` has 0 flows, that of the scenario 24";
        assert!(error.ends_with(flows), "{error}");
        let error = to("drr", &["b", "a"]).unwrap_err();
        assert!(error.ends_with("its stream 1 is `a`, that of the scenario `b`"), "{error}");
    }
}
