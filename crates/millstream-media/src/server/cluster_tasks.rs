//! Cluster tasks of session control; they run on its thread, between other events.

use millstream_scenario::Scenario;
use millstream_sync::clock::system::now_ns;
use mio::{Interest, Registry};
use std::net::SocketAddr;
use std::time::Duration;

use super::{CLUSTER, TICK, failed};
use crate::MediaError;
use crate::cluster::browsers::own_origin;
use crate::cluster::{Cluster, ClusterContext};
use crate::files::library::Library;
use crate::shared_memory::region::{GlobalField, Region};

/// The server's place in a cluster, if the scenario names one.
#[derive(Debug)]
pub(super) struct ClusterTasks {
    cluster: Option<Cluster>,
}

impl ClusterTasks {
    /// Joins the scenario's cluster, if it names one. This server's RTSP listener is at `rtsp`, and
    /// that of browsers at `webrtc`.
    pub(super) fn join(
        scenario: &Scenario,
        library: &Library,
        rtsp: SocketAddr,
        webrtc: Option<SocketAddr>,
        registry: &Registry,
        region: Region,
    ) -> Result<Self, MediaError> {
        let Some(cluster) = &scenario.media.cluster else {
            region.set(GlobalField::HandOverNs, 0);
            return Ok(Self { cluster: None });
        };
        // A data plane without a host must stop first: the other servers take over its clients once
        // they declare this server dead.
        region.set(GlobalField::HandOverNs, cluster.dead_after_ns / 2);
        let secret = scenario.folder.join(&cluster.secret);
        let (tls, given) = (scenario.media.tls.is_some(), cluster.origin.as_deref());
        let public = cluster.address.unwrap_or(rtsp).ip();
        let origin = webrtc.and_then(|webrtc| own_origin(webrtc, tls, given, public));
        let mut joined = Cluster::open(cluster, &secret, library, rtsp, origin)?;
        let registered = registry.register(&mut joined.socket, CLUSTER, Interest::READABLE);
        registered.map_err(|error| failed("the cluster's port", &error))?;
        Ok(Self { cluster: Some(joined) })
    }

    /// Returns the cluster, if the server is in one.
    pub(super) fn cluster(&mut self) -> Option<&mut Cluster> {
        self.cluster.as_mut()
    }

    /// Runs the tasks that are due. Returns the time until the next one.
    pub(super) fn run(&mut self, context: &mut ClusterContext<'_>) -> Duration {
        let Some(cluster) = &mut self.cluster else { return TICK };
        let next_ns = cluster.step(context);
        TICK.min(Duration::from_nanos(next_ns.saturating_sub(now_ns())))
    }
}
