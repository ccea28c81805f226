//! The figures of a thread always account for its longest work.

use super::*;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn futex(argument: u64) -> Point {
    Point { syscall: 202, argument, operation: 128 + 9, compat: false, site: 0 }
}

/// A thread that runs and waits at any of some places, at any time for any reason; its last one may be its end.
fn stream(dice: &mut Dice) -> Vec<Activation> {
    let exits = Point { syscall: Point::EXITS, argument: 0, operation: 0, compat: false, site: 0 };
    let places = [SLEEP, futex(0x100), LOCK, FAULT];
    let count = 2 + dice.below(100);
    let used = 1 + dice.below(4);
    let mut at = 1_000_000;
    let mut all = Vec::new();
    for number in 1..=count {
        at += 10_000 + dice.below(2_000_000);
        let via = [Via::Timer, Via::Thread, Via::Interrupt][dice.below(3) as usize];
        let last = number == count && dice.below(2) == 0;
        let point = if last { exits } else { places[dice.below(used) as usize] };
        let ran = 1_000 + dice.below(3_000_000);
        let one = activation(at, via, point);
        all.push(Activation { blocked: Mono(at + 3_000 + ran), ..one });
        at += 3_000 + ran;
    }
    all
}

/// From the documentation alone: a job starts when the wait in the main place ends, and ends at the next wait there;
/// time before the first and after the last of them belongs to no job.
struct Plain {
    turns: u64,
    longest: Option<Ns>,
    outside: Vec<Ns>,
}

fn plain(stream: &[Activation], main: Point) -> Plain {
    let waits: Vec<usize> = (0..stream.len()).filter(|&at| stream[at].point == main).collect();
    let span = |from: usize, to: usize| stream[to].blocked.since(stream[from].begin());
    let turns: Vec<Ns> = waits.windows(2).map(|pair| span(pair[0] + 1, pair[1])).collect();
    let mut outside = Vec::new();
    // A semaphore ended by a thread is a wait for its first job.
    let mut begin = 0;
    for at in 0..waits.first().map_or(stream.len(), |&first| first + 1) {
        let by_thread = stream.get(at + 1).is_some_and(|next| next.via == Via::Thread);
        let cut = stream[at].point == futex(0x100) && by_thread;
        if cut || stream[at].point == main || at + 1 == stream.len() {
            outside.push(span(begin, at));
            begin = at + 1;
        }
    }
    let last = stream.len() - 1;
    let after = waits.last().filter(|&&wait| wait < last && stream[last].point.syscall == Point::EXITS);
    outside.extend(after.map(|&wait| span(wait + 1, last)));
    Plain { turns: turns.len() as u64, longest: turns.into_iter().max(), outside }
}

#[test]
fn ten_thousand_streams_have_the_turns_of_a_plain_reading_and_no_work_is_longer_than_what_is_accounted_for() {
    let mut dice = Dice(24);
    for number in 0..10_000 {
        let stream = stream(&mut dice);
        let mut tasks = Tasks::new(4, Some(Ns::from_us(300)), name);
        stream.iter().for_each(|one| {
            tasks.add(one);
        });
        let log = tasks.logs.values().next().unwrap();
        let mut decided = log.clone();
        let end = stream[stream.len() - 1].blocked;
        decided.end(end, name, || Some(stream[stream.len() - 1].blocks));
        let main = decided.main_point(&stream, name);
        let task = decided.report(name).remove(0);
        let response = task.of(Quantity::Response).map(|series| &series.histogram);
        let plain = plain(&stream, main);
        assert_eq!(response.map_or(0, |histogram| histogram.count()), plain.turns, "stream {number}");
        assert_eq!(response.and_then(|histogram| histogram.max()), plain.longest, "stream {number}");
        assert_eq!(task.outside_ns, plain.outside.iter().copied().max(), "stream {number}");
        let late = plain.longest.filter(|&longest| longest > Ns::from_us(300));
        assert_eq!(task.miss_max_ns, late.map(|longest| longest.saturating_sub(Ns::from_us(300))));
        // Each place where a job may start, by the waker.
        for place in [SLEEP, futex(0x100)] {
            let told = Place::of(place, name).name;
            for timer in [true, false] {
                let releases: Vec<usize> = (0..stream.len() - 1)
                    .filter(|&at| stream[at].point == place && (stream[at + 1].via == Via::Timer) == timer)
                    .collect();
                let spans =
                    releases.windows(2).map(|two| stream[two[1]].blocked.since(stream[two[0] + 1].begin()));
                let found = task.other_turns.iter().find(|o| o.place == told && o.after_timer == timer);
                assert_eq!(found.map(|other| other.longest_ns), spans.max(), "stream {number}, {told}");
            }
        }
    }
}

