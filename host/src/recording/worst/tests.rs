use super::*;
use crate::recorder::Trigger;
use lathunt_core::comm::Comm;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Prio;
use lathunt_core::trace::activation::{Point, Via, Who};
use lathunt_core::trace::flight::{Header, Victim, TRIGGER_KERNEL};

const CPU: Cpu = Cpu(1);

fn book(limit: usize) -> Book {
    let cpus: CpuSet = "1".parse().unwrap();
    let settings = Settings { peaks: limit, threshold: Ns(10), ..Settings::on(cpus) };
    Book::new(&settings, Symbols::none(), Mono(0))
}

/// Of thread `tid`, `latency` long, the `number`th.
pub fn late(tid: i32, latency: u64, number: u64) -> (Activation, Frozen) {
    let who = |tid| Who { tid: Tid(tid), prio: Prio(50), comm: Comm::cut("late") };
    let switched_in = Mono(1_000_000 * number + latency);
    let activation = Activation {
        sources: Default::default(),
        by_timerfd: false,
        thread: who(tid),
        tgid: Tid(tid),
        policy: 1,
        cpu: CPU,
        waking: Mono(1_000_000 * number),
        timer: None,
        switched_in,
        blocked: Mono(switched_in.0 + 5),
        execution: Ns(5),
        preemptions: 0,
        faults: 0,
        fault_address: 0,
        point: Point::default(),
        site: 0,
        stack: 0,
        source: 0,
        via: Via::Thread,
        waker: who(900),
        waker_cpu: CPU,
        before: who(901),
        shared: false,
        armed_late: false,
        armed_after: Ns::ZERO,
        rounded: Ns::ZERO,
        contended: false,
        awake: false,
        stayed: false,
        after_unseen: false,
        at_once: false,
        was_reserved: false,
        out_of_quota: false,
        stopped: false,
        woken_out_of_quota: false,
        after_several: false,
        slack: Ns::ZERO,
        blocks: 0,
        late_sleeps: None,
    };
    let victim = Victim {
        total: Ns(latency),
        switched_in,
        tid: Tid(tid),
        prio: Prio(50),
        comm: *b"late\0\0\0\0\0\0\0\0\0\0\0\0",
    };
    let header = Header {
        has_wakers: true,
        cpu: CPU,
        trigger: TRIGGER_KERNEL,
        id: number,
        begin: Mono(0),
        frozen: activation.blocked,
        first_seq: 0,
        records: 0,
        stacks: 0,
        overwritten: 0,
        victim: Some(victim),
    };
    let trigger = Trigger { victim: Some(victim), asked: false, at: activation.blocked };
    (activation, Frozen { cpu: CPU, id: number, bytes: header.to_bytes().to_vec(), trigger })
}

#[test]
fn whichever_comes_first_a_case_has_its_explanation_and_its_record_when_somebody_looks() {
    let mut book = book(2);
    let (first, record) = late(5, 300, 1);
    book.activation(&first);
    book.evidence(record);
    let (second, record) = late(6, 400, 2);
    book.evidence(record);
    book.activation(&second);
    let (third, _) = late(7, 200, 3);
    book.activation(&third);
    let (peaks, _) = book.peaks();
    assert!(peaks.iter().all(|peak| peak.explanation.is_none()), "it costs nothing until then");
    book.explain_cases();
    let (peaks, bytes) = book.peaks();
    let explained: Vec<(u64, bool)> = peaks
        .iter()
        .map(|peak| (peak.total_ns.0, peak.explanation.is_some() && peak.no_evidence.is_none()))
        .collect();
    assert_eq!(explained, [(400, true), (300, true)]);
    assert_eq!(bytes.len(), 2 * late(5, 1, 1).1.bytes.len());
    assert!(book.worst_of(Tid(5)).unwrap().explanation.is_some());
    assert!(book.worst_of(Tid(7)).unwrap().explanation.is_none(), "it had no flight record");
}

#[test]
fn records_wait_in_a_bounded_number_and_none_of_a_worst_case_is_lost() {
    let mut book = book(60);
    for number in 1..=60 {
        let (activation, record) = late(number as i32, 100 + number, number);
        book.evidence(record);
        book.activation(&activation);
        assert!(book.pending.len() <= PENDING);
    }
    book.explain_cases();
    assert!(book.peaks().0.iter().all(|peak| peak.explanation.is_some()) && book.pending.len() == 0);
}

#[test]
fn what_is_no_case_any_more_keeps_no_record_and_what_never_ends_becomes_one() {
    let mut book = book(1);
    for (number, latency) in [(1, 100), (2, 200), (3, 150)] {
        let (activation, record) = late(5, latency, number);
        book.evidence(record);
        book.activation(&activation);
    }
    assert_eq!(book.pending.len(), 1, "of the largest");
    for number in 4..100 {
        book.evidence(late(5, 300 + number, number).1);
    }
    assert!(book.pending.len() <= PENDING);
    book.close();
    assert_eq!(book.peaks().0[0].total_ns, Ns(399), "it has not blocked, and is told all the same");
}

