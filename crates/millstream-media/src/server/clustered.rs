//! Cluster tasks of session control; they run on its thread, between other events.

use millstream_scenario::Scenario;
use mio::{Interest, Poll};
use std::net::SocketAddr;
use std::time::Duration;

use super::{CLUSTER, MediaServer, TICK, failed};
use crate::MediaError;
use crate::clock::now_ns;
use crate::cluster::{Cluster, ClusterContext};
use crate::files::library::Library;
use crate::shared_memory::region::{GlobalField, Region};

/// Joins the scenario's cluster, if it names one. This server's RTSP listener is at `rtsp`.
pub(super) fn join(
    scenario: &Scenario,
    library: &Library,
    rtsp: SocketAddr,
    poll: &Poll,
    region: Region,
) -> Result<Option<Cluster>, MediaError> {
    let Some(cluster) = &scenario.media.cluster else {
        region.set(GlobalField::HandOverNs, 0);
        return Ok(None);
    };
    // A data plane without a host must stop first: the other servers take over its clients once
    // they declare this server dead.
    region.set(GlobalField::HandOverNs, cluster.dead_after_ns / 2);
    let secret = scenario.folder.join(&cluster.secret);
    let mut joined = Cluster::open(cluster, &secret, library, rtsp)?;
    let registered = poll.registry().register(&mut joined.socket, CLUSTER, Interest::READABLE);
    registered.map_err(|error| failed("the cluster's port", &error))?;
    Ok(Some(joined))
}

impl MediaServer {
    /// Runs the cluster tasks that are due. Returns the time until the next one.
    pub(super) fn attend_cluster(&mut self) -> Duration {
        let Some(cluster) = &mut self.cluster else { return TICK };
        let next_ns = cluster.step(&mut ClusterContext {
            library: &self.library,
            sessions: &mut self.sessions,
            waker: &self.waker,
            idle_timeout_ns: self.media.idle_timeout_ns,
        });
        TICK.min(Duration::from_nanos(next_ns.saturating_sub(now_ns())))
    }
}
