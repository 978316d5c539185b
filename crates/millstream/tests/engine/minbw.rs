//! The requirements of the MinBW paper (section II) on an egress scheduler, each as a property. The
//! table scheduler does not meet one of them.

use millstream::catalogue::{DisciplineRow, DynScheduler, MinBwAlgorithm, Options, StructureName};
use millstream::{CREDIT_BYTES, Contract, Link, MaxRate, Packet, StreamId};
use proptest::prelude::*;
use std::num::NonZeroU64;

const LINK: Link = Link::new(2_000_000_000, 0);
const LARGEST: u32 = 2176;

/// Bytes served of each channel.
type Served = Vec<u64>;

struct Switch {
    scheduler: Box<dyn DynScheduler + Send>,
    now_ns: u64,
    /// The lengths of each channel's packets, repeated in order.
    lengths: Vec<Vec<u32>>,
    arrivals: Vec<usize>,
    served: Served,
    sent: Vec<(u64, usize, u32)>,
}

fn contract(weight: u32) -> Contract {
    // 34 credits for weight 1, in proportion for other weights.
    Contract::new().weight(weight).unwrap().quantum_bytes(weight * LARGEST).unwrap()
}

impl Switch {
    fn new(algorithm: MinBwAlgorithm, contracts: &[Contract], lengths: &[Vec<u32>]) -> Self {
        let options = Options { link: LINK, algorithm, ..Options::default() };
        let row = DisciplineRow::parse("minbw").unwrap();
        let mut scheduler = row.build(&options, StructureName::Scan);
        for contract in contracts {
            scheduler.add_stream(contract.clone()).unwrap();
        }
        let channels = contracts.len();
        Self {
            scheduler,
            now_ns: 0,
            lengths: lengths.to_vec(),
            arrivals: vec![0; channels],
            served: vec![0; channels],
            sent: Vec::new(),
        }
    }

    /// Keeps two packets waiting in each of `channels`.
    fn fill(&mut self, channels: &[usize]) {
        for &channel in channels {
            let stream = StreamId(u32::try_from(channel).unwrap());
            while self.scheduler.waiting(stream) < 2 {
                let lengths = &self.lengths[channel];
                let bytes = lengths[self.arrivals[channel] % lengths.len()];
                self.arrivals[channel] += 1;
                self.scheduler.enqueue(self.now_ns, stream, Packet::new(bytes)).unwrap();
            }
        }
    }

    /// Serves `bytes` with `channels` backlogged; returns the bytes of each.
    fn run(&mut self, bytes: u64, channels: &[usize]) -> Served {
        let before = self.served.clone();
        let mut total = 0;
        while total < bytes {
            self.fill(channels);
            let Some(sent) = self.scheduler.decide(self.now_ns, &mut ()) else {
                let next = self.scheduler.next_eligible_ns();
                self.now_ns = next.expect("only rate caps can make all channels ineligible");
                continue;
            };
            self.served[sent.stream.index()] += u64::from(sent.bytes);
            self.sent.push((self.now_ns, sent.stream.index(), sent.bytes));
            total += u64::from(sent.bytes);
            self.now_ns += LINK.transmission_ns(sent.bytes);
        }
        self.served.iter().zip(before).map(|(now, before)| now - before).collect()
    }
}

fn algorithm() -> impl Strategy<Value = MinBwAlgorithm> {
    proptest::sample::select(&MinBwAlgorithm::ALL[..])
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(1u32..18, 2..20)
}

fn lengths(channels: usize) -> impl Strategy<Value = Vec<Vec<u32>>> {
    let packets = proptest::collection::vec(1u32..=LARGEST, 1..5);
    proptest::collection::vec(packets, channels..=channels)
}

/// Returns the maximum deviation from a share, bytes: the bound of DRR, the loosest of the three.
fn tolerance(weights: &[u32], active: &[usize]) -> f64 {
    let frame: u32 = active.iter().map(|channel| weights[*channel] * LARGEST).sum();
    f64::from(2 * frame + 2 * LARGEST)
}

