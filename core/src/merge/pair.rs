//! Combines the run of a box and that of its responder, to split round trips into parts.
//!
//! Sessions match by their random key, stimuli by their number, verified by the time of reception on the responder's
//! clock, which both ends know. Data that only one end has are counted, never guessed.

use crate::explain::{Explanation, Kind, Segment, SENDING};
use crate::judge::{judge, Rules};
use crate::latency_box::session::{End, Known, SessionMark};
use crate::latency_box::Counts;
use crate::numbers::counted;
use crate::peak::Peak;
use crate::run::{Loss, Run};
use crate::series::{Quantity, Series};
use crate::time::{Mono, Ns};

/// Loss counter of a responder whose run does not have all of its answers.
pub const NOT_LOOKED_AT: &str = "answers_not_looked_at";

/// Why two runs are not a pair.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoPair {
    /// No session of a box.
    #[error("'{0}' is not the run of `lathunt box`: name that of the box first, then that of `lathunt respond -o`")]
    NotOfABox(String),
    /// No session of a responder.
    #[error("'{0}' is not the run of `lathunt respond -o`, or no box connected to it")]
    NotOfAResponder(String),
    /// No key in common.
    #[error("'{0}' and '{1}' do not belong together: they have no session in common")]
    Strangers(String, String),
    /// One key twice at one end.
    #[error("'{0}' has the session {1} twice: it was altered or is damaged")]
    Twice(String, String),
    /// A file saved during the measurement.
    #[error("'{0}' is incomplete: its measurement was still running, or was killed")]
    Incomplete(String),
    /// The ends contradict each other.
    #[error("session {key}: {what}: one of the files was altered or is damaged")]
    Contradiction {
        /// Key of the session.
        key: String,
        /// The contradiction.
        what: String,
    },
}

/// One end of a session.
struct Half<'r> {
    series: &'r Series,
    mark: &'r SessionMark,
    counts: Counts,
}

/// The run of the box with the data of the responder: its series, losses by direction, explained worst cases.
///
/// # Errors
/// If the two are not a pair.
pub fn pair(boxed: (&str, &Run), responded: (&str, &Run)) -> Result<Run, NoPair> {
    for (name, run) in [boxed, responded] {
        if run.is_unfinished() {
            return Err(NoPair::Incomplete(name.to_owned()));
        }
    }
    let of_box = halves(boxed, End::Box)?;
    let of_responder = halves(responded, End::Responder)?;
    if of_box.is_empty() {
        return Err(NoPair::NotOfABox(boxed.0.to_owned()));
    }
    if of_responder.is_empty() {
        return Err(NoPair::NotOfAResponder(responded.0.to_owned()));
    }
    let mut paired = boxed.1.clone();
    let mut found = 0;
    for half in &of_box {
        let other = of_responder.iter().find(|other| other.mark.key == half.mark.key);
        let Some(other) = other else {
            let label = half.series.label();
            paired.conditions.notes.push(format!("{label}: its session is not in the run of the responder"));
            continue;
        };
        found += 1;
        let seen_all = !responded.1.losses.iter().any(|loss| loss.counter == NOT_LOOKED_AT && loss.count > 0);
        consistent(half, other, seen_all)?;
        lost(&mut paired, half, other);
        add_series(&mut paired, half, other, responded.1);
        for known in &half.mark.worst {
            explain(&mut paired, half, known, other, responded.1)?;
        }
    }
    if found == 0 {
        return Err(NoPair::Strangers(boxed.0.to_owned(), responded.0.to_owned()));
    }
    paired.conditions.notes.push(origin(responded.0, responded.1));
    // A responder that was migrated or whose priority was lowered did not run as requested.
    let doubts = responded.1.conditions.during.ended_early.iter();
    paired.conditions.during.ended_early.extend(doubts.map(|why| format!("{}: {why}", responded.0)));
    paired.losses.extend(responded.1.losses.iter().map(|loss| of_the_responder(loss, responded.0)));
    if let Some(verdict) = &boxed.1.verdict {
        // The reasons then name the causes that are known now.
        let judged = judge(&paired, verdict.deadline_ns, &Rules::instrument(Quantity::Roundtrip));
        paired.verdict = Some(if verdict.strict { judged.strictly() } else { judged });
    }
    Ok(paired)
}

