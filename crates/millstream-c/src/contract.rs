//! The service contract of a stream.

use std::num::NonZeroU64;

use millstream::aqm::Aqm;
use millstream::aqm::cobalt::CobaltOptions;
use millstream::aqm::codel::CodelOptions;
use millstream::aqm::dual_pi2::DualPi2Options;
use millstream::aqm::pie::PieOptions;
use millstream::aqm::red::RedOptions;
use millstream::flow_queue::{FlowOptions, HostFairness};
use millstream::{ContractError, Late, MaxRate, Window};

use crate::options::Failure;
use crate::packet::MS_NONE;
use crate::status::MS_ERROR_CONTRACT;

/// Late packets are sent.
pub const MS_LATE_SEND: u32 = 0;
/// Late packets are dropped at the first dequeue at or after their deadline.
pub const MS_LATE_DROP: u32 = 1;

/// No queue management.
pub const MS_AQM_NONE: u32 = 0;
/// CoDel (RFC 8289); target 5 ms.
pub const MS_AQM_CODEL: u32 = 1;
/// PIE (RFC 8033); target 15 ms.
pub const MS_AQM_PIE: u32 = 2;
/// RED (Floyd and Jacobson, 1993), between 30 and 90 kB.
pub const MS_AQM_RED: u32 = 3;
/// COBALT, of CAKE; target 5 ms.
pub const MS_AQM_COBALT: u32 = 4;
/// DualPI2 (RFC 9332); target 15 ms. The stream has two queues, by the ECN field.
pub const MS_AQM_DUALPI2: u32 = 5;

/// No limit of a queue.
pub const MS_UNLIMITED: u32 = u32::MAX;

/// The most flows of a stream.
const MOST_FLOWS: u32 = 65_536;

/// The most packets in the flows of a stream.
const MOST_FLOW_PACKETS: u32 = 1 << 22;

/// The service contract of a stream. A discipline reads the fields that it needs and ignores the
/// others. Set the defaults by `ms_contract_init`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// sizeof(ms_contract); `ms_contract_init` sets it.
    pub size: u32,
    /// Fair queueing: the share, at least 1. WRR: packets in a turn. Default 1.
    pub weight: u32,
    /// Deadlines: the request period T, ns, between deadlines of successive packets. The first
    /// deadline is arrival + T. Default 0: none.
    pub period_ns: u64,
    /// The deadline of the first packet, ns. Default `MS_NONE`: its arrival + period.
    pub first_deadline_ns: u64,
    /// DWCS: of any `window_of` packets, at most `window_lost` may be late or lost. Default 0.
    pub window_lost: u32,
    /// See `window_lost`. Default 0: no window.
    pub window_of: u32,
    /// `MS_LATE_SEND`, the default, or `MS_LATE_DROP`.
    pub late: u32,
    /// Static priority; 0 is served first. Default 0.
    pub priority: u32,
    /// DRR: bytes that a turn adds. Default 0: weight * (1514 + overhead) / smallest weight.
    pub quantum_bytes: u32,
    /// The most packets that wait in the stream. Default `MS_UNLIMITED`.
    pub queue_packets: u32,
    /// A cap on the rate, bits/s: heads that exceed it wait, even if the link is idle. Default 0:
    /// none.
    pub max_rate_bps: u64,
    /// The burst of the cap, bytes.
    pub burst_bytes: u64,
    /// Credits of 64 bytes that the stream starts with; `ms_add_credits` returns them. Default
    /// `MS_NONE`: no flow control.
    pub credits: u64,
    /// minbw: 1 for a management channel, which is served first. Default 0.
    pub management: u32,
    /// Flows that have their own queue, up to 65,536 (RFC 8290); more flows share queues. Default
    /// 0: one queue, without queue management.
    pub flows: u32,
    /// Bytes that a flow may send in a turn. Default 1514.
    pub flow_quantum_bytes: u32,
    /// The most packets in all flows of the stream, up to 4,194,304; it replaces `queue_packets`.
    /// Default 10,240.
    pub flow_packets: u32,
    /// The most bytes in all flows of the stream. Default 32 MiB.
    pub flow_bytes: u64,
    /// 1 if hosts share the stream equally, and the flows of a host share its part. Default 0.
    pub flow_hosts: u32,
    /// The queue management of each flow, MS_AQM_... Default `MS_AQM_CODEL`; none without flows.
    pub aqm: u32,
    /// The target delay of the queue management, ns. Default 0: as the AQM's description says.
    pub aqm_target_ns: u64,
    /// The seed of random drops. Default 0.
    pub aqm_seed: u64,
}

impl Default for Contract {
    fn default() -> Self {
        let flows = FlowOptions::default();
        Self {
            size: size_u32::<Self>(),
            weight: 1,
            period_ns: 0,
            first_deadline_ns: MS_NONE,
            window_lost: 0,
            window_of: 0,
            late: MS_LATE_SEND,
            priority: 0,
            quantum_bytes: 0,
            queue_packets: MS_UNLIMITED,
            max_rate_bps: 0,
            burst_bytes: 0,
            credits: MS_NONE,
            management: 0,
            flows: 0,
            flow_quantum_bytes: flows.quantum_bytes,
            flow_packets: flows.limit_packets,
            flow_bytes: flows.limit_bytes,
            flow_hosts: 0,
            aqm: MS_AQM_CODEL,
            aqm_target_ns: 0,
            aqm_seed: flows.seed,
        }
    }
}

