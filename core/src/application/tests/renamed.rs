//! Threads that take a name with another deadline.

use super::*;

const MS: u64 = 1_000_000;

fn deadlines(text: &str) -> Deadlines {
    let time = |text: &str| match text {
        "60us" => Ok(Ns::from_us(60)),
        "600us" => Ok(Ns::from_us(600)),
        _ => Err("no time".to_owned()),
    };
    Deadlines::parse(text, time).unwrap()
}

/// Jobs of 400 µs each of 1 ms, under these names in turn.
fn named(text: &str, names: &[&str]) -> Vec<Task> {
    let mut tasks = Tasks::new(4, None, name).with_deadlines(deadlines(text));
    for (turn, comm) in (1..).zip(names) {
        let one = activation(turn * MS, Via::Timer, SLEEP);
        let blocked = Mono(turn * MS + 398_000);
        tasks.add(&Activation { thread: thread(7, comm), blocked, ..one });
    }
    tasks.report()
}

fn names(of: &[(&'static str, usize)]) -> Vec<&'static str> {
    of.iter().flat_map(|&(name, count)| std::iter::repeat_n(name, count)).collect()
}

/// Name, jobs, misses and deadline of each entry.
fn told(tasks: &[Task]) -> Vec<(&str, u64, u64, Option<Ns>)> {
    let mut told: Vec<_> = tasks
        .iter()
        .map(|task| {
            let deadline = task.held_to.unwrap().deadline_ns;
            (task.thread.comm.as_str(), task.activations, task.misses, deadline)
        })
        .collect();
    told.sort_unstable();
    told
}

#[test]
fn a_later_name_without_a_deadline_does_not_forgive_late_jobs() {
    for many in [5, 100, 1_500] {
        let tasks = named("strict=60us,*=none", &names(&[("strict", many), ("idle", 10)]));
        let count = many as u64 - 1; // the first one has no release
        assert_eq!(told(&tasks), [("idle", 10, 0, None), ("strict", count, count, Some(Ns::from_us(60)))]);
        let strict = tasks.iter().find(|task| task.thread.comm == "strict").unwrap();
        assert_eq!(
            strict.outside_ns,
            Some(Ns::from_us(400)),
            "the job in which the name changed may be its own"
        );
    }
    let tasks = named("strict=60us,loose=600us", &names(&[("loose", 200), ("strict", 100)]));
    let (loose, strict) = (Some(Ns::from_us(600)), Some(Ns::from_us(60)));
    assert_eq!(told(&tasks), [("loose", 199, 0, loose), ("strict", 100, 100, strict)]);
}

#[test]
fn a_name_with_the_same_deadline_is_no_other_thread() {
    let tasks = named("*=60us", &names(&[("one", 100), ("two", 100)]));
    assert_eq!(told(&tasks), [("two", 199, 199, Some(Ns::from_us(60)))]);
}

#[test]
fn names_that_change_with_each_job_take_no_more_room_and_no_late_job_is_lost() {
    let tasks = named("strict=60us,*=none", &["strict", "idle"].repeat(500));
    assert!(tasks.len() <= 11, "{}", tasks.len());
    let others = tasks.iter().find(|task| task.thread.comm == OTHERS).unwrap();
    assert_eq!(others.of(Quantity::Response).unwrap().histogram.max(), Some(Ns::from_us(400)));
    assert_eq!(others.held_to.unwrap().others_ns, Some(Ns::from_us(60)), "a doubt: it is longer");
    assert!(!others.held_to.unwrap().lacks_period);
    let jobs: u64 = tasks.iter().map(|task| task.activations).sum();
    assert_eq!(jobs, 999);
    let tasks = named("strict=period,*=none", &["strict", "idle"].repeat(500));
    let others = tasks.iter().find(|task| task.thread.comm == OTHERS).unwrap();
    assert!(others.held_to.unwrap().lacks_period, "a doubt: its period is not known");
}