#[allow(clippy::cast_precision_loss)]
fn assert_shares(served: &[u64], weights: &[u32], active: &[usize]) -> Result<(), TestCaseError> {
    let total: u64 = active.iter().map(|channel| served[*channel]).sum();
    let weight: u32 = active.iter().map(|channel| weights[*channel]).sum();
    for channel in active {
        let share = total as f64 * f64::from(weights[*channel]) / f64::from(weight);
        let difference = (served[*channel] as f64 - share).abs();
        let most = tolerance(weights, active);
        prop_assert!(difference <= most, "channel {channel}: {difference} bytes off its share");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// MinBW is work-conserving and credit-aware: the link is idle only while no channel has both a
    /// packet and the credits for it. No packet is sent without credits.
    #[test]
    fn works_whenever_credits_allow(
        algorithm in algorithm(),
        weights in weights(),
        credits in proptest::collection::vec(0u64..70, 20),
        events in proptest::collection::vec(
            (any::<u32>(), 1u32..=LARGEST, 0u64..60, 0u64..4_000), 1..200),
    ) {
        let channels = weights.len();
        let contracts: Vec<_> =
            weights.iter().zip(&credits).map(|(w, c)| contract(*w).credits(*c)).collect();
        let mut switch = Switch::new(algorithm, &contracts, &vec![vec![1]; channels]);
        let mut credits = credits[..channels].to_vec();
        let mut heads = vec![std::collections::VecDeque::new(); channels];
        let needed = |bytes: u32| u64::from(bytes.div_ceil(CREDIT_BYTES));
        for (pick, bytes, back, gap) in events {
            let channel = pick as usize % channels;
            let stream = StreamId(u32::try_from(channel).unwrap());
            if back % 3 == 0 {
                switch.scheduler.add_credits(switch.now_ns, stream, back);
                credits[channel] += back;
            } else {
                switch.scheduler.enqueue(switch.now_ns, stream, Packet::new(bytes)).unwrap();
                heads[channel].push_back(bytes);
            }
            match switch.scheduler.decide(switch.now_ns, &mut ()) {
                Some(sent) => {
                    let at = sent.stream.index();
                    prop_assert_eq!(heads[at].pop_front(), Some(sent.bytes));
                    prop_assert!(credits[at] >= needed(sent.bytes), "sent without credits");
                    credits[at] -= needed(sent.bytes);
                    switch.now_ns += LINK.transmission_ns(sent.bytes);
                }
                None => {
                    for (queue, credits) in heads.iter().zip(&credits) {
                        prop_assert!(queue.front().is_none_or(|b| *credits < needed(*b)));
                    }
                    switch.now_ns += gap;
                }
            }
        }
    }

    /// Bandwidth instead of packet metering, and minimum bandwidth: bytes are shared by weight for
    /// any lengths, from any time on.
    #[test]
    fn bytes_are_shared_by_weight(
        algorithm in algorithm(),
        (weights, lengths) in weights().prop_flat_map(|w| {
            let n = w.len();
            (Just(w), lengths(n))
        }),
        first in 0u64..200_000,
    ) {
        let contracts: Vec<_> = weights.iter().map(|weight| contract(*weight)).collect();
        let mut switch = Switch::new(algorithm, &contracts, &lengths);
        let all: Vec<_> = (0..weights.len()).collect();
        switch.run(first, &all);
        let served = switch.run(1_000_000, &all);
        assert_shares(&served, &weights, &all)?;
    }

    /// Fair redistribution: the other channels share unused bandwidth by weight. Memoryless:
    /// earlier service, or none, has no effect.
    #[test]
    fn spare_bandwidth_is_shared_and_forgotten(
        algorithm in algorithm(),
        (weights, lengths) in weights().prop_flat_map(|w| {
            let n = w.len();
            (Just(w), lengths(n))
        }),
        silent in any::<u32>(),
    ) {
        let contracts: Vec<_> = weights.iter().map(|weight| contract(*weight)).collect();
        let mut switch = Switch::new(algorithm, &contracts, &lengths);
        let all: Vec<_> = (0..weights.len()).collect();
        let silent = silent as usize % weights.len();
        let others: Vec<_> = all.iter().copied().filter(|channel| *channel != silent).collect();
        let served = switch.run(1_000_000, &others);
        prop_assert_eq!(served[silent], 0);
        assert_shares(&served, &weights, &others)?;
        let served = switch.run(1_000_000, &all);
        assert_shares(&served, &weights, &all)?;
    }

    /// A channel that was backlogged without credits gets no extra service when it has credits.
    #[test]
    fn a_channel_without_credits_saves_nothing(
        algorithm in algorithm(),
        (weights, lengths) in weights().prop_flat_map(|w| {
            let n = w.len();
            (Just(w), lengths(n))
        }),
    ) {
        let mut contracts: Vec<_> = weights.iter().map(|weight| contract(*weight)).collect();
        contracts[0] = contract(weights[0]).credits(0);
        let mut switch = Switch::new(algorithm, &contracts, &lengths);
        let all: Vec<_> = (0..weights.len()).collect();
        let served = switch.run(1_000_000, &all);
        prop_assert_eq!(served[0], 0);
        assert_shares(&served, &weights, &all[1..])?;
        switch.scheduler.add_credits(switch.now_ns, StreamId(0), 1 << 40);
        let served = switch.run(1_000_000, &all);
        assert_shares(&served, &weights, &all)?;
    }

    /// The management channel is served first while its bucket allows, and then waits.
    #[test]
    fn the_management_channel_goes_first_within_its_bucket(
        algorithm in algorithm(),
        weights in weights(),
        burst in u64::from(LARGEST)..20_000,
    ) {
        let mut contracts: Vec<_> = weights.iter().map(|weight| contract(*weight)).collect();
        let rate_bps = NonZeroU64::new(100_000_000).unwrap();
        let max_rate = MaxRate { rate_bps, burst_bytes: burst };
        contracts.push(Contract::new().fmc().max_rate(max_rate));
        let lengths = vec![vec![LARGEST, 64, 700]; contracts.len()];
        let mut switch = Switch::new(algorithm, &contracts, &lengths);
        let all: Vec<_> = (0..contracts.len()).collect();
        let (fmc, fair) = all.split_last().unwrap();
        let served = switch.run(2_000_000, &all);
        assert_shares(&served, &weights, fair)?;
        // Within a packet above and three packets below the amount that the bucket allows.
        let allowed = burst + switch.now_ns / 80;
        prop_assert!(served[*fmc] <= allowed + u64::from(LARGEST));
        prop_assert!(served[*fmc] + 3 * u64::from(LARGEST) >= allowed);
        prop_assert_eq!(switch.sent[0].1, *fmc);
    }
}

/// The table scheduler meters packets: with equal turns long packets get more.
#[test]
fn the_table_scheduler_shares_packets_not_bytes() {
    let row = DisciplineRow::parse("table").unwrap();
    let table = vec![StreamId(0), StreamId(1)];
    let options = Options { link: LINK, table, ..Options::default() };
    let mut scheduler = row.build(&options, StructureName::Scan);
    let mut served = [0u64; 2];
    for _ in 0..2 {
        scheduler.add_stream(Contract::new()).unwrap();
    }
    for _ in 0..100 {
        scheduler.enqueue(0, StreamId(0), Packet::new(128)).unwrap();
        scheduler.enqueue(0, StreamId(1), Packet::new(LARGEST)).unwrap();
    }
    for _ in 0..100 {
        let sent = scheduler.decide(0, &mut ()).unwrap();
        served[sent.stream.index()] += u64::from(sent.bytes);
    }
    assert_eq!(served, [50 * 128, 50 * u64::from(LARGEST)]);
}
