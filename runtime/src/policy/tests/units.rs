//! Single rules, by example.

use super::simulation::{Act, World};
use crate::policy::thread::State;
use crate::policy::{Outcome, Params, Policy, Protocol, Refusal, Release, Scheduler, Step, NEVER};

fn at(priority: u8) -> Params {
    Params { priority, ..Params::default() }
}

/// Low holds a mutex that high wants, while middle has work.
fn inversion(protocol: Protocol) -> u64 {
    let mut world = World::new();
    world.sched.new_mutex(protocol).unwrap();
    world.add(at(1), &[Act::Lock(0), Act::Run(100), Act::Unlock(0), Act::Run(10)]);
    let middle = Params { start: Some(20), ..at(2) };
    world.add(middle, &[Act::Run(10_000)]);
    let high = Params { start: Some(10), ..at(3) };
    let high = world.add(high, &[Act::Run(5), Act::Lock(0), Act::Run(5), Act::Unlock(0)]);
    world.run(20_000, |_| {});
    world.account(high).worst_response
}

#[test]
fn every_protocol_but_none_ends_priority_inversion() {
    assert_eq!(inversion(Protocol::None), 10_000 + 100);
    assert_eq!(inversion(Protocol::Inherit), 100);
    assert_eq!(inversion(Protocol::Ceiling(3)), 100);
}

#[test]
fn a_job_that_locks_a_mutex_twice_is_blocked_by_one_of_those_that_hold_and_wait_for_it() {
    for protocol in [Protocol::None, Protocol::Inherit, Protocol::Ceiling(3)] {
        let mut world = World::new();
        world.sched.new_mutex(protocol).unwrap();
        world.add(at(1), &[Act::Lock(0), Act::Run(70), Act::Unlock(0)]);
        let middle = Params { start: Some(10), ..at(2) };
        world.add(middle, &[Act::Lock(0), Act::Run(110), Act::Unlock(0)]);
        let high = Params { start: Some(20), ..at(3) };
        let twice = [Act::Lock(0), Act::Run(20), Act::Unlock(0), Act::Lock(0), Act::Run(100), Act::Unlock(0)];
        let high = world.add(high, &twice);
        world.run(1_000, |_| {});
        assert_eq!(world.account(high).worst_response, 50 + 20 + 100, "{protocol:?}");
        assert!(world.actors.iter().all(|actor| world.sched.state(actor.id) != State::Ready));
    }
}

#[test]
fn a_mutex_that_was_handed_over_is_taken_back_until_its_owner_runs_and_the_time_limit_of_its_wait_stays() {
    let mut sched = Scheduler::new(4, 0);
    let mutex = sched.new_mutex(Protocol::Inherit).unwrap();
    let low = sched.spawn(0, &at(1)).unwrap();
    sched.reschedule(0);
    sched.lock(mutex, NEVER, 0).unwrap();
    let [first, second] = [(); 2].map(|()| sched.spawn(0, &at(2)).unwrap());
    sched.sleep_until(2, 0);
    for waiter in [first, second] {
        sched.reschedule(1);
        assert_eq!(sched.current(), Some(waiter));
        assert_eq!(sched.lock(mutex, 100, 1), Ok(Step::Wait));
    }
    sched.tick(2);
    sched.reschedule(2);
    let high = sched.spawn(2, &at(9)).unwrap();
    sched.reschedule(2);
    sched.lock(mutex, NEVER, 2).unwrap();
    sched.reschedule(2);
    assert_eq!(sched.current(), Some(low));
    sched.unlock(mutex, 3).unwrap();
    sched.reschedule(3);
    sched.unlock(mutex, 4).unwrap();
    assert_eq!((sched.current(), sched.owner(mutex)), (Some(high), Some(first)), "handed over");
    assert_eq!(sched.lock(mutex, NEVER, 5), Ok(Step::Go), "taken back");
    assert_eq!(sched.owner(mutex), Some(high));
    // Its turn is still before that of its equal, and its time limit counts again.
    sched.unlock(mutex, 6).unwrap();
    assert_eq!(sched.owner(mutex), Some(first));
    sched.lock(mutex, NEVER, 7).unwrap();
    sched.tick(100);
    assert_eq!([first, second].map(|id| sched.outcome(id)), [Outcome::TimedOut; 2]);
    sched.unlock(mutex, 101).unwrap();
    assert_eq!(sched.owner(mutex), None);
    // An owner that has run keeps it.
    sched.sleep_until(200, 101);
    sched.reschedule(101);
    sched.lock(mutex, NEVER, 102).unwrap();
    sched.tick(200);
    sched.reschedule(200);
    assert_eq!((sched.current(), sched.lock(mutex, NEVER, 201)), (Some(high), Ok(Step::Wait)));
}

