//! The threads in the worst cases of a recording: the victim, its waker, and the previous thread on the CPU.

use crate::numbers::more;
use crate::peak::{Context, Peak};
use crate::printable::hanging;
use crate::run::Run;

/// Maximum number of cases shown, unless all are wanted; the run file has those of every CPU.
const SHOWN: usize = 8;

/// The worst, or `all`, with a heading; empty without such cases. Ends with an empty line.
#[must_use]
pub fn text(run: &Run, width: usize, all: bool) -> String {
    let known = run.peaks.iter().filter_map(|peak| Some((peak, peak.context.as_ref()?)));
    let of_case = |(nth, case)| line(nth, case, width);
    let lines: Vec<Vec<String>> = known.enumerate().map(of_case).collect();
    if lines.is_empty() {
        return String::new();
    }
    let shown = if all { lines.len() } else { SHOWN };
    let mut text = String::from("Tasks in the worst cases\n");
    for line in lines.iter().take(shown).flatten() {
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    if lines.len() > shown {
        text.push_str(&format!("… {}\n", more((lines.len() - shown) as u64, "case")));
    }
    text + "\n"
}

fn line(nth: usize, (peak, context): (&Peak, &Context), width: usize) -> Vec<String> {
    let timer = context.timer_ns.map(|late| format!(" (timer {late})")).unwrap_or_default();
    let told = format!("{} {}, {}, after {}", peak.victim, context.policy, woken(context), context.before);
    hanging(
        &format!("{:>2} {:>8}{timer} CPU {}: ", nth + 1, peak.total_ns.to_string(), peak.cpu),
        &told,
        width,
    )
}

/// `woken by a timer over swapper/1`, `woken by low/12 (RT 10)`.
fn woken(context: &Context) -> String {
    match context.woken_by.as_str() {
        // The lateness is at the start of the line.
        Context::INSTEAD => format!("woken while {} ran, not by its timer", context.waker),
        Context::BEFORE => "woken before recording began".to_owned(),
        "timer" => format!("woken by a timer over {}", context.waker.comm),
        "thread" => format!("woken by {}", context.waker),
        _ => format!("woken in an interrupt over {}", context.waker.comm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::series::{Quantity, Thread};
    use crate::time::{Cpu, Mono, Ns, Prio, Tid};

    fn thread(tid: i32, comm: &str, prio: i32) -> Thread {
        Thread { tid: Tid(tid), comm: comm.to_owned(), prio: Some(Prio(prio)) }
    }

    #[test]
    fn a_case_names_everybody_in_it_and_those_left_out_are_counted() {
        let context = Context {
            policy: "SCHED_FIFO".to_owned(),
            timer_ns: Some(Ns(12_000)),
            before: thread(9, "hog", 1),
            woken_by: "timer".to_owned(),
            waker: thread(0, "swapper/1", 120),
        };
        let peak = Peak {
            quantity: Quantity::TimerWakeup,
            cpu: Cpu(1),
            begin: Mono(5),
            total_ns: Ns(412_900),
            victim: thread(7, "control", 19),
            culprit: None,
            explanation: None,
            no_evidence: None,
            context: Some(context),
            during_action: false,
            counted_as: None,
        };
        let mut run = Run::new(Conditions::default());
        run.peaks = vec![peak; 9];
        let text = text(&run, 160, false);
        let first = " 1   413 µs (timer 12.0 µs) CPU 1: control/7 (RT 80) SCHED_FIFO, woken by a timer over swapper/1, \
                     after hog/9 (RT 98)";
        assert_eq!(text.lines().nth(1), Some(first));
        assert_eq!(text.trim_end().lines().count(), 10);
        assert!(text.ends_with("\n… 1 more case\n\n"), "{text}");
        let narrow = super::text(&run, 80, true);
        assert_eq!(narrow.matches("after hog/9 (RT 98)\n").count(), 9, "nothing is cut off: {narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        run.peaks[0].context.as_mut().unwrap().woken_by = Context::INSTEAD.to_owned();
        let instead = super::text(&run, 200, false);
        let said = "SCHED_FIFO, woken while swapper/1/0 (nice 0) ran, not by its timer, after hog/9";
        assert!(instead.lines().nth(1).unwrap().contains(said), "{instead}");
        run.peaks.clear();
        assert_eq!(super::text(&run, 80, false), "");
    }
}