fn halves<'r>((name, run): (&str, &'r Run), end: End) -> Result<Vec<Half<'r>>, NoPair> {
    let mut found: Vec<Half> = Vec::new();
    for series in &run.series {
        let (Some(mark), Some(counts)) = (&series.session, series.counts) else { continue };
        if mark.end != end {
            continue;
        }
        if found.iter().any(|known| known.mark.key == mark.key) {
            return Err(NoPair::Twice(name.to_owned(), mark.key.clone()));
        }
        found.push(Half { series, mark, counts });
    }
    Ok(found)
}

/// Checks that there are not more answers than stimuli, and not more received than sent.
fn consistent(half: &Half, other: &Half, seen_all: bool) -> Result<(), NoPair> {
    let refuse = |what: String| Err(NoPair::Contradiction { key: half.mark.key.clone(), what });
    if other.counts.sent > half.counts.sent {
        return refuse(format!(
            "the responder saw stimulus {}, and the box sent {}",
            other.counts.sent, half.counts.sent
        ));
    }
    if half.counts.answered > other.counts.answered && seen_all {
        return refuse(format!(
            "the box has {}, and the responder sent {}",
            counted(half.counts.answered, "answer"),
            other.counts.answered
        ));
    }
    Ok(())
}

/// Adds lost stimuli and lost answers.
fn lost(run: &mut Run, half: &Half, other: &Half) {
    let label = half.series.label();
    let there = half.counts.sent.saturating_sub(other.counts.answered);
    let back = other.counts.answered.saturating_sub(half.counts.answered);
    let all = [
        ("stimuli_lost_on_the_way_there", there, "stimuli that the responder did not answer"),
        ("answers_lost_on_the_way_back", back, "answers of the responder that the box did not receive"),
        ("stimuli_received_twice", other.counts.duplicated, "stimuli that reached the responder again"),
    ];
    for (counter, count, what) in all.into_iter().filter(|(_, count, _)| *count > 0) {
        // They are in `lost` of the series, which affects the verdict.
        let meaning = format!("{label}: {what}");
        run.losses.push(Loss { counter: counter.to_owned(), count, meaning, evidence_only: true });
    }
}

/// Adds the responder's series of the session. Its turnarounds are those of the box plus lost answers: if they are not
/// fewer, they replace those of the box.
fn add_series(run: &mut Run, half: &Half, other: &Half, responded: &Run) {
    let same = |series: &&Series| {
        series.channel == other.series.channel
            && matches!(series.quantity, Quantity::Response | Quantity::Turnaround)
    };
    for series in responded.series.iter().filter(same) {
        let is_known = |one: &Series| one.channel == half.series.channel && one.quantity == series.quantity;
        let known = run.series.iter().find(|one| is_known(one));
        if known.is_some_and(|known| known.histogram.count() > series.histogram.count()) {
            continue;
        }
        run.series.retain(|one| !is_known(one));
        // Session and losses are in the box's series.
        let channel = half.series.channel.clone();
        run.series.push(Series { channel, session: None, counts: None, lost: 0, ..series.clone() });
    }
}