#[test]
fn round_robin_shares_and_fifo_does_not() {
    for (policy, expected) in [(Policy::RoundRobin { quantum: 10_000 }, 50_000), (Policy::Fifo, 0)] {
        let mut world = World::new();
        for _ in 0..2 {
            world.add(Params { policy, ..at(4) }, &[Act::Run(1_000_000)]);
        }
        world.run(100_000, |_| {});
        assert_eq!(world.account(1).cpu, expected);
    }
}

#[test]
fn inheritance_passes_along_a_chain_and_ends_with_the_timeout_that_caused_it() {
    let mut sched = Scheduler::new(4, 0);
    let mutexes = [0, 1].map(|_| sched.new_mutex(Protocol::Inherit).unwrap());
    let low = sched.spawn(0, &at(1)).unwrap();
    sched.reschedule(0);
    sched.lock(mutexes[0], NEVER, 0).unwrap();
    let middle = sched.spawn(0, &at(2)).unwrap();
    sched.reschedule(0);
    sched.lock(mutexes[1], NEVER, 0).unwrap();
    sched.lock(mutexes[0], NEVER, 0).unwrap();
    sched.reschedule(0);
    let high = sched.spawn(0, &at(9)).unwrap();
    sched.reschedule(0);
    assert_eq!(sched.lock(mutexes[1], 50, 0), Ok(Step::Wait));
    sched.reschedule(0);
    assert_eq!(sched.current(), Some(low));
    assert_eq!([low, middle].map(|id| sched.urgency(id).priority), [9, 9]);
    sched.tick(50);
    sched.reschedule(50);
    assert_eq!(sched.current(), Some(high));
    assert_eq!(sched.outcome(high), Outcome::TimedOut);
    assert_eq!([low, middle].map(|id| sched.urgency(id).priority), [2, 2]);
}

#[test]
fn a_record_has_who_released_whom_and_keeps_the_newest() {
    use crate::policy::record::What;
    use crate::policy::thread::Wait;
    let mut sched = Scheduler::new(2, 0);
    sched.start_recording(4);
    let mutex = sched.new_mutex(Protocol::Inherit).unwrap();
    let low = sched.spawn(0, &at(1)).unwrap();
    sched.reschedule(0);
    sched.lock(mutex, NEVER, 0).unwrap();
    let high = sched.spawn(1, &at(2)).unwrap();
    sched.reschedule(1);
    sched.lock(mutex, NEVER, 2).unwrap();
    sched.reschedule(2);
    sched.note(7, 9, 3);
    sched.unlock(mutex, 4).unwrap();
    sched.stop_recording();
    sched.reschedule(4);
    let (events, overwritten) = sched.recorded();
    let told: Vec<_> = events.iter().map(|event| (event.at, event.thread, event.what)).collect();
    let expected = [
        (2, high, What::Waits(Wait::Mutex(mutex))),
        (2, low, What::Runs),
        (3, low, What::Note { kind: 7, value: 9 }),
        (4, high, What::Ready { by: Some(low) }),
    ];
    assert_eq!((told.as_slice(), overwritten), (&expected[..], 4));
    assert_eq!(events[1].priority, 2, "it inherits");
}

#[test]
fn a_circle_of_owners_is_refused() {
    let mut sched = Scheduler::new(2, 0);
    let mutexes = [0, 1].map(|_| sched.new_mutex(Protocol::Inherit).unwrap());
    sched.spawn(0, &at(1)).unwrap();
    sched.reschedule(0);
    sched.lock(mutexes[0], NEVER, 0).unwrap();
    assert_eq!(sched.lock(mutexes[0], NEVER, 0), Err(Refusal::Deadlock));
    sched.spawn(0, &at(2)).unwrap();
    sched.reschedule(0);
    sched.lock(mutexes[1], NEVER, 0).unwrap();
    sched.lock(mutexes[0], NEVER, 0).unwrap();
    sched.reschedule(0);
    assert_eq!(sched.lock(mutexes[1], NEVER, 0), Err(Refusal::Deadlock));
}

