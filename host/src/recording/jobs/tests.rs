use lathunt_core::application::{Backlog, Standing, StartDelay};
use lathunt_core::time::{Cpu, Prio};
use lathunt_core::trace::activation::{Activation, Who};

use super::super::worst::tests::late;
use super::*;
use crate::recorder::Trigger;

/// A job of `tid` from `begin` on that took `us`, in one activation.
pub(in super::super) fn job(tid: i32, begin: u64, us: u64) -> Job {
    let (a, _) = late(tid, 10, 1);
    let (begin, end) = (Mono(begin * 1_000), Mono((begin + us) * 1_000));
    let step =
        Activation { waking: begin, switched_in: begin, blocked: end, execution: end.since(begin), ..a };
    Job {
        begin,
        end,
        backlog: None,
        steps: vec![step],
        more: Vec::new(),
        usual: Ns::ZERO,
        standing: Standing::Known,
    }
}

fn nothing(from: Mono) -> Frozen {
    let trigger = Trigger { victim: None, asked: true, at: from };
    Frozen { cpu: Cpu(0), id: 0, bytes: from.0.to_le_bytes().to_vec(), trigger }
}

fn book(peaks: usize) -> JobBook {
    JobBook::new(&Settings { peaks, jobs: true, ..Settings::on([Cpu(0)].into_iter().collect()) })
}

fn kept(book: &JobBook) -> Vec<(i32, u64)> {
    book.peaks().iter().map(|peak| (peak.victim.tid.0, peak.total_ns.0 / 1_000)).collect()
}

#[test]
fn the_worst_are_kept_and_the_worst_of_each_thread_beside_them() {
    let mut book = book(2);
    for (tid, us) in [(1, 300), (2, 40), (1, 500), (1, 400), (2, 50)] {
        book.ended(vec![job(tid, us * 10, us)], nothing);
    }
    assert_eq!(kept(&book), [(1, 500), (1, 400), (2, 50)]);
    assert_eq!(book.useful_from(), Ns::from_us(400));
}

#[test]
fn jobs_of_ordinary_threads_do_not_drive_out_those_of_real_time_threads() {
    let mut book = book(1);
    let mut ordinary = job(9, 0, 90_000);
    ordinary.steps[0].thread = Who { prio: Prio(120), ..ordinary.steps[0].thread };
    book.ended(vec![job(1, 5, 300)], nothing);
    book.ended(vec![ordinary], nothing);
    assert_eq!(kept(&book), [(1, 300), (9, 90_000)]);
}

#[test]
fn one_backlog_is_one_case() {
    let mut book = book(4);
    let first = job(1, 1_000, 1_500);
    let backlog = Backlog {
        until: first.end,
        why: StartDelay::Overrun(Some("page fault".to_owned())),
        since: first.begin,
    };
    book.ended(vec![first], nothing);
    book.ended(vec![Job { backlog: Some(backlog.clone()), ..job(1, 2_000, 700) }], nothing);
    assert_eq!(kept(&book), [(1, 1_500)]);
    book.ended(vec![Job { backlog: Some(backlog), ..job(1, 2_100, 1_700) }], nothing);
    assert_eq!(kept(&book), [(1, 1_700)]);
}

#[test]
fn evidence_of_what_turns_out_to_be_a_job_is_from_when_it_happened() {
    let mut book = book(4);
    let early = Job { standing: Standing::Open, ..job(1, 1_000, 300) };
    book.ended(vec![early.clone()], nothing);
    assert!(kept(&book).is_empty(), "whether it is a job is not known yet");
    book.ended(vec![Job { standing: Standing::Known, ..early }], |_| {
        panic!("the rings hold other things by now")
    });
    assert_eq!(kept(&book), [(1, 300)]);
    assert!(book.worst[0].rings.is_some());
}
