//! Any order of events: after each, the table obeys the rules.

use proptest::prelude::*;

use super::simulation::check_table;
use crate::policy::thread::{OnOverrun, State, Wait};
use crate::policy::{Budget, Params, Policy, Protocol, Release, Scheduler, ThreadId, NEVER};

/// A call of the running thread, or of the machine.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Yield,
    Sleep(u64),
    NextJob,
    Lock(u32, Option<u64>),
    Unlock(u32),
    Take(u32, Option<u64>),
    Post(u32),
    WaitCondition(u32, u32, Option<u64>),
    Signal(u32),
    Broadcast(u32),
    Arrive(u32),
    SetPriority(u32, u8),
    SetDeadline(u32, u64),
    SetJob(u32, u64, Option<u64>),
    Suspend,
    Wake(u32),
    Trigger(u32),
    Cancel(u32),
    Join(u32),
    Exit,
    Spawn(Params),
}

const MUTEXES: u32 = 4;

fn params() -> impl Strategy<Value = Params> {
    let policy = prop_oneof![
        Just(Policy::Fifo),
        Just(Policy::RoundRobin { quantum: 10_000 }),
        Just(Policy::Edf),
        Just(Policy::Sporadic { low: 0, period: 100_000, budget: 15_000, replenishments: 3 }),
    ];
    let release = prop_oneof![
        Just(Release::Aperiodic),
        Just(Release::Periodic { period: 40_000 }),
        Just(Release::Sporadic { separation: 30_000 }),
    ];
    let budget = prop_oneof![
        Just(None),
        Just(Some(Budget { ns: 12_000, action: OnOverrun::Count })),
        Just(Some(Budget { ns: 9_000, action: OnOverrun::Background })),
    ];
    (policy, 1..5u8, release, 1..60_000u64, budget).prop_map(
        |(policy, priority, release, deadline, budget)| Params {
            policy,
            priority,
            release,
            deadline: Some(deadline),
            budget,
            start: None,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let within = || proptest::option::of(1..50_000u64);
    let thread = || 0..8u32;
    prop_oneof![
        6 => (0..20_000u64).prop_map(Event::Pass),
        2 => Just(Event::Yield),
        1 => (0..30_000u64).prop_map(Event::Sleep),
        2 => Just(Event::NextJob),
        6 => (0..MUTEXES, within()).prop_map(|(m, w)| Event::Lock(m, w)),
        5 => (0..MUTEXES).prop_map(Event::Unlock),
        2 => (0..2u32, within()).prop_map(|(s, w)| Event::Take(s, w)),
        2 => (0..2u32).prop_map(Event::Post),
        2 => (0..2u32, 0..MUTEXES, within()).prop_map(|(c, m, w)| Event::WaitCondition(c, m, w)),
        2 => (0..2u32).prop_map(Event::Signal),
        1 => (0..2u32).prop_map(Event::Broadcast),
        1 => (0..1u32).prop_map(Event::Arrive),
        1 => (thread(), 0..6u8).prop_map(|(t, p)| Event::SetPriority(t, p)),
        1 => (thread(), 0..60_000u64).prop_map(|(t, d)| Event::SetDeadline(t, d)),
        1 => (thread(), 0..60_000u64, proptest::option::of(0..90_000u64)).prop_map(|(t, r, d)| Event::SetJob(t, r, d)),
        1 => Just(Event::Suspend),
        2 => thread().prop_map(Event::Wake),
        2 => thread().prop_map(Event::Trigger),
        1 => thread().prop_map(Event::Cancel),
        1 => thread().prop_map(Event::Join),
        1 => Just(Event::Exit),
        4 => params().prop_map(Event::Spawn),
    ]
}

fn apply(sched: &mut Scheduler, event: &Event, now: u64) {
    let until = |within: Option<u64>| within.map_or(NEVER, |within| now + within);
    let running = sched.current().is_some();
    match event {
        Event::Spawn(params) => drop(sched.spawn(now, params)),
        Event::Post(s) => drop(sched.post(*s, now)),
        Event::Signal(c) => drop(sched.signal(*c, now)),
        Event::Broadcast(c) => sched.broadcast(*c, now),
        Event::SetPriority(t, p) => drop(sched.set_priority(ThreadId(*t), *p, now)),
        Event::SetDeadline(t, d) => drop(sched.set_deadline(ThreadId(*t), now + d, now)),
        Event::SetJob(t, release, deadline) => {
            let deadline = deadline.map_or(NEVER, |deadline| (now + deadline).saturating_sub(30_000));
            let _ = sched.set_job(ThreadId(*t), now.saturating_sub(*release), deadline, now);
        }
        Event::Wake(t) => drop(sched.wake(ThreadId(*t), now)),
        Event::Trigger(t) => drop(sched.trigger(ThreadId(*t), now)),
        Event::Cancel(t) => drop(sched.cancel(ThreadId(*t), now)),
        _ if !running => {}
        Event::Pass(_) => {}
        Event::Yield => sched.yield_now(now),
        Event::Sleep(ns) => drop(sched.sleep_until(now + ns, now)),
        Event::NextJob => drop(sched.next_job(now)),
        Event::Lock(m, w) => drop(sched.lock(*m, until(*w), now)),
        Event::Unlock(m) => drop(sched.unlock(*m, now)),
        Event::Take(s, w) => drop(sched.take(*s, until(*w), now)),
        Event::WaitCondition(c, m, w) => drop(sched.wait_condition(*c, *m, until(*w), now)),
        Event::Arrive(b) => drop(sched.arrive(*b, now)),
        Event::Suspend => sched.suspend(now),
        Event::Join(t) => drop(sched.join(ThreadId(*t), NEVER, now)),
        Event::Exit => sched.exit(now),
    }
}

/// Whether owners wait for each other in a circle. Only a wait for a condition that holds a second mutex can lead there: what
/// it takes again, it cannot be refused. A program with that fault hangs; whoever inherits from whom means nothing then.
fn is_stuck(sched: &Scheduler) -> bool {
    (0..MUTEXES).any(|first| {
        let mut mutex = first;
        for _ in 0..MUTEXES {
            let Some(owner) = sched.owner(mutex) else { return false };
            let State::Blocked(Wait::Mutex(next)) = sched.state(owner) else { return false };
            mutex = next;
        }
        true
    })
}

/// Time passes as it does for the machine layer: it calls `tick` at `next_event`. False: stuck.
fn pass(sched: &mut Scheduler, now: &mut u64, ns: u64) -> bool {
    let end = *now + ns;
    loop {
        let next = sched.next_event(*now).clamp(*now, end);
        *now = next;
        sched.tick(next);
        sched.reschedule(next);
        if is_stuck(sched) {
            return false;
        }
        check_table(sched, next);
        if next == end {
            return true;
        }
    }
}

/// A scheduler for 8 threads, with mutexes of these protocols, and other objects.
fn with_objects(protocols: &[u8], now: u64) -> Scheduler {
    let mut sched = Scheduler::new(8, now);
    for protocol in protocols {
        let protocol = match protocol {
            0 => Protocol::None,
            1 => Protocol::Inherit,
            2 => Protocol::Ceiling(5),
            _ => Protocol::Floor(500),
        };
        sched.new_mutex(protocol).unwrap();
    }
    sched.new_semaphore(1).unwrap();
    sched.new_semaphore(0).unwrap();
    sched.new_condition();
    sched.new_condition();
    sched.new_barrier(3).unwrap();
    sched
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn after_any_events_the_running_thread_is_the_one_that_the_policies_demand(
        protocols in proptest::collection::vec(0..4u8, MUTEXES as usize),
        events in proptest::collection::vec(event(), 1..200),
    ) {
        let mut now = 1000;
        let mut sched = with_objects(&protocols, now);
        for event in &events {
            if let Event::Pass(ns) = event
                && !pass(&mut sched, &mut now, *ns)
            {
                return Ok(());
            }
            apply(&mut sched, event, now);
            sched.reschedule(now);
            if is_stuck(&sched) {
                return Ok(());
            }
            check_table(&sched, now);
            // A free mutex has no waiters.
            for mutex in 0..MUTEXES {
                if sched.owner(mutex).is_none() {
                    prop_assert!(sched.mutex_waiters(mutex).first().is_none());
                }
            }
            let server_excess: u64 = (0..8).map(|id| sched.account(ThreadId(id)).server_excess).sum();
            prop_assert_eq!(server_excess, 0);
            for id in 0..8 {
                if sched.state(ThreadId(id)) == State::Ended {
                    sched.reap(ThreadId(id)).unwrap();
                }
            }
        }
    }

    #[test]
    fn the_usual_cases_have_the_effect_of_the_general_ones(
        protocols in proptest::collection::vec(0..4u8, MUTEXES as usize),
        events in proptest::collection::vec(event(), 1..200),
    ) {
        let mut now = 1000;
        let mut quick = with_objects(&protocols, now);
        let mut sched = with_objects(&protocols, now);
        for event in &events {
            if let Event::Pass(ns) = event {
                let mut same = now;
                if !pass(&mut sched, &mut now, *ns) || !pass(&mut quick, &mut same, *ns) {
                    return Ok(());
                }
            }
            let done = sched.current().is_some()
                && match event {
                    Event::Lock(mutex, _) => quick.lock_at_once(*mutex),
                    Event::Unlock(mutex) => quick.unlock_at_once(*mutex),
                    Event::Yield => {
                        let before = quick.next_event(now);
                        let done = quick.yield_at_once(|| now);
                        prop_assert!(!done || quick.next_event(now) == before);
                        done
                    }
                    _ => false,
                };
            if !done {
                apply(&mut quick, event, now);
            }
            apply(&mut sched, event, now);
            prop_assert!(!matches!(event, Event::Lock(..) | Event::Yield) || !done || !quick.must_switch());
            quick.reschedule(now);
            sched.reschedule(now);
            prop_assert_eq!(format!("{quick:?}"), format!("{sched:?}"));
            if is_stuck(&sched) {
                return Ok(());
            }
        }
    }

    #[test]
    fn equal_threads_run_in_the_order_in_which_they_became_ready(
        events in proptest::collection::vec(0..4u8, 1..120),
    ) {
        // The model: the runner, and a queue.
        let mut now = 0;
        let mut sched = Scheduler::new(6, now);
        let mut queue = std::collections::VecDeque::new();
        let mut asleep = Vec::new();
        for _ in 0..5 {
            queue.push_back(sched.spawn(now, &Params { priority: 7, ..Params::default() }).unwrap());
        }
        sched.reschedule(now);
        for event in events {
            now += 10;
            match event {
                0 => {
                    sched.yield_now(now);
                    queue.rotate_left(usize::from(!queue.is_empty()));
                }
                1 if !queue.is_empty() => {
                    sched.suspend(now);
                    asleep.extend(queue.pop_front());
                }
                2 if !asleep.is_empty() => {
                    let id = asleep.remove(0);
                    sched.wake(id, now);
                    queue.push_back(id);
                }
                // A visitor of higher priority: the preempted thread continues before others of equal priority.
                3 => {
                    let visitor = sched.spawn(now, &Params { priority: 9, ..Params::default() }).unwrap();
                    sched.reschedule(now);
                    prop_assert_eq!(sched.current(), Some(visitor));
                    sched.exit(now);
                    sched.reap(visitor).unwrap();
                }
                _ => {}
            }
            sched.reschedule(now);
            prop_assert_eq!(sched.current(), queue.front().copied());
        }
    }
}