impl Contract {
    /// Returns the contract as the engine has it. `default_quantum` is used if none is given.
    pub(crate) fn parse(&self, default_quantum: u32) -> Result<millstream::Contract, Failure> {
        let mut contract = self.terms(default_quantum).map_err(Failure::contract)?;
        contract = contract.late(match self.late {
            MS_LATE_SEND => Late::Send,
            MS_LATE_DROP => Late::Drop,
            other => return Err(Failure::range("late", other, "MS_LATE_SEND or MS_LATE_DROP")),
        });
        if flag("management", self.management)? {
            contract = contract.fmc();
        }
        if self.flows > 0 { Ok(contract.flows(self.flow_options()?)) } else { Ok(contract) }
    }

    /// Returns the contract without its enumerations and flows.
    fn terms(&self, default_quantum: u32) -> Result<millstream::Contract, ContractError> {
        let window = Window::new(self.window_lost, self.window_of)?;
        let quantum = if self.quantum_bytes == 0 { default_quantum } else { self.quantum_bytes };
        let mut contract = millstream::Contract::new()
            .window(window)
            .priority(self.priority)
            .weight(self.weight)?
            .quantum_bytes(quantum)?;
        if self.period_ns > 0 {
            contract = contract.period_ns(self.period_ns)?;
        }
        if self.first_deadline_ns != MS_NONE {
            contract = contract.first_deadline_ns(self.first_deadline_ns);
        }
        if self.queue_packets != MS_UNLIMITED {
            contract = contract.queue(self.queue_packets);
        }
        if let Some(rate_bps) = NonZeroU64::new(self.max_rate_bps) {
            contract = contract.max_rate(MaxRate { rate_bps, burst_bytes: self.burst_bytes });
        }
        if self.credits != MS_NONE {
            contract = contract.credits(self.credits);
        }
        Ok(contract)
    }

    fn flow_options(&self) -> Result<FlowOptions, Failure> {
        if self.flows > MOST_FLOWS {
            return Err(Failure::range("flows", self.flows, "at most 65,536"));
        }
        if !(1..=MOST_FLOW_PACKETS).contains(&self.flow_packets) {
            return Err(Failure::range("flow_packets", self.flow_packets, "1 to 4,194,304"));
        }
        if self.flow_quantum_bytes == 0 {
            return Err(Failure::range("flow_quantum_bytes", 0, "at least 1"));
        }
        let hosts = flag("flow_hosts", self.flow_hosts)?;
        Ok(FlowOptions {
            buckets: self.flows,
            quantum_bytes: self.flow_quantum_bytes,
            limit_bytes: self.flow_bytes,
            limit_packets: self.flow_packets,
            hosts: if hosts { HostFairness::ByHost } else { HostFairness::None },
            aqm: self.queue_management()?,
            seed: self.aqm_seed,
        })
    }

    fn queue_management(&self) -> Result<Aqm, Failure> {
        let target = |default_ns| match self.aqm_target_ns {
            0 => default_ns,
            target_ns => target_ns,
        };
        match self.aqm {
            MS_AQM_NONE => Ok(Aqm::None),
            MS_AQM_CODEL => {
                let default = CodelOptions::default();
                let target_ns = target(default.target_ns);
                Ok(Aqm::Codel(CodelOptions { target_ns, ..default }))
            }
            MS_AQM_PIE => {
                let default = PieOptions::default();
                let target_ns = target(default.target_ns);
                Ok(Aqm::Pie(PieOptions { target_ns, ..default }))
            }
            MS_AQM_RED if self.aqm_target_ns > 0 => Err(Failure {
                status: MS_ERROR_CONTRACT,
                text: "MS_AQM_RED has no aqm_target_ns".into(),
            }),
            MS_AQM_RED => Ok(Aqm::Red(RedOptions::default())),
            MS_AQM_COBALT => {
                let default = CobaltOptions::default();
                let target_ns = target(default.target_ns);
                Ok(Aqm::Cobalt(CobaltOptions { target_ns, ..default }))
            }
            MS_AQM_DUALPI2 => {
                let default = DualPi2Options::default();
                let target_ns = target(default.target_ns);
                Ok(Aqm::DualPi2(DualPi2Options::for_rtt(target_ns, DualPi2Options::RTT_NS)))
            }
            other => Err(Failure::range("aqm", other, "MS_AQM_NONE to MS_AQM_DUALPI2")),
        }
    }
}

/// Returns whether a flag is set.
fn flag(field: &str, value: u32) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Failure::range(field, other, "0 or 1")),
    }
}

/// Returns the size of a structure of the ABI.
pub(crate) const fn size_u32<T>() -> u32 {
    // Structures of the ABI have a few hundred bytes.
    #[allow(clippy::cast_possible_truncation)]
    let size = size_of::<T>() as u32;
    size
}