#[test]
fn a_barrier_never_lets_its_last_arriver_pass_twice() {
    // rt-app's barrier does: its last arriver of a high priority passes again before the others have left.
    let mut sched = Scheduler::new(2, 0);
    let barrier = sched.new_barrier(2).unwrap();
    let low = sched.spawn(0, &at(1)).unwrap();
    sched.reschedule(0);
    assert_eq!(sched.arrive(barrier, 0), Step::Wait);
    let high = sched.spawn(0, &at(2)).unwrap();
    sched.reschedule(0);
    assert_eq!(sched.arrive(barrier, 0), Step::Go);
    assert_eq!(sched.arrive(barrier, 0), Step::Wait);
    sched.reschedule(0);
    assert_eq!(
        (sched.current(), sched.state(high)),
        (Some(low), State::Blocked(crate::policy::thread::Wait::Barrier(0)))
    );
}

#[test]
fn a_condition_keeps_the_mutex_and_wakes_the_most_urgent_waiter() {
    let mut sched = Scheduler::new(3, 0);
    let (mutex, condition) = (sched.new_mutex(Protocol::Inherit).unwrap(), sched.new_condition());
    let waiters = [3, 2].map(|priority| {
        let id = sched.spawn(0, &at(priority)).unwrap();
        sched.reschedule(0);
        sched.lock(mutex, NEVER, 0).unwrap();
        sched.wait_condition(condition, mutex, NEVER, 0).unwrap();
        sched.reschedule(0);
        id
    });
    sched.spawn(0, &at(1)).unwrap();
    sched.reschedule(0);
    sched.lock(mutex, NEVER, 0).unwrap();
    assert!(sched.signal(condition, 0));
    // The mutex is held: the waiter moves on to wait for it.
    assert!(!sched.reschedule(0));
    sched.unlock(mutex, 0).unwrap();
    sched.reschedule(0);
    assert_eq!((sched.current(), sched.owner(mutex)), (Some(waiters[0]), Some(waiters[0])));
    sched.unlock(mutex, 0).unwrap();
    assert!(sched.signal(condition, 0));
    assert!(!sched.signal(condition, 0), "nothing is remembered");
}

#[test]
fn a_sporadic_thread_keeps_its_separation_and_forgets_no_trigger() {
    let mut world = World::new();
    let release = Release::Sporadic { separation: 100 };
    let task = world.add(Params { release, deadline: Some(10), ..at(5) }, &[Act::Run(10)]);
    let id = world.actors[task].id;
    for _ in 0..3 {
        world.sched.trigger(id, 0).unwrap();
    }
    world.run(1000, |_| {});
    let starts: Vec<_> = world.stretches.iter().filter(|s| s.runs == Some(task)).map(|s| s.from).collect();
    assert_eq!(starts, [0, 100, 200]);
    assert_eq!(
        (world.account(task).jobs, world.account(task).misses),
        (3, 0),
        "an end at the deadline meets it"
    );
}

#[test]
fn a_miss_posts_the_handlers_semaphore_once_and_at_the_deadline() {
    let mut world = World::new();
    let semaphore = world.sched.new_semaphore(0).unwrap();
    let release = Release::Periodic { period: 100 };
    let task = world.add(Params { release, deadline: Some(30), ..at(5) }, &[Act::Run(50)]);
    world.sched.set_notify(world.actors[task].id, Some(semaphore)).unwrap();
    world.run(31, |_| {});
    assert_eq!(world.sched.count(semaphore), 1, "while the job still runs");
    world.run(99, |_| {});
    assert_eq!((world.sched.count(semaphore), world.account(task).worst_lateness), (1, 20));
}

/// One EDF thread that runs from 0.
fn edf(release: Release, deadline: Option<u64>) -> (Scheduler, crate::policy::ThreadId) {
    let mut sched = Scheduler::new(2, 0);
    let id = sched.spawn(0, &Params { policy: Policy::Edf, release, deadline, ..at(5) }).unwrap();
    sched.reschedule(0);
    (sched, id)
}

