//! The supervisor of the data plane: finds or starts it, wakes it, restarts it after a crash and
//! ends it.

use millstream_scenario::{Placement, Scenario};
use mio::net::UnixStream;
use mio::{Interest, Registry};
use std::io;
use std::path::Path;

use super::restart::{MAX_EARLY_EXITS, MIN_UPTIME, RestartLimit};
use super::{DATA_PLANE, failed, listeners};
use crate::MediaError;
use crate::data_plane::placement::{self, DataPlaneHandle, SharedResources};
use crate::files::library::Library;
use crate::instruction::api;
use crate::shared_memory::frame_cache;
use crate::shared_memory::live_frames;
use crate::shared_memory::region::{GlobalField, Region, link_fields};
use crate::shared_memory::store::Store;
use crate::wake_socket::{drain, event_counter, wake};

/// A data plane before its supervision: its resources, and the running one if an earlier server
/// left it.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) resources: SharedResources,
    running: Option<(DataPlaneHandle, std::os::unix::net::UnixStream)>,
}

impl Prepared {
    /// Finds the data plane that an earlier server left, or creates the resources of a new one.
    pub(super) fn open(library: &Library, scenario: &Scenario) -> Result<Self, MediaError> {
        match find(library, scenario)? {
            Some((data_plane, resources, waker)) => {
                Ok(Self { resources, running: Some((data_plane, waker)) })
            }
            None => Ok(Self { resources: new_resources(library, scenario)?, running: None }),
        }
    }

    /// Returns whether an earlier server left the data plane running.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

/// The data plane and what is needed to start another one.
#[derive(Debug)]
pub(super) struct Supervisor {
    placement: Placement,
    resources: SharedResources,
    data_plane: DataPlaneHandle,
    waker: UnixStream,
    restarts: RestartLimit,
}

impl Supervisor {
    /// Starts the data plane, unless it runs, and registers its wake-up socket.
    pub(super) fn start(
        prepared: Prepared,
        placement: Placement,
        registry: &Registry,
    ) -> Result<Self, MediaError> {
        let Prepared { resources, running } = prepared;
        let (data_plane, waker) = match running {
            Some(running) => running,
            None => DataPlaneHandle::start(placement, &resources)
                .map_err(|error| failed("the data plane process", &error))?,
        };
        let mut waker = UnixStream::from_std(waker);
        register(&mut waker, registry)?;
        Ok(Self { placement, resources, data_plane, waker, restarts: RestartLimit::new() })
    }

    /// Returns the resources that server and data plane share.
    pub(super) fn resources(&self) -> &SharedResources {
        &self.resources
    }

    /// Returns the region that server and data plane share.
    pub(super) fn region(&self) -> Region {
        self.resources.region
    }

    /// Returns the socket that wakes the data plane.
    pub(super) fn waker(&self) -> &UnixStream {
        &self.waker
    }

    /// Returns whether the data plane is a separate process.
    pub(super) fn is_separate_process(&self) -> bool {
        self.placement != Placement::Host
    }

    /// Returns the id of the data-plane process, if it is a separate process.
    pub(super) fn id(&self) -> Option<u32> {
        self.data_plane.id()
    }

    /// Wakes the data plane if the host has changed the instruction table.
    pub(super) fn announce_instructions(&self) {
        if self.region().get(GlobalField::InstructionsChanged) != 0 {
            wake(&self.waker);
        }
    }

    /// Drains the wake-ups of the data plane. Returns whether it still runs.
    pub(super) fn drain(&mut self) -> bool {
        drain(&mut self.waker)
    }

    /// Starts another data plane in place of one that has ended.
    ///
    /// # Errors
    /// Fails if too many ended early, none can be started, or it was a thread of this server.
    pub(super) fn restart(&mut self, registry: &Registry) -> Result<(), MediaError> {
        let reason = self.data_plane.wait().unwrap_or_else(|| "exited unexpectedly".to_owned());
        if !self.is_separate_process() {
            return Err(MediaError::new(format!("scheduler and dispatch failed: {reason}")));
        }
        if !self.restarts.record_exit() {
            let message = format!(
                "{MAX_EARLY_EXITS} data plane processes in a row ended within {MIN_UPTIME:?}: \
                 {reason}"
            );
            let help = "placement = \"host\" needs no separate process";
            return Err(MediaError::new(message).help(help));
        }
        eprintln!("the data plane process ended ({reason}); starting another");
        let start = || DataPlaneHandle::start(self.placement, &self.resources);
        let (data_plane, waker) = self
            .restarts
            .restart(start)
            .map_err(|error| failed("the data plane process", &error))?;
        let _ = registry.deregister(&mut self.waker);
        self.waker = UnixStream::from_std(waker);
        self.data_plane = data_plane;
        register(&mut self.waker, registry)
    }

