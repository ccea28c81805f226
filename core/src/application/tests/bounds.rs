//! Boundaries of figures: separate, summed, kept, or just not counted.

use super::*;

#[test]
fn a_thread_that_got_the_id_of_one_that_ended_is_another_thread() {
    let mut tasks = Tasks::new(8, None, name);
    for turn in 0..200u64 {
        let mut a = activation(turn * 1_000_000 + 5_000, Via::Timer, SLEEP);
        (a.tgid, a.thread) = if turn < 100 { (a.tgid, a.thread) } else { (Tid(66), thread(7, "logger")) };
        a.switched_in.0 += if turn == 50 { 797_000 } else { 0 };
        tasks.add(&a);
    }
    let told = tasks.report().into_iter().map(|task| (task.largest().0, task.thread.comm));
    assert_eq!(told.collect::<Vec<_>>(), [(802_000, "control".to_owned()), (5_000, "logger".to_owned())]);
}

#[test]
fn a_wait_behind_an_equal_is_apart_and_its_timer_counts() {
    let mut tasks = Tasks::new(4, None, name);
    tasks.add(&Activation { shared: true, ..activation(1_000_000, Via::Timer, SLEEP) });
    let task = tasks.report().remove(0);
    let told: Vec<_> = task.series.iter().map(|one| (one.quantity, one.histogram.max())).collect();
    assert_eq!(told, [(Quantity::Timer, Some(Ns(1_000))), (Quantity::SharedPrio, Some(Ns(3_000)))]);
}

#[test]
fn a_thread_whose_releases_are_at_any_time_has_no_period() {
    let mut tasks = Tasks::new(4, None, name);
    let mut at = 1_000_000;
    for turn in 0..200u64 {
        tasks.add(&activation(at, Via::Timer, SLEEP));
        // A quarter of the intervals is the median.
        at += if turn % 4 == 0 { 1_000_000 } else { 550_000 + 300_000 * (turn % 4) };
    }
    assert_eq!(tasks.report().remove(0).period, None);
}

#[test]
fn the_largest_jitter_is_kept_and_a_release_that_is_late_by_more_than_half_a_period_lacks_one() {
    let mut tasks = Tasks::new(4, None, name);
    for turn in 1..=800u64 {
        let one = activation(turn * 1_000_000 + if turn > 700 { 600_000 } else { 0 }, Via::Timer, SLEEP);
        let late = if turn == 100 { 300_000 } else { 0 };
        tasks.add(&Activation {
            switched_in: Mono(one.switched_in.0 + late),
            blocked: Mono(one.blocked.0 + late),
            ..one
        });
    }
    let period = tasks.report().remove(0).period.unwrap();
    assert_eq!((period.median_ns, period.jitter_max_ns), (Ns::from_ms(1), Ns(300_000)), "long ago");
    assert_eq!(period.missed, 1);
}

#[test]
fn what_a_thread_does_with_a_priority_that_is_lent_is_not_missing_before_it() {
    let count = |policy| {
        let mut tasks = Tasks::new(4, None, name);
        for turn in (1..=100).filter(|turn| *turn != 50) {
            let one = activation(turn * 1_000_000, Via::Timer, SLEEP);
            let blocks = turn as u16;
            tasks.add(&Activation { policy, blocks, ..one });
        }
        tasks.report().remove(0).not_recorded
    };
    assert_eq!([count(1), count(0)], [1, 0]);
}

#[test]
fn threads_that_make_room_add_up_with_their_misses_and_losses() {
    const SECOND: u64 = 1_000_000_000;
    let mut tasks = Tasks::new(1, Some(Ns::from_us(300)), name);
    for (nth, miss) in [(0u64, 700_000u64), (1, 900_000), (2, 500_000)] {
        for turn in 1..=20u64 {
            let one = activation(nth * 20 * SECOND + turn * 1_000_000, Via::Timer, SLEEP);
            let one = Activation { thread: thread(30 + nth as i32, "new"), blocks: turn as u16, ..one };
            let late = if turn == 10 { miss } else { 0 };
            if turn != 15 {
                tasks.add(&Activation { blocked: Mono(one.blocked.0 + late), ..one });
            }
        }
    }
    let report = tasks.report();
    let others = report.iter().find(|task| task.thread.comm == OTHERS).unwrap();
    assert_eq!((others.misses, others.miss_max_ns), (2, Some(Ns(900_000 + 55_000 - 300_000))));
    assert_eq!((others.not_recorded, others.of(Quantity::TimerWakeup).unwrap().lost), (2, 2));
}

#[test]
fn of_the_sleeps_that_a_turn_overran_the_one_that_was_latest_counts() {
    const MS: u64 = 1_000_000;
    let mut tasks = Tasks::new(4, None, name);
    for turn in 1..100 {
        let regular = activation(turn * MS, Via::Timer, SLEEP);
        match turn {
            50 => {
                let first = overran(regular, 1, 51 * MS, 900_000);
                tasks.add(&Activation { point: LOCK, ..first });
                tasks.add(&overran(activation(52 * MS, Via::Thread, SLEEP), 1, 52 * MS, 200_000));
            }
            51 | 52 => {}
            _ => drop(tasks.add(&regular)),
        }
    }
    let task = tasks.report().remove(0);
    assert_eq!((task.misses, task.miss_max_ns), (2, Some(Ns(900_000))));
}

#[test]
fn a_thread_that_has_ended_makes_room_for_another_and_those_without_a_deadline_first() {
    let turn = |tid: i32, comm: &str, at: u64, ends: bool| {
        let exits = Point { syscall: Point::EXITS, ..Point::default() };
        let a = activation(at, Via::Timer, if ends { exits } else { SLEEP });
        Activation { thread: thread(tid, comm), ..a }
    };
    let deadlines = Deadlines::parse("control=1ms,judged=1ms,*=none", |text| {
        text.trim_end_matches("ms").parse().map(Ns::from_ms).map_err(|_| String::new())
    });
    let mut tasks = Tasks::new(4, None, name).with_deadlines(deadlines.unwrap());
    let mut at = 0;
    let mut run = |tasks: &mut Tasks, tid, comm, turns| {
        for turn_of in 1..=turns {
            at += 10_000_000;
            tasks.add(&turn(tid, comm, at, turn_of == turns));
        }
    };
    run(&mut tasks, 100, "judged", 10);
    (0..600).for_each(|tid| run(&mut tasks, 1_000 + tid, "short", 3));
    run(&mut tasks, 7, "control", 10);
    assert_eq!(tasks.not_kept(), 0);
    let told = tasks.report();
    let count = |comm: &str| -> u64 {
        let of_it =
            told.iter().filter(|task| task.thread.comm == comm).filter_map(|task| task.of(Quantity::Timer));
        of_it.map(|series| series.histogram.count()).sum()
    };
    assert_eq!((count("judged"), count("control")), (10, 10));
    assert_eq!(count("short") + count(OTHERS), 1_800);
    // Threads that live keep their places.
    let mut tasks = Tasks::new(4, None, name);
    for tid in 0..5 {
        tasks.add(&turn(tid, "lives", 1_000_000, false));
    }
    assert_eq!(tasks.not_kept(), 1);
    tasks.add(&turn(0, "lives", 2_000_000, true));
    tasks.add(&turn(4, "lives", 3_000_000, false));
    assert_eq!(tasks.not_kept(), 1);
}
