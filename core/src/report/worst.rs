//! The threads in the worst cases of a recording: the victim, its waker, and the previous thread on the CPU.

use std::fmt::Write;

use crate::peak::{Context, Peak};
use crate::printable::cut;
use crate::run::Run;

/// Maximum number of cases shown; the run file has those of every CPU.
const SHOWN: usize = 8;

/// One line for each of the worst, with a heading; empty without such cases. Ends with an empty line.
#[must_use]
pub fn text(run: &Run, width: usize) -> String {
    let known = run.peaks.iter().filter_map(|peak| Some((peak, peak.context.as_ref()?)));
    let lines: Vec<String> = known.take(SHOWN).enumerate().map(|(nth, case)| line(nth, case)).collect();
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::from("Tasks in the worst cases\n");
    for line in lines {
        let _ = writeln!(text, "{}", cut(&line, width).trim_end());
    }
    text + "\n"
}

fn line(nth: usize, (peak, context): (&Peak, &Context)) -> String {
    let timer = context.timer_ns.map(|late| format!(" (timer {late})")).unwrap_or_default();
    format!(
        "{:>2} {:>8}{timer} CPU {}: {} {}, {}, after {}",
        nth + 1,
        peak.total_ns.to_string(),
        peak.cpu,
        peak.victim,
        context.policy,
        woken(context),
        context.before
    )
}

/// `woken by its timer in swapper/1`, `woken by low/12 (RT 10)`.
fn woken(context: &Context) -> String {
    match context.woken_by.as_str() {
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
    fn a_case_names_everybody_in_it_and_only_eight_are_shown() {
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
        };
        let mut run = Run::new(Conditions::default());
        run.peaks = vec![peak; 9];
        let text = text(&run, 160);
        let first = " 1   413 µs (timer 12.0 µs) CPU 1: control/7 (RT 80) SCHED_FIFO, woken by a timer over swapper/1, \
                     after hog/9 (RT 98)";
        assert_eq!(text.lines().nth(1), Some(first));
        assert_eq!(text.trim_end().lines().count(), 9);
        run.peaks.clear();
        assert_eq!(super::text(&run, 80), "");
    }
}