    /// Ends the data plane and waits for its end.
    pub(super) fn end(&mut self) {
        self.region().set(GlobalField::End, 1);
        wake(&self.waker);
        let _ = self.data_plane.wait();
    }
}

fn register(waker: &mut UnixStream, registry: &Registry) -> Result<(), MediaError> {
    registry
        .register(waker, DATA_PLANE, Interest::READABLE)
        .map_err(|error| failed("the data plane's waker", &error))
}

/// Finds a data plane that an earlier server left running with the same scenario.
fn find(
    library: &Library,
    scenario: &Scenario,
) -> Result<Option<(DataPlaneHandle, SharedResources, std::os::unix::net::UnixStream)>, MediaError>
{
    let Some(path) = &scenario.media.socket else { return Ok(None) };
    let found =
        DataPlaneHandle::find(path).map_err(|error| failed(&path.display().to_string(), &error));
    let Some((data_plane, resources, waker)) = found? else { return Ok(None) };
    let same = Store::open(&resources.store).is_ok_and(|store| store.is_same(&library.store))
        && identifying_fields(library, scenario)
            .iter()
            .all(|(at, value)| resources.region.get(*at) == *value);
    if !same {
        let message = format!("{}: the running data plane serves another scenario", path.display());
        let help = "start the server with the scenario of that data plane, or stop it first";
        return Err(MediaError::new(message).help(help));
    }
    Ok(Some((data_plane, resources, waker)))
}

/// Returns the global fields that identify a data plane of this scenario.
fn identifying_fields(library: &Library, scenario: &Scenario) -> [(GlobalField, u64); 7] {
    let [rate, overhead, framing] = link_fields(scenario.link.wire());
    [
        (GlobalField::Sessions, library.rows(scenario.media.sessions).into()),
        rate,
        overhead,
        framing,
        (GlobalField::Schedule, library.schedule as u64),
        (GlobalField::InstructionTable, api::needs_table(scenario).into()),
        (GlobalField::FramePath, scenario.media.frame_path as u64),
    ]
}

/// Creates the shared resources of a new data plane.
fn new_resources(library: &Library, scenario: &Scenario) -> Result<SharedResources, MediaError> {
    let media = &scenario.media;
    let (region, region_file) =
        Region::create_with(library.rows(media.sessions), api::needs_table(scenario))
            .map_err(|error| failed("shared memory", &error))?;
    if let Some(instruction_table) = region.instruction_table() {
        api::load(instruction_table, scenario)?;
    }
    for (field, value) in identifying_fields(library, scenario) {
        region.set(field, value);
    }
    let [rtp, rtcp] =
        listeners::port_pair(media.listen.ip()).map_err(|error| failed("ports for RTP", &error))?;
    let listen = |path: &Path| {
        placement::listen(path).map_err(|error| {
            failed(&format!("the data plane's socket {}", path.display()), &error)
                .help("set `socket` to an unused path in a directory that this user can write to")
        })
    };
    let shapes: Vec<_> = library.live.iter().map(|live| live.shape).collect();
    let places = if library.media_files.files.is_empty() { 0 } else { media.sessions };
    let media_files = library.media_files.files.iter().map(std::fs::File::try_clone);
    Ok(SharedResources {
        frame_cache: frame_cache::create(places, library.media_files.shape())
            .map_err(|error| failed("memory for the frame cache", &error))?,
        media_files: media_files
            .collect::<io::Result<_>>()
            .map_err(|error| failed("media files", &error))?,
        live: live_frames::create(&shapes)
            .map_err(|error| failed("memory for live frames", &error))?,
        store: library.file.try_clone().map_err(|error| failed("the store", &error))?,
        region_file,
        region,
        rtp,
        rtcp,
        media_thread: event_counter().map_err(|error| failed("an event counter", &error))?,
        listener: media.socket.as_deref().map(listen).transpose()?,
    })
}
