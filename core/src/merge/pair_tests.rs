//! Both ends of one session, and pairs that are not one.

use super::*;
use crate::conditions::Conditions;
use crate::histogram::{Histogram, Layout};
use crate::series::Thread;
use crate::time::{Cpu, Prio, Tid};

const KEY: &str = "00000000000000ab";

fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new(Layout::LATENCY);
    values.into_iter().for_each(|value| histogram.record(Ns(value)));
    histogram
}

/// Stimulus `sequence` was sent at 1 ms times its number on the box's clock, and received 100 s later on the other one.
fn received(sequence: u64) -> Mono {
    Mono(100_000_000_000 + sequence * 1_000_000)
}

fn run_of(end: End, quantity: Quantity, totals: &[(u64, u64)], counts: Counts, all_kept: bool) -> Run {
    let thread = Thread { tid: Tid(7), comm: "one".into(), prio: Some(Prio::from_rt(95)) };
    let mut run = Run::new(Conditions { host: Some("machine".into()), ..Conditions::default() });
    let mut series = Series::new(quantity, Some(Cpu(0)), histogram(totals.iter().map(|(_, total)| *total)));
    let begin = |sequence: u64| match end {
        End::Box => Mono(sequence * 1_000_000),
        End::Responder => received(sequence),
    };
    let known = |&(sequence, total): &(u64, u64)| Known {
        sequence,
        begin: begin(sequence),
        total_ns: Ns(total),
        received: received(sequence),
    };
    series.session =
        Some(SessionMark { key: KEY.into(), end, worst: totals.iter().map(known).collect(), all_kept });
    (series.thread, series.channel) = (Some(thread.clone()), Some("udp:x".into()));
    (series.counts, series.lost) = (Some(counts), counts.lost);
    run.series.push(series);
    for &(sequence, total) in totals {
        let explanation = (end == End::Responder).then(|| explained(begin(sequence), Ns(total)));
        run.peaks.push(Peak {
            quantity,
            cpu: Cpu(0),
            begin: begin(sequence),
            total_ns: Ns(total),
            victim: thread.clone(),
            culprit: None,
            explanation,
            no_evidence: Some("no events were recorded".into()),
            context: None,
            during_action: false,
            counted_as: None,
        });
    }
    run
}

/// Half of it behind a hog, then its own time, and 10 ns for sending.
fn explained(begin: Mono, total: Ns) -> Explanation {
    let hog = Segment::leaf(Kind::Thread, "hog/9", begin, Ns(total.0 / 2));
    let woken =
        Segment::group(Kind::Passage, "waking → stimulus received", begin, Ns(total.0 / 2), vec![hog]);
    let own = Segment::leaf(Kind::Running, "itself", begin, Ns(total.0 - total.0 / 2 - 10));
    let sending = Segment::leaf(Kind::Passage, SENDING, begin, Ns(10));
    let tree = Segment::group(Kind::Passage, "answer", begin, total, vec![woken, own, sending]);
    Explanation {
        sentence: "it waited behind hog/9".into(),
        advice: "move hog".into(),
        total_ns: total,
        unexplained_ns: tree.total_unexplained(),
        tree,
        cause: "thread: hog".into(),
        limits: Vec::new(),
    }
}

fn counts(sent: u64, answered: u64) -> Counts {
    Counts { sent, answered, lost: sent - answered, ..Counts::default() }
}

/// Stimuli 1 to 4; the answer to 3 was lost on the way back, 4 on the way there.
fn ends() -> (Run, Run) {
    let boxed = [(2, 900_000), (1, 50_000)];
    let responded = [(3, 950_000), (2, 800_000)];
    (
        run_of(End::Box, Quantity::Roundtrip, &boxed, counts(4, 2), true),
        run_of(End::Responder, Quantity::Turnaround, &responded, counts(3, 3), false),
    )
}

fn paired(boxed: &Run, responded: &Run) -> Result<Run, NoPair> {
    pair(("box", boxed), ("there", responded))
}

#[test]
fn a_stimulus_meets_its_own_answer_and_the_parts_add_up() {
    let (boxed, responded) = ends();
    let run = paired(&boxed, &responded).unwrap();
    let explanation = run.peaks[0].explanation.as_ref().unwrap();
    assert!(explanation.tree.adds_up());
    assert_eq!(explanation.total_ns, Ns(900_000));
    assert_eq!(explanation.unexplained_ns, Ns(900_000 - 800_000 + 10), "the way, with the sending");
    assert_eq!(explanation.cause, "thread: hog");
    assert!(explanation.sentence.starts_with("the answer took 900 µs, 800 µs of it in the responder"));
    // 1 is not among the longest of the responder: what that says is a bound, and no more.
    let other = run.peaks[1].no_evidence.as_deref().unwrap();
    assert!(run.peaks[1].explanation.is_none() && other.contains("at most 800 µs"), "{other}");
    let lost: Vec<(&str, u64)> = run.losses.iter().map(|loss| (loss.counter.as_str(), loss.count)).collect();
    assert_eq!(lost, [("stimuli_lost_on_the_way_there", 1), ("answers_lost_on_the_way_back", 1)]);
    assert_eq!(run.series[0].lost, 2, "as the box counted them");
    // The longest turnaround is of the answer that the box never got.
    assert_eq!(run.max_of(Quantity::Turnaround), Some(Ns(950_000)));
    assert!(Run::from_json(&run.to_json()).is_ok());
}

