//! Releases that a thread overran, activations that were not recorded, and those that end on the way to sleep.

use super::*;

/// Sleeps until `last` had passed by `most` before it blocked.
pub(super) fn overran(activation: Activation, count: u16, last: u64, most: u64) -> Activation {
    Activation {
        late_sleeps: Some(LateSleeps { count, last: Mono(last), most: Ns(most) }),
        blocked: Mono(last + most),
        ..activation
    }
}

#[test]
fn releases_that_a_thread_overran_are_misses_at_their_size_and_none_is_missing() {
    const MS: u64 = 1_000_000;
    let mut tasks = Tasks::new(4, None, name);
    let mut turn = 1;
    while turn < 300 {
        let regular = activation(turn * MS, Via::Timer, SLEEP);
        match turn % 20 {
            // Two and a half periods; two sleeps that had passed, woken at once from the first, blocking in neither.
            5 => {
                let late = overran(regular, 2, (turn + 2) * MS, 1_498_000);
                tasks.add(&Activation { blocked: Mono((turn + 2) * MS + 600_000), ..late });
                turn += 2;
            }
            // One and a half: it blocks, and is woken at once by the timer that was due.
            15 => {
                tasks.add(&overran(regular, 1, (turn + 1) * MS, 500_000));
                let due = (turn + 1) * MS + 500_000;
                let woken = Activation { armed_late: true, ..activation(due + 2_000, Via::Timer, SLEEP) };
                tasks.add(&woken);
                turn += 1;
            }
            _ => drop(tasks.add(&regular)),
        }
        turn += 1;
    }
    let task = tasks.report().remove(0);
    assert_eq!((task.late_sleeps, task.misses, task.miss_max_ns), (45, 45, Some(Ns(1_498_000))));
    // A late request counts from the requested expiry, not from the arming of the timer: 555 µs, not 55.
    let response = &task.of(Quantity::Response).unwrap().histogram;
    assert_eq!((response.count_from(Ns(555_000)), response.count_from(Ns(556_000))), (45, 30));
    let period = task.period.unwrap();
    assert_eq!((period.median_ns, period.missed), (Ns::from_ms(1), 0));
    assert_eq!(task.not_recorded, 0);
}

/// A thread of which the first activation, of `first_blocks` blocks, ends with `sleeps` until times that had passed.
fn started_late(first_blocks: u16, sleeps: u16, held: Option<Tid>) -> Task {
    const MS: u64 = 1_000_000;
    let mut tasks = Tasks::new(4, Some(Ns(600_000)), name).with_held(held);
    let first = Activation { blocks: first_blocks, ..activation(MS, Via::Thread, SLEEP) };
    tasks.add(&overran(first, sleeps, 2 * MS, 300_000));
    for turn in 1..100_u16 {
        let regular = activation(u64::from(turn + 2) * MS, Via::Timer, SLEEP);
        tasks.add(&Activation { blocks: first_blocks + turn, ..regular });
    }
    tasks.report().remove(0)
}

#[test]
fn a_first_sleep_until_a_time_that_had_passed_ends_the_start_of_a_thread_and_no_job() {
    assert_eq!((started_late(1, 1, None).late_sleeps, started_late(1, 1, None).misses), (1, 0));
    // The second one ends the job of the first, and a thread that lived before the recording had a job.
    assert_eq!(started_late(1, 2, None).misses, 1);
    assert_eq!(started_late(7, 1, None).misses, 1);
    assert_eq!(started_late(7, 1, Some(Tid(7))).misses, 0);
    // Or it blocks, and its timer, which was due 5 ms ago, wakes it at once: its first job starts there.
    let longest = |sleeps| {
        let mut tasks = Tasks::new(4, Some(Ns(600_000)), name);
        let first = Activation { blocks: 1, ..activation(6_000_000, Via::Thread, SLEEP) };
        tasks.add(&overran(first, sleeps, 1_100_000, 5_000_000));
        for turn in 1..100_u16 {
            let regular = activation(6_200_000 + u64::from(turn - 1) * 1_000_000, Via::Timer, SLEEP);
            tasks.add(&Activation { blocks: 1 + turn, armed_late: turn == 1, ..regular });
        }
        let task = tasks.report().remove(0);
        task.of(Quantity::Response).unwrap().histogram.max().unwrap()
    };
    assert!(longest(1) < Ns(100_000) && longest(2) > Ns(5_000_000), "{} {}", longest(1), longest(2));
}

/// 300 turns; from the hundredth to the two hundredth the thread is woken before it has left the CPU.
fn woken_on_the_way(missing: &[u64]) -> Task {
    let mut tasks = Tasks::new(4, None, name);
    for turn in 1..=300 {
        let one = activation(turn * 1_000_000, Via::Timer, SLEEP);
        // The kernel counts no block of one that stayed.
        let back = if turn > 200 { 100 } else { turn.saturating_sub(100) as u16 };
        let blocks = one.blocks.wrapping_sub(back);
        let one = Activation { blocks, after_unseen: missing.contains(&(turn - 1)), ..one };
        if missing.contains(&turn) {
            continue;
        }
        tasks.add(&match turn {
            101..=200 => {
                Activation { awake: turn > 101, stayed: true, waking: Mono(turn * 1_000_000 + 3_000), ..one }
            }
            201 => Activation { awake: true, waking: one.switched_in, ..one },
            _ => one,
        });
    }
    tasks.report().remove(0)
}

#[test]
fn who_is_woken_on_the_way_to_sleep_has_a_turn_with_a_lateness_and_without_a_wake_up() {
    let task = woken_on_the_way(&[]);
    assert_eq!((task.not_recorded, task.activations), (0, 299));
    assert_eq!(task.period.as_ref().unwrap().missed, 0);
    let count = |quantity| task.of(quantity).unwrap().histogram.count();
    assert_eq!((count(Quantity::Wakeup), count(Quantity::TimerWakeup)), (200, 300));
    assert_eq!(task.of(Quantity::TimerWakeup).unwrap().histogram.max(), Some(Ns(5_000)));
}

#[test]
fn an_activation_that_ended_on_the_way_to_sleep_and_was_not_seen_is_counted_as_not_recorded() {
    let task = woken_on_the_way(&[150, 170]);
    // For each gap, the job after it, whose start is unknown.
    assert_eq!((task.not_recorded, task.activations), (2, 299 - 2 - 2));
    assert_eq!(task.period.as_ref().unwrap().missed, 0, "nobody knows what they were");
}

#[test]
fn activations_that_were_not_recorded_are_counted_and_what_lies_around_them_is_no_turn() {
    let mut tasks = Tasks::new(4, None, name);
    for turn in 1..=300 {
        let one = activation(turn * 1_000_000, Via::Timer, SLEEP);
        if !matches!(turn, 100 | 200 | 201) {
            tasks.add(&one);
        }
    }
    let task = tasks.report().remove(0);
    assert_eq!(task.not_recorded, 3);
    assert_eq!(task.period.as_ref().unwrap().missed, 0, "nobody knows what they were");
    // For each gap, the job after it, whose start is unknown.
    let lost = |of: &Series| if of.quantity == Quantity::Response { 3 + 2 } else { 3 };
    assert!(task.series.iter().all(|series| series.lost == lost(series)));
    assert_eq!(task.activations, 300 - 1 - 3 - 2, "the one after each gap has no known begin");
}