#[test]
fn no_turn_is_longer_than_what_is_accounted_for_when_activations_are_lost() {
    let mut dice = Dice(25);
    let (mut lost, mut bounded) = (0, 0);
    for number in 0..10_000 {
        let mut stream = stream(&mut dice);
        for (blocks, one) in stream.iter_mut().enumerate() {
            one.blocks = blocks as u16;
        }
        let kept: Vec<Activation> = stream.iter().filter(|_| dice.below(10) > 0).copied().collect();
        if kept.len() < 2 {
            continue;
        }
        let mut tasks = Tasks::new(4, Some(Ns::from_us(300)), name);
        kept.iter().for_each(|one| {
            tasks.add(one);
        });
        let last = &stream[stream.len() - 1];
        let blocks = (last.point.syscall != Point::EXITS).then_some(last.blocks);
        tasks.end(last.blocked, |_| blocks);
        let main = tasks.logs.values().next().unwrap().clone().main_point(&kept, name);
        let task = tasks.report().remove(0);
        let response = task.of(Quantity::Response);
        let longest = response.and_then(|series| series.histogram.max());
        let unfinished = task.unfinished.as_ref().map(|end| end.after_ns);
        let within = response.map_or(task.outside_ns, Series::lost_at_most);
        lost += task.not_recorded;
        bounded += u64::from(task.not_recorded > 0 && within.is_some());
        // A lost start is also unknown to the simple method.
        let first = stream.iter().position(|one| one.waking == kept[0].waking).unwrap();
        let truth = plain(&stream[first..], main).longest;
        let accounted = longest.max(task.outside_ns).max(unfinished).max(within);
        assert!(truth <= accounted, "stream {number}: {truth:?} is more than {accounted:?}");
    }
    assert!(lost > 10_000 && bounded > 1_000, "{lost} lost, {bounded} bounded");
}

#[test]
fn jobs_begin_where_the_user_says() {
    // Between two sleeps it waits for a lock; without `--activation` it would be judged from sleep to sleep.
    let wait = futex(0x200);
    let stream: Vec<Activation> = (1..400)
        .map(|number| activation(number * 1_000_000, Via::Thread, if number % 2 == 0 { SLEEP } else { wait }))
        .collect();
    let told = |chosen: Option<&str>| {
        let mut tasks = Tasks::new(4, None, name).with_activation(chosen);
        stream.iter().for_each(|one| {
            tasks.add(one);
        });
        tasks.report().remove(0)
    };
    let chosen = told(Some("futex*0x200"));
    assert_eq!((chosen.waits_in.as_deref(), chosen.is_chosen), (Some("futex FUTEX_WAIT_BITSET 0x200"), true));
    let other = told(Some("read*"));
    assert!(!other.is_chosen && other.waits_in == told(None).waits_in, "{other:?}");
}

#[test]
fn a_job_begins_at_one_of_the_calls_that_wait_in_a_place_where_that_is_chosen() {
    let told = |activation: Option<&str>| {
        let mut tasks = Tasks::new(4, Some(Ns::from_us(300)), name).with_activation(activation);
        for turn in 1..=100 {
            let half = activation_at(turn * 1_000_000, 0xa);
            tasks.add(&half);
            tasks.add(&activation_at(turn * 1_000_000 + 500_000, 0xb));
        }
        tasks.report().remove(0)
    };
    let inferred = told(None);
    let longest = |task: &Task| task.of(Quantity::Response).unwrap().histogram.max();
    assert_eq!((longest(&inferred), inferred.activations), (Some(Ns(55_000)), 199));
    let calls: Vec<(Option<&str>, Ns)> =
        inferred.other_turns.iter().map(|other| (other.call.as_deref(), other.longest_ns)).collect();
    assert_eq!(calls[..2], [(Some("0000000a"), Ns(555_000)), (Some("0000000b"), Ns(555_000))]);
    let chosen = told(Some("clock_nanosleep TIMER_ABSTIME@0000000b"));
    assert!(chosen.is_chosen, "{chosen:?}");
    assert_eq!((longest(&chosen), chosen.activations), (Some(Ns(555_000)), 99));
    assert_eq!(chosen.waits_in.as_deref(), Some("clock_nanosleep TIMER_ABSTIME@0000000b"));
    let all = told(Some("clock_nanosleep TIMER_ABSTIME"));
    assert!(all.is_chosen && all.activations == 199, "{all:?}");
}

/// Woken at `at` by a timer, and then asleep by this call of the program.
fn activation_at(at: u64, site: u32) -> Activation {
    Activation { site, ..activation(at, Via::Timer, SLEEP) }
}

#[test]
fn steps_without_a_pause_have_the_interval_of_their_waits_and_chosen_ones_do_not() {
    let told = |chosen: Option<&str>, last: u64| {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), name).with_activation(chosen);
        (1..=last).for_each(|step| {
            tasks.add(&activation(step * 10_000_000, Via::Timer, SLEEP));
        });
        tasks.report().remove(0).released_every_ns
    };
    assert_eq!(told(None, 2_000), Some(Ns::from_ms(10)));
    assert_eq!((told(None, 5), told(None, 3)), (Some(Ns::from_ms(10)), None));
    assert_eq!(told(Some("clock_nanosleep*"), 2_000), None);
}

#[test]
fn a_thread_that_is_one_job_was_released_by_the_thread_that_created_it() {
    let exits = Point { syscall: Point::EXITS, argument: 0, operation: 0, compat: false, site: 0 };
    let mut tasks = Tasks::new(4, Some(Ns::from_us(300)), name);
    tasks.add(&Activation { blocks: 0, stayed: true, ..activation(1_000_000, Via::Thread, exits) });
    let task = tasks.report().remove(0);
    assert_eq!((task.released_by, task.outside_ns), (vec![Tid(9)], Some(Ns(53_000))));
    let mut tasks = Tasks::new(4, Some(Ns::from_us(300)), name);
    tasks.add(&Activation { blocks: 7, stayed: true, ..activation(1_000_000, Via::Thread, exits) });
    assert_eq!(tasks.report()[0].released_by, [], "it lived before");
}
