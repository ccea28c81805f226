//! Tests of the engine: events as text in, the printed explanation out.

mod blamed;
mod causes;
mod chain;
mod changes;
mod evidence;
mod follow;
mod gaps;
mod halves;
mod lowered;
pub(super) mod notation;
mod oracle;
mod quota;
mod realtime_kernel;
mod reasons;
mod roundtrips;
mod sampled;
mod senders;
mod sentence;
mod silent;
mod slices;
mod streams;
mod throttled;
mod vain;
mod wakers;
mod weighing;

use super::explain_interval;
use super::peak::explain_peak;
use super::record::Record;
use super::scene::Interval;
use super::segment::Explanation;
use crate::time::{Cpu, Mono, Tid};
use crate::trace::window::Window;

/// The interval of thread 50 on CPU 1 from `begin` to `end` (µs).
fn explained(window: &Window, begin: u64, end: u64) -> Explanation {
    let interval = Interval { tid: Tid(50), cpu: Cpu(1), begin: Mono(begin * 1_000), end: Mono(end * 1_000) };
    let explanation = explain_peak(window, &interval);
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    assert_eq!(explanation.total_ns.0, (end - begin) * 1_000);
    assert_eq!(explanation.tree.total_explained() + explanation.unexplained_ns, explanation.total_ns);
    explanation
}

/// The same as an interval between two markers.
pub(super) fn told(window: &Window, begin: u64, end: u64) -> Explanation {
    let interval = Interval { tid: Tid(50), cpu: Cpu(1), begin: Mono(begin * 1_000), end: Mono(end * 1_000) };
    let explanation = explain_interval(&Record::new(window), &interval);
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    let parts = explanation.tree.total_explained() + explanation.unexplained_ns;
    assert_eq!((parts, parts.0), (explanation.total_ns, (end - begin) * 1_000), "{explanation:#?}");
    explanation
}

/// The same as text, with a line for the cause, compared line by line.
fn expect(events: &str, begin: u64, end: u64, expected: &str) {
    let explanation = explained(&notation::window(events), begin, end);
    let text = format!(
        "cause {}\n{}",
        explanation.cause,
        super::text::render(&explanation, super::text::Options::default())
    );
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>().join("\n");
    assert!(text.lines().all(|line| line.chars().count() <= super::text::WIDTH), "{text}");
    assert_eq!(lines(text.trim()), lines(expected.trim()), "\n{text}");
}
