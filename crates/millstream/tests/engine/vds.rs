//! VDS keeps windows that require all or one of their requests, also where DWCS does not. Neither
//! keeps all other windows; PD² does if periods are equal.

use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{Contract, Late, Link, Observer, Packet, StreamId, Window};
use proptest::prelude::*;

/// The transmission time of a unit job.
const SLOT_NS: u64 = 1000;
const LINK: Link = Link::new(8_000_000_000, 0);

#[derive(Default)]
struct Violations(u64);

impl Observer for Violations {
    fn missed(&mut self, _: StreamId, _: u64, _: u64, violations: u64) {
        self.0 += violations;
    }
}

/// Returns the violations in `slots` slots of streams of (period in slots, x, y) with a packet per
/// period.
fn violations(
    discipline: &str,
    structure: StructureName,
    set: &[(u64, u32, u32)],
    slots: u64,
) -> u64 {
    let row = DisciplineRow::parse(discipline).unwrap();
    let mut scheduler = row.build(&Options { link: LINK, ..Options::default() }, structure);
    for (period, lost, of) in set {
        let window = Window::new(*lost, *of).unwrap();
        let contract = Contract::new().period_ns(period * SLOT_NS).unwrap();
        scheduler.add_stream(contract.window(window).late(Late::Drop)).unwrap();
    }
    let mut violations = Violations::default();
    for slot in 0..slots {
        for (stream, (period, ..)) in (0u32..).zip(set) {
            if slot % period == 0 {
                let packet = Packet::new(1000);
                scheduler.enqueue(slot * SLOT_NS, StreamId(stream), packet).unwrap();
            }
        }
        scheduler.decide(slot * SLOT_NS, &mut violations);
    }
    violations.0
}

/// Returns whether Σ m/(k·T) ≤ 1 for unit jobs, computed exactly.
fn feasible(set: &[(u64, u32, u32)]) -> bool {
    let scale: u128 =
        set.iter().map(|(period, _, of)| u128::from(*period) * u128::from(*of)).product();
    let demand: u128 = set
        .iter()
        .map(|(period, lost, of)| {
            u128::from(of - lost) * (scale / (u128::from(*period) * u128::from(*of)))
        })
        .sum();
    demand <= scale
}

fn sets() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    let stream = (1u64..9, 1u32..12).prop_flat_map(|(period, of)| {
        (Just(period), prop_oneof![1 => Just(0), 3 => Just(of - 1)], Just(of))
    });
    proptest::collection::vec(stream, 1..9)
}

/// Generates windows with few denominators and one period, filled to a sum of at most 1: the tight
/// case.
fn full_sets() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    const DENOMINATORS: [u32; 13] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 24];
    let of = proptest::sample::select(DENOMINATORS.to_vec());
    let ofs = proptest::collection::vec(of, 2..5);
    let picks = proptest::collection::vec((any::<proptest::sample::Index>(), 0u32..1000), 64);
    (1u64..6, ofs, picks).prop_map(|(period, ofs, picks)| {
        // The free capacity, in 1/5,040 of a slot; every denominator divides 5,040.
        let mut room = period * 5_040;
        let mut set = Vec::new();
        for (pick, kept) in picks {
            let of = *pick.get(&ofs);
            let part = 5_040 / u64::from(of);
            let most = u32::try_from(room / part).unwrap().min(of);
            let kept = (kept % of + 1).min(most);
            room -= u64::from(kept) * part;
            if kept > 0 {
                set.push((period, of - kept, of));
            }
        }
        set
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        max_global_rejects: 60_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn feasible_sets_of_one_or_all_have_no_violation(set in sets()) {
        prop_assume!(feasible(&set));
        for discipline in ["vds", "pd2"] {
            for structure in [StructureName::Scan, StructureName::Heap] {
                prop_assert_eq!(violations(discipline, structure, &set, 1_000), 0);
            }
        }
    }

    #[test]
    fn pd2_keeps_every_window_of_equal_periods_that_can_be_kept(set in full_sets()) {
        prop_assert!(feasible(&set));
        for structure in [StructureName::Scan, StructureName::Heap] {
            prop_assert_eq!(violations("pd2", structure, &set, 1_000), 0);
        }
    }
}

/// The example that DWCS fails (algorithms page: different request periods).
#[test]
fn a_feasible_set_of_different_periods_needs_vds() {
    let mut dwcs_fails = 0;
    for a in 1..6u64 {
        for b in 1..6u64 {
            let set = [(a, 1, 2), (b, 1, 3), (a + b, 0, 1)];
            if feasible(&set) {
                assert_eq!(violations("vds", StructureName::Scan, &set, 2_000), 0, "{set:?}");
                dwcs_fails += u64::from(violations("dwcs", StructureName::Scan, &set, 2_000) > 0);
            }
        }
    }
    assert!(dwcs_fails > 0, "DWCS violates no window in any set");
}

/// A counterexample to the published theorems (DWCS: West and Schwan 1999, VDS: Zhang, West and Qi
/// 2004), which guarantee every set of U ≤ 1. The third stream wins slots 0 to 4, and both other
/// streams then need slot 5.
#[test]
fn three_feasible_streams_of_one_period_that_neither_keeps() {
    let full = [(1, 5, 6), (1, 5, 6), (1, 5, 15)];
    let half = [(1, 98, 99), (1, 98, 99), (1, 450, 1000)];
    for (set, slot) in [(full, 6), (half, 99)] {
        assert!(feasible(&set));
        for discipline in ["dwcs", "vds"] {
            for structure in
                DisciplineRow::parse(discipline).unwrap().structures(&Options::default())
            {
                assert_eq!(violations(discipline, structure, &set, slot), 0, "{structure:?}");
                assert_eq!(violations(discipline, structure, &set, slot + 1), 1, "{structure:?}");
            }
        }
        for structure in DisciplineRow::parse("pd2").unwrap().structures(&Options::default()) {
            assert_eq!(violations("pd2", structure, &set, 5_000), 0, "{structure:?}");
        }
    }
}