#[test]
fn what_was_changed_at_the_responder_or_asked_of_the_box_still_counts() {
    use crate::verdict::Outcome;
    let (mut boxed, mut responded) = ends();
    boxed.verdict = Some(judge(&boxed, Some(Ns(1_000_000_000)), &Rules::instrument(Quantity::Roundtrip)));
    let reasons = |run: Run| run.verdict.unwrap().reasons;
    let before = reasons(paired(&boxed, &responded).unwrap());
    let said = "udp:x: respond: it was moved away from CPU 0";
    responded.conditions.during.ended_early.push(said.to_owned());
    let after = reasons(paired(&boxed, &responded).unwrap());
    let names = |reasons: &[String]| reasons.iter().any(|reason| reason.contains(said));
    assert!(names(&after) && !names(&before), "{after:?}");
    boxed.verdict.as_mut().unwrap().strict = true;
    let strict = paired(&boxed, &responded).unwrap().verdict.unwrap();
    assert!(strict.strict && strict.outcome != Some(Outcome::Pass), "{strict:?}");
}

#[test]
fn most_of_the_time_on_the_way_is_nobodys_fault_at_the_responder() {
    let (mut boxed, responded) = ends();
    boxed.peaks[0].total_ns = Ns(5_000_000);
    boxed.series[0].session.as_mut().unwrap().worst[0].total_ns = Ns(5_000_000);
    let run = paired(&boxed, &responded).unwrap();
    assert_eq!(run.peaks[0].culprit.as_deref(), Some("on the way"));
}

#[test]
fn what_is_no_pair_is_refused_in_one_line() {
    let (boxed, responded) = ends();
    let says = |boxed: &Run, responded: &Run| paired(boxed, responded).unwrap_err().to_string();
    assert!(says(&responded, &boxed).contains("name that of the box first"));
    assert!(says(&boxed, &boxed).contains("not the run of `lathunt respond -o`"));
    let spoilt = |spoil: fn(&mut Run)| {
        let mut other = responded.clone();
        spoil(&mut other);
        says(&boxed, &other)
    };
    let mark = |run: &mut Run| run.series[0].session.take().unwrap();
    let other_key = spoilt(|run| run.series[0].session.as_mut().unwrap().key = "1".into());
    assert!(other_key.contains("no session in common"), "{other_key}");
    assert!(spoilt(|run| run.series.push(run.series[0].clone())).contains("twice"));
    assert!(spoilt(|run| run.complete = false).contains("is incomplete"));
    assert!(spoilt(|run| run.series[0].counts.as_mut().unwrap().sent = 5).contains("saw stimulus 5"));
    assert!(
        spoilt(|run| run.series[0].counts.as_mut().unwrap().answered = 1).contains("the responder sent 1")
    );
    let moved = spoilt(|run| run.series[0].session.as_mut().unwrap().worst[1].received = Mono(5));
    assert!(moved.contains("stimulus 2 was received at"), "{moved}");
    let mut without = responded.clone();
    let _ = mark(&mut without);
    assert!(says(&boxed, &without).contains("no box connected to it"));
}

#[test]
fn answers_that_nobody_looked_at_are_a_loss_and_no_contradiction() {
    let (boxed, mut responded) = ends();
    responded.series[0].counts.as_mut().unwrap().answered = 1;
    let meaning = "lost".to_owned();
    responded.losses.push(Loss { counter: NOT_LOOKED_AT.into(), count: 2, meaning, evidence_only: false });
    let run = paired(&boxed, &responded).unwrap();
    assert!(run.losses.iter().any(|loss| loss.counter == NOT_LOOKED_AT && loss.count == 2));
}

#[test]
fn of_several_sessions_only_those_of_both_are_joined() {
    let (mut boxed, responded) = ends();
    let mut other = boxed.series[0].clone();
    other.session.as_mut().unwrap().key = "cd".into();
    other.channel = Some("tcp:y".into());
    boxed.series.push(other);
    let run = paired(&boxed, &responded).unwrap();
    assert!(run.conditions.notes.iter().any(|note| note.starts_with("tcp:y: its session is not in")));
}
