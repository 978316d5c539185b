//! The summary of a network's run.

use millstream_report::{
    NetworkLinkSummary, NetworkSummary, PagesSummary, SizeClassSummary, SourceSummary,
    TimesSummary, TransfersSummary,
};
use millstream_scenario::Direction;
use millstream_sim::network::{
    Completions, HopReport, NetworkReport, Pages, SIZE_CLASSES, SourceReport, Times,
};

/// Returns the summary of a run that ended at `end_ns`.
#[must_use]
pub fn network_summary(report: &NetworkReport, end_ns: u64) -> NetworkSummary {
    let link = |hop: &HopReport| NetworkLinkSummary {
        name: hop.name.clone(),
        direction: match hop.direction {
            Direction::Forward => "forward",
            Direction::Return => "return",
        },
        sent: hop.sent_packets,
        sent_bytes: hop.sent_bytes,
        utilisation: millstream_report::share(hop.busy_ns, end_ns),
        dropped_full: hop.dropped_full,
        dropped_aqm: hop.dropped_by_aqm,
        dropped_late: hop.dropped_late,
        marked: hop.marked,
        lost: hop.lost,
        delay_ns: times(&hop.delay),
    };
    let source = |source: &SourceReport| {
        let bits = u128::from(source.delivered_bytes) * 8_000_000_000;
        SourceSummary {
            stream: source.stream.clone(),
            sent: source.sent_packets,
            delivered_bytes: source.delivered_bytes,
            goodput_bps: u64::try_from(bits / u128::from(end_ns.max(1))).unwrap_or(u64::MAX),
            retransmissions: source.retransmissions,
            timeouts: source.timeouts,
            marked: source.marked,
            rate_changes: source.rate_changes,
            rtt_ns: times(&source.rtt),
            transfer_ns: times(&source.transfers),
            transfers: source.completions.as_ref().map(transfers),
            pages: source.pages.as_ref().map(pages),
        }
    };
    NetworkSummary {
        links: report.hops.iter().map(link).collect(),
        sources: report.sources.iter().map(source).collect(),
    }
}

fn transfers(of: &Completions) -> TransfersSummary {
    let limits = SIZE_CLASSES.into_iter().map(Some).chain([None]);
    let class = |(up_to_bytes, class): (Option<u64>, &Times)| SizeClassSummary {
        up_to_bytes,
        transfer_ns: times(class),
    };
    TransfersSummary {
        offered: of.offered,
        waited: of.waited,
        unfinished: of.unfinished,
        by_size: limits.zip(&of.by_size).map(class).collect(),
    }
}

fn pages(of: &Pages) -> PagesSummary {
    PagesSummary { begun: of.begun, unfinished: of.unfinished, load_ns: times(&of.load) }
}

fn times(of: &Times) -> Option<TimesSummary> {
    (of.count > 0).then_some(TimesSummary {
        count: of.count,
        mean: of.mean_ns,
        p50: of.p50_ns,
        p95: of.p95_ns,
        p99: of.p99_ns,
        p999: of.p999_ns,
        max: of.max_ns,
    })
}
