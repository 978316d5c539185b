//! Counters of rejected requests and connections, by reason, with rate-limited log lines.

use std::net::{IpAddr, Ipv6Addr};

use crate::pages::status::RejectStatus;

/// The shortest time between two lines about one reason, ns: rejected clients must not fill the
/// log.
const LOG_INTERVAL_NS: u64 = 1_000_000_000;

/// Why a request or connection was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A wrong password or token.
    Credentials,
    /// Too many connections of one address.
    Connections,
    /// Too many sessions of one address.
    Sessions,
    /// Credentials rejected unread during the back-off.
    BackOff,
    /// The connection table is full.
    Full,
    /// The oldest connection without a complete request, evicted for a new one.
    Evicted,
    /// Too many WebRTC clients are connecting.
    HalfOpen,
}

/// The reasons with their metric label and log text.
pub(crate) const REASONS: [(Reason, &str, &str); 7] = [
    (Reason::Credentials, "credentials", "a wrong password or token"),
    (Reason::Connections, "connections-per-address", "too many connections from this address"),
    (Reason::Sessions, "sessions-per-address", "too many sessions from this address"),
    (Reason::BackOff, "back-off", "credentials rejected unread after too many wrong ones"),
    (Reason::Full, "connections", "the connection table is full"),
    (Reason::Evicted, "incomplete-request", "evicted before its first complete request"),
    (Reason::HalfOpen, "half-open", "too many WebRTC clients are connecting"),
];

/// Returns the address that limits apply to: the /64 for IPv6, where a client can use any address.
pub(crate) fn limited_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct RejectCounter {
    count: u64,
    /// Rejects since the last log line.
    suppressed: u64,
    /// The time of the last log line, ns; 0: none yet.
    logged_ns: u64,
}

/// The reject counters of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct RejectCounters {
    counters: [RejectCounter; REASONS.len()],
}

impl RejectCounters {
    /// Counts a reject and logs it at most once per second and reason.
    pub(crate) fn record(&mut self, reason: Reason, peer: IpAddr, now_ns: u64) {
        if let Some(line) = self.line(reason, peer, now_ns) {
            eprintln!("{line}");
        }
    }

    fn line(&mut self, reason: Reason, peer: IpAddr, now_ns: u64) -> Option<String> {
        let counter = &mut self.counters[reason as usize];
        counter.count += 1;
        counter.suppressed += 1;
        if counter.logged_ns != 0 && now_ns.saturating_sub(counter.logged_ns) < LOG_INTERVAL_NS {
            return None;
        }
        counter.logged_ns = now_ns.max(1);
        let (_, _, why) = REASONS[reason as usize];
        let others = std::mem::take(&mut counter.suppressed) - 1;
        let since = if others > 0 {
            format!(" ({others} more since the last line)")
        } else {
            String::new()
        };
        Some(format!("refused: {peer}: {why}{since}"))
    }

    /// Returns all counters in the form of `/status`.
    pub(crate) fn status(&self) -> Vec<RejectStatus> {
        let status = |(which, reason, _): (Reason, &str, _)| RejectStatus {
            reason: reason.to_owned(),
            count: self.count(which),
        };
        REASONS.map(status).into()
    }

    /// Returns the number of rejects for a reason.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counters[reason as usize].count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_holder() {
        let holders = ["2001:db8::1", "2001:db8::2:0:0:1", "2001:db8:0:1::1", "192.0.2.1"]
            .map(|text| limited_address(text.parse().unwrap()));
        assert_eq!(holders[0], holders[1]);
        assert_ne!(holders[0], holders[2]);
        assert_eq!(holders[3].to_string(), "192.0.2.1");
    }

    #[test]
    fn every_reject_is_counted_and_logging_is_rate_limited() {
        let mut rejects = RejectCounters::default();
        let peer = IpAddr::from([192, 0, 2, 1]);
        let mut line = |now_ns| rejects.line(Reason::Credentials, peer, now_ns);
        assert_eq!(line(5).unwrap(), "refused: 192.0.2.1: a wrong password or token");
        assert_eq!((line(6), line(7)), (None, None));
        assert!(line(LOG_INTERVAL_NS + 5).unwrap().ends_with("(2 more since the last line)"));
        assert_eq!(rejects.count(Reason::Credentials), 4);
        assert!(REASONS.iter().zip(0..).all(|((reason, ..), at)| *reason as usize == at));
    }
}