/// Explains one of the worst round trips with the responder's part.
fn explain(run: &mut Run, half: &Half, known: &Known, other: &Half, responded: &Run) -> Result<(), NoPair> {
    let thread = half.series.thread.as_ref().map(|thread| thread.tid);
    let is_it = |peak: &&mut Peak| {
        peak.quantity == Quantity::Roundtrip
            && (peak.begin, peak.total_ns) == (known.begin, known.total_ns)
            && Some(peak.victim.tid) == thread
    };
    let Some(peak) = run.peaks.iter_mut().find(is_it) else { return Ok(()) };
    let Some(there) = other.mark.worst.iter().find(|there| there.sequence == known.sequence) else {
        let bound = other.mark.worst.last().filter(|_| !other.mark.all_kept).map(|least| least.total_ns);
        let told = match bound {
            Some(most) => format!("the responder took at most {most}: this answer is not among its longest"),
            None => "the run of the responder contains no answer to it".to_owned(),
        };
        note(peak, &told);
        return Ok(());
    };
    if there.received != known.received {
        return Err(NoPair::Contradiction {
            key: half.mark.key.clone(),
            what: format!(
                "stimulus {} was received at {} ns by the box's account and at {} ns by the responder's",
                known.sequence, known.received.0, there.received.0
            ),
        });
    }
    let of = |theirs: &&Peak| theirs.begin == there.begin && theirs.total_ns == there.total_ns;
    let Some(theirs) = responded.peaks.iter().find(of) else { return Ok(()) };
    if peak.explanation.is_some() {
        return Ok(()); // one machine: the box recorded all of it
    }
    match theirs.explanation.as_ref().and_then(|theirs| joined(peak, theirs)) {
        Some(explanation) => {
            peak.culprit = Some(explanation.cause.clone());
            peak.explanation = Some(explanation);
            peak.no_evidence = None;
        }
        None => note(peak, &format!("{} of it at the responder: {}", there.total_ns, theirs.sentence())),
    }
    Ok(())
}

fn note(peak: &mut Peak, told: &str) {
    if peak.explanation.is_some() {
        return;
    }
    let before = peak.no_evidence.take().unwrap_or_default();
    peak.no_evidence = Some(format!("{before}; {told}"));
}

/// The responder's parts up to sending the answer, and the rest as transfer. `None`: they exceed the total.
fn joined(peak: &Peak, theirs: &Explanation) -> Option<Explanation> {
    let parts: Vec<Segment> =
        theirs.tree.children.iter().filter(|part| part.label != SENDING).cloned().collect();
    let begin = parts.first().map_or(Mono(0), |part| part.begin);
    let covered: Ns = theirs
        .tree
        .gaps
        .iter()
        .filter(|gap| gap.label != SENDING)
        .map(|gap| gap.duration_ns)
        .chain(parts.iter().map(|part| part.duration_ns))
        .sum();
    if covered > peak.total_ns {
        return None;
    }
    let mut there =
        Segment::group(Kind::Passage, "in the responder, by its own clock", begin, covered, parts);
    there.thread = theirs.tree.thread.clone();
    let label = "on the way there and back, including queueing in front of the responder";
    let way = peak.total_ns.saturating_sub(covered);
    let way_node = Segment::unexplained(Kind::Blocked, label, peak.begin, way);
    let whole = "round trip: stimulus sent → answer received";
    let mut tree = Segment::group(Kind::Passage, whole, peak.begin, peak.total_ns, vec![there, way_node]);
    tree.thread = Some(peak.victim.clone());
    let unexplained_ns = tree.total_unexplained();
    let is_way = way.0 * 2 > peak.total_ns.0;
    let (cause, advice) = match is_way {
        true => (
            "on the way".to_owned(),
            "record the box and the path between: `lathunt box --record`".to_owned(),
        ),
        false => (theirs.cause.clone(), theirs.advice.clone()),
    };
    let mut limits = theirs.limits.clone();
    limits.push("two machines: the moments in the responder's part are of its own clock".to_owned());
    let sentence = format!(
        "the answer took {}, {covered} of it in the responder, {way} on the way: {}",
        peak.total_ns, theirs.sentence
    );
    Some(Explanation { sentence, advice, tree, total_ns: peak.total_ns, unexplained_ns, cause, limits })
}

fn origin(name: &str, responded: &Run) -> String {
    let conditions = &responded.conditions;
    let host = conditions.host.as_deref().unwrap_or("an unnamed machine");
    let kernel = conditions.kernel.release.as_deref().unwrap_or("an unknown kernel");
    let told = conditions.notes.iter().map(|note| format!("; {note}")).collect::<String>();
    format!("the responder: {name}, on {host} with {kernel}{told}")
}

fn of_the_responder(loss: &Loss, name: &str) -> Loss {
    // Its samples only duplicate those of the box.
    Loss { meaning: format!("{name}: {}", loss.meaning), evidence_only: true, ..loss.clone() }
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;
