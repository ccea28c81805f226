//! The waits of a job that is explained by sums, because the flight rings do not reach back to its release: their end is
//! in the rings, which show what the thread was doing that it waited for.

use super::explain_interval;
use super::record::Record;
use super::scene::Interval;
use super::segment::{Explanation, Kind, Segment, WORTH_A_REMARK};
use crate::time::{Mono, Ns};
use crate::trace::window::Window;

/// Follows the waits of `told`, the sums of `job`, from the time on from which `window` has all events. A wait of which
/// most is unexplained there stays as it is.
pub fn follow_waits(told: &mut Explanation, window: &Window, job: &Interval) {
    let complete = window.complete_from.values().filter(|from| **from < job.end);
    let Some(from) = complete.max().copied() else { return };
    let record = Record::new(window);
    let mut longest: Option<Explanation> = None;
    for wait in told.tree.children.iter_mut().filter(|part| is_wait(part, from)) {
        let end = wait.begin + wait.duration_ns;
        let begin = wait.begin.max(from);
        let inside = explain_interval(&record, &Interval { begin, end, ..*job });
        let whole = inside.total_ns == end.since(begin);
        if !whole || inside.tree.children.is_empty() || inside.unexplained_ns.0 * 2 > inside.total_ns.0 {
            continue;
        }
        put_inside(wait, &inside);
        if longest.as_ref().is_none_or(|longest| inside.total_ns > longest.total_ns) {
            longest = Some(inside);
        }
    }
    let Some(longest) = longest else { return };
    let name = longest.tree.thread.as_ref().map_or_else(String::new, ToString::to_string);
    let begin = format!("{name} took {}: ", longest.total_ns);
    let rest = longest.sentence.strip_prefix(&begin).unwrap_or(&longest.sentence);
    told.sentence +=
        &format!("; in the last {} of that wait, which the flight rings show, {rest}", longest.total_ns);
    told.limits.extend(longest.limits);
    told.unexplained_ns = told.tree.total_unexplained();
    if told.unexplained_ns.share_of(told.total_ns) >= WORTH_A_REMARK {
        told.sentence += &format!("; {} unexplained", told.unexplained_ns);
    }
}

/// Whether it is one wait for another thread or a device, which ended after `from`.
fn is_wait(part: &Segment, from: Mono) -> bool {
    let is_blocked = part.kind == Kind::Blocked && part.label.starts_with("blocked ");
    is_blocked && part.count == 1 && part.children.is_empty() && part.begin + part.duration_ns > from
}

fn put_inside(wait: &mut Segment, inside: &Explanation) {
    let begin = inside.tree.begin;
    let before = begin.since(wait.begin);
    let mut parts = Vec::new();
    if before > Ns::ZERO {
        parts.push(Segment::leaf(Kind::Blocked, "before the events in the flight rings", wait.begin, before));
    }
    let label = format!("{} long, in the flight rings", inside.total_ns);
    parts.push(Segment { kind: Kind::Blocked, label, ..inside.tree.clone() });
    let whole = Segment::group(wait.kind, wait.label.clone(), wait.begin, wait.duration_ns, parts);
    *wait = Segment { thread: wait.thread.clone(), ..whole };
}