#[test]
fn who_had_the_cpu_before_is_no_culprit_of_a_late_timer_nor_is_idle() {
    let (waited, _) = late(5, 300, 1);
    let of_timer = |part| Some((Mono(waited.waking.0 - part), waited.waking));
    let idle = Who { tid: Tid::IDLE, ..waited.before };
    for (a, quantity, told) in [
        (waited, Quantity::Wakeup, true),
        (Activation { before: idle, ..waited }, Quantity::Wakeup, false),
        (Activation { timer: of_timer(400), ..waited }, Quantity::TimerWakeup, false),
        (Activation { timer: of_timer(200), ..waited }, Quantity::TimerWakeup, true),
        (Activation { timer: of_timer(200), ..waited }, Quantity::Timer, false),
        (Activation { timer: of_timer(400), ..waited }, Quantity::Wakeup, true),
    ] {
        let mut book = book(1);
        book.activation(&a);
        let max = match quantity {
            Quantity::Timer => a.timer_part().unwrap(),
            Quantity::Wakeup => a.wakeup().unwrap(),
            _ => a.latency(),
        };
        let peak = book.peak_of((quantity, CPU), max).unwrap();
        assert_eq!((peak.total_ns, peak.culprit.is_some()), (max, told), "{quantity:?} of {a:?}");
    }
}

#[test]
fn the_longest_wake_up_of_a_thread_is_told_though_another_was_later_with_its_timer() {
    let mut book = book(8);
    let (short, record) = late(5, 100, 1);
    let short = Activation { timer: Some((Mono(short.waking.0 - 900), short.waking)), ..short };
    let (long, _) = late(5, 300, 2);
    let long = Activation { timer: Some((Mono(long.waking.0 - 1), long.waking)), ..long };
    book.activation(&short);
    book.activation(&long);
    book.evidence(record);
    book.explain_cases();
    let of = |quantity, max| book.peak_of_thread(Tid(5), quantity, Ns(max));
    assert!(of(Quantity::TimerWakeup, 1_000).unwrap().explanation.is_some());
    let wakeup = of(Quantity::Wakeup, 300).unwrap();
    assert_eq!((wakeup.begin, wakeup.total_ns), (long.waking, Ns(300)));
    assert!(of(Quantity::Wakeup, 299).is_none() && of(Quantity::Timer, 900).is_none());
    book.activation(&late(5, 200, 3).0);
    assert_eq!(book.peak_of_thread(Tid(5), Quantity::Wakeup, Ns(300)).unwrap().begin, long.waking);
}

#[test]
fn a_wait_behind_an_equal_is_no_case_of_its_cpu_and_the_lesser_one_of_its_thread() {
    let mut book = book(2);
    let shared = |number, latency| Activation { shared: true, ..late(5, latency, number).0 };
    book.activation(&shared(1, 900));
    assert!(book.peaks().0.is_empty() && book.worst_of(Tid(5)).unwrap().total_ns == Ns(900));
    book.activation(&late(5, 100, 2).0);
    book.activation(&shared(3, 950));
    assert_eq!(book.worst_of(Tid(5)).unwrap().total_ns, Ns(100));
    let of = |quantity, max| book.peak_of_thread(Tid(5), quantity, Ns(max)).map(|peak| peak.total_ns.0);
    assert_eq!((of(Quantity::SharedPrio, 950), of(Quantity::Wakeup, 100)), (Some(950), Some(100)));
}

#[test]
fn records_are_asked_for_from_what_could_still_become_a_case() {
    let mut book = book(2);
    book.activation(&late(5, 300, 1).0);
    assert_eq!(book.useful_from(CPU), Ns(10), "there is room");
    book.activation(&late(5, 200, 2).0);
    assert_eq!(book.useful_from(CPU), Ns(201));
}

#[test]
fn of_a_maximum_that_no_activation_has_only_a_record_of_its_size_tells() {
    let mut book = book(2);
    book.activation(&late(5, 300, 1).0);
    let of = |book: &Book, max| book.peak_of((Quantity::Wakeup, CPU), Ns(max)).map(|peak| peak.victim.tid);
    assert_eq!((of(&book, 300), of(&book, 400)), (Some(Tid(5)), None));
    book.evidence(late(6, 350, 2).1);
    assert_eq!(of(&book, 400), None, "it has not blocked, and was late by less");
}

#[test]
fn a_thread_that_got_the_id_of_one_that_ended_does_not_inherit_its_worst() {
    let mut book = book(2);
    book.activation(&late(5, 300, 1).0);
    let other = Activation { tgid: Tid(66), ..late(5, 100, 2).0 };
    book.activation(&other);
    assert_eq!(book.worst_of(Tid(5)).unwrap().total_ns, Ns(100));
}

#[test]
fn a_record_that_waits_for_its_activation_goes_into_the_next_window_and_no_older_one() {
    let mut book = book(2);
    book.evidence(late(5, 300, 1).1);
    let (waiting, record) = late(6, 400, 2);
    book.evidence(record);
    book.begin_window(waiting.switched_in);
    assert_eq!(book.pending.len(), 1);
    book.activation(&waiting);
    book.explain_cases();
    assert!(book.peaks().0[0].explanation.is_some());
}