#[test]
fn a_deadline_is_that_of_a_job_and_a_missed_one_stays_missed_when_it_is_changed() {
    let (mut sched, id) = edf(Release::Periodic { period: 100 }, Some(50));
    sched.next_job(10).unwrap();
    assert!(sched.set_deadline(id, 60, 20).is_err(), "there is no job whose deadline it could be");
    sched.tick(99);
    assert_eq!((sched.account(id).jobs, sched.account(id).misses), (1, 0));
    sched.tick(100);
    sched.reschedule(100);
    sched.set_deadline(id, 190, 120).unwrap();
    sched.next_job(185).unwrap();
    assert_eq!((sched.account(id).jobs, sched.account(id).misses), (2, 0), "in time by the new deadline");
    sched.tick(200);
    sched.reschedule(200);
    sched.set_deadline(id, 290, 255).unwrap(); // no tick since 250
    assert_eq!(sched.account(id).misses, 1);
    sched.next_job(270).unwrap();
    assert_eq!((sched.account(id).jobs, sched.account(id).misses), (3, 1));
}

#[test]
fn the_last_job_counts_if_it_is_late_or_the_whole_thread_and_never_if_the_program_counts() {
    let ended = |release, deadline, own: bool, now: u64| {
        let (mut sched, id) = edf(release, deadline);
        if own {
            sched.set_job(id, 0, 40, 0).unwrap();
            sched.set_deadline(id, 45, 0).unwrap();
            sched.tick(now);
        }
        sched.exit(now);
        let account = sched.account(id);
        (account.jobs, account.misses, account.worst_lateness)
    };
    let periodic = Release::Periodic { period: 100 };
    assert_eq!(ended(periodic, Some(50), false, 50), (0, 0, 0), "it may have ended before any work");
    assert_eq!(ended(periodic, Some(50), false, 53), (1, 1, 3), "no tick was needed");
    assert_eq!(ended(Release::Aperiodic, Some(50), false, 30), (1, 0, 0));
    assert_eq!(ended(Release::Aperiodic, Some(60), true, 90), (0, 0, 0));
}

#[test]
fn backlog_is_worked_off_with_the_releases_it_had() {
    let mut world = World::new();
    let release = Release::Periodic { period: 100 };
    let task = world.add(Params { release, deadline: Some(100), ..at(5) }, &[Act::Run(60)]);
    // Away for 350 ns.
    world.add(Params { start: Some(50), ..at(9) }, &[Act::Run(350)]);
    world.run(2000, |_| {});
    assert_eq!(world.account(task).jobs, 20);
    assert_eq!(world.account(task).worst_response, 410, "of the first; the second waited for 310");
}

#[test]
fn impossible_parameters_are_refused_with_a_reason() {
    let mut sched = Scheduler::new(1, 0);
    let edf = Params { policy: Policy::Edf, ..Params::default() };
    let server = Policy::Sporadic { low: 5, period: 10, budget: 20, replenishments: 1 };
    for params in [
        Params { priority: 99, ..Params::default() },
        Params { deadline: Some(0), ..edf },
        edf,
        Params { release: Release::Periodic { period: 0 }, ..Params::default() },
        Params { policy: server, priority: 9, ..Params::default() },
        Params { deadline: Some(u64::MAX - 1), ..edf },
    ] {
        assert!(matches!(sched.spawn(0, &params), Err(Refusal::Invalid(_))), "{params:?}");
    }
    sched.spawn(0, &Params::default()).unwrap();
    assert_eq!(sched.spawn(0, &Params::default()), Err(Refusal::TooManyThreads));
    assert!(matches!(sched.new_mutex(Protocol::Ceiling(99)), Err(Refusal::Invalid(_))));
    assert!(sched.new_barrier(0).is_err());
}

#[test]
fn a_deadline_is_set_for_a_job_and_never_missed_by_a_thread_without_one() {
    let mut sched = Scheduler::new(4, 0);
    let edf = Params { policy: Policy::Edf, deadline: Some(100), ..at(3) };
    let periodic = Params { release: Release::Periodic { period: 100 }, ..edf };
    let thread = sched.spawn(0, &periodic).unwrap();
    sched.reschedule(0);
    sched.set_deadline(thread, 20, 0).unwrap();
    sched.next_job(10).unwrap();
    assert!(
        matches!(sched.set_deadline(thread, 50, 10), Err(Refusal::Invalid(_))),
        "it waits for its release"
    );
    sched.tick(60);
    assert_eq!(sched.account(thread).misses, 0);
    sched.tick(100);
    sched.reschedule(100);
    sched.set_deadline(thread, 120, 100).unwrap();
    sched.tick(130);
    assert_eq!(sched.account(thread).misses, 1);
    // It takes messages; only the program knows when one of them is done.
    let server = sched.spawn(130, &edf).unwrap();
    sched.set_deadline(server, 150, 130).unwrap();
    sched.tick(300);
    assert_eq!(sched.account(server).misses, 0);
}
