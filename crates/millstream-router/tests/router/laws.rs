//! Laws of every router: every lost packet is counted, finished packets are not dropped, and
//! processes get the cycles they reserve.

use crate::support::{COSTS, input, output};
use millstream::Contract;
use millstream_router::model::{Costs, FunctionCost, InputDevice, ModelMachine, OutputDevice, run};
use millstream_router::{
    Batch, Cpu, InputId, OutputId, PathId, PathPlan, Plan, Process, Stages, ThrottlePlan, WhenFull,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A random path: input, output, work, queues, offered rate.
type Drawn = (usize, usize, u64, u32, u32, u64);

fn drawn() -> impl Strategy<Value = Drawn> {
    (0..3usize, 0..3usize, 0..20_000u64, 1..40u32, 1..40u32, 0..300_000u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_packet_is_sent_or_queued_or_dropped_and_counted(
        paths in vec(drawn(), 1..6),
        stages in prop_oneof![Just(Stages::One), Just(Stages::Two), Just(Stages::Three)],
        batch in (1..40u32, prop_oneof![Just(u64::MAX), 1_000..100_000u64]),
        batch_wait_ns in prop_oneof![Just(0), 1_000..200_000u64],
        wait in any::<bool>(),
        throttle in prop_oneof![
            Just(None),
            Just(Some(ThrottlePlan { least: 4, most: 8, cap_ns: 100_000 }))
        ],
        reservations in vec(1..1_000u32, 12),
    ) {
        // Each input feeds one path.
        let inputs = paths.iter().enumerate().map(|(at, path)| {
            InputDevice::new(16, path.5, at as u64 * 97, PathId(at))
        });
        let machine = ModelMachine::new(
            COSTS,
            inputs.collect(),
            (0..3).map(|_| OutputDevice::new(8, 140_000)).collect(),
            paths.iter().map(|path| {
                (FunctionCost::Uniform(path.2 / 2, path.2), OutputId(path.1))
            }).collect(),
            7,
        );
        let plan = Plan {
            stages,
            batch: Batch { packets: batch.0, time_ns: batch.1, batch_wait_ns },
            inputs: (0..paths.len()).map(|at| {
                let mut input = input(reservations[at]);
                input.throttle = throttle;
                input.when_full = if wait { WhenFull::Wait } else { WhenFull::Drop };
                input
            }).collect(),
            paths: paths.iter().enumerate().map(|(at, path)| PathPlan {
                reservation: reservations[at + 6],
                drops: false,
                input_queue: path.3,
                output_queue: path.4,
                // One path has no queue at the output that its function chooses.
                outputs: (0..3).filter(|output| at != 4 || *output != path.1)
                    .map(|output| (OutputId(output), Contract::new())).collect(),
            }).collect(),
            outputs: (0..3).map(|_| output(50, "wf2q+", 140_000)).collect(),
        };
        let outcome = run(&plan, machine, 1_000_000, 20_000_000).unwrap();
        let router = &outcome.router;
        for (at, path) in paths.iter().enumerate() {
            let counters = router.path(PathId(at));
            let (before, after) = router.waiting(PathId(at));
            prop_assert_eq!(counters.received, counters.departed() + (before + after) as u64);
            let (arrived, lost) = router.machine().input(InputId(at)).counts();
            let ring = router.machine().input(InputId(at)).waiting() as u64;
            prop_assert_eq!(arrived, lost + ring + router.input(InputId(at)).read);
            prop_assert_eq!(router.input(InputId(at)).read, counters.received);
            prop_assert!(before <= path.3 as usize && after <= 3 * path.4 as usize);
            if stages != Stages::One {
                prop_assert!(!wait || counters.dropped_full == 0);
            }
            if stages == Stages::Three && at != 4 {
                prop_assert_eq!(counters.dropped_wrong_output, 0, "a finished packet was dropped");
            }
        }
    }

    #[test]
    fn cycles_follow_the_reservations_for_any_run_length(
        reservations in vec(1..10_000u32, 2..30),
        took in vec(100..50_000u64, 2..30),
        spread in 0..1_000u64,
    ) {
        let mut cpu = Cpu::default();
        let many = reservations.len().min(took.len());
        for reservation in &reservations[..many] {
            let process = cpu.add(*reservation).unwrap();
            cpu.set_eligible(process, 0, true);
        }
        let mut used = vec![0u64; many];
        let mut now_ns = 0;
        let end_ns = 250_000_000;
        let mut state = 1u64;
        while now_ns < end_ns {
            let process = cpu.choose(now_ns).unwrap();
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let took_ns = took[process.0] + (state >> 33) % (spread + 1);
            now_ns += took_ns;
            used[process.0] += took_ns;
            cpu.finish(process, now_ns, took_ns, true);
        }
        let total: u64 = reservations[..many].iter().map(|r| u64::from(*r)).sum();
        let longest = took.iter().max().unwrap() + spread;
        for (process, used) in used.iter().enumerate() {
            let fair = u128::from(now_ns) * u128::from(reservations[process]) / u128::from(total);
            // WF²Q+ is within two packets of the fluid model; here packets are runs.
            prop_assert!(
                fair.abs_diff(u128::from(*used)) <= u128::from(4 * longest),
                "{used} of {fair}"
            );
        }
    }
}

#[test]
fn three_busy_paths_get_their_reserved_shares_within_one_percent() {
    let reservations = [1, 2, 5];
    let works = [3_000, 700, 9_000];
    let device = |path| InputDevice::new(64, 1_000_000, path as u64, PathId(path));
    let devices = (0..3).map(device).collect();
    // Reception and transmission are free, so the functions share the whole CPU.
    let free = Costs { input_ns: 0, output_ns: 0, handover_ns: 0, poll_ns: 1, ..COSTS };
    let machine = ModelMachine::new(
        free,
        devices,
        (0..3).map(|_| OutputDevice::new(64, 100_000_000)).collect(),
        (0..3).map(|path| (FunctionCost::Fixed(works[path]), OutputId(path))).collect(),
        1,
    );
    let plan = Plan {
        stages: Stages::Three,
        batch: Batch { packets: 16, time_ns: 30_000, batch_wait_ns: 50_000 },
        inputs: (0..3).map(|_| input(100)).collect(),
        paths: (0..3)
            .map(|path| PathPlan {
                reservation: reservations[path],
                drops: false,
                input_queue: 128,
                output_queue: 128,
                outputs: vec![(OutputId(path), Contract::new())],
            })
            .collect(),
        outputs: (0..3).map(|_| output(100, "fifo", 100_000_000)).collect(),
    };
    let outcome = run(&plan, machine, 1_000_000, 500_000_000).unwrap();
    let used: Vec<u64> =
        (0..3).map(|path| outcome.router.used(Process::Forward(PathId(path))).busy_ns).collect();
    let total: u64 = used.iter().sum();
    for path in 0..3 {
        let share = used[path] * 8 * 1_000 / total;
        let reserved = u64::from(reservations[path]) * 1_000;
        assert!(share.abs_diff(reserved) * 100 <= reserved, "path {path}: {used:?}");
    }
}
