//! A context switch that takes long: from `sched_switch` to the last event recorded before the switch was complete.

use super::clauses::{Weight, AMOUNT};
use super::Walk;
use crate::explain::thread::Stretch;
use crate::explain::wait::SWITCHING;
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::event::Kind as What;

/// A switch that took longer than one usually takes.
pub(super) struct Entering {
    from: Thread,
    /// The event of the switch.
    pub proof: u32,
    /// Its start and end, within the part.
    pub piece: (Mono, Mono),
}

impl Walk<'_, '_> {
    /// The part of `stretch`, in which `thread` runs, that the switch to it took. Events at the switch have no thread:
    /// those of the thread that leaves were removed when the events were loaded.
    pub(super) fn entering(&self, thread: &Thread, stretch: &Stretch) -> Option<Entering> {
        let cpu = stretch.cpu?;
        let is_switch = |kind: &What| matches!(kind, What::Switch { .. });
        let mut earlier = self.record.events_on(cpu, Mono(0), stretch.begin).rev();
        let (proof, switch) = earlier.find(|(_, event)| is_switch(&event.kind))?;
        let What::Switch { prev, next, .. } = switch.kind else { return None };
        let at_switch = self
            .record
            .events_on(cpu, switch.at, stretch.end)
            .skip_while(|(index, _)| *index <= proof)
            .take_while(|(_, event)| event.current.is_none() && matches!(event.kind, What::Other { .. }));
        let (_, last) = at_switch.last().filter(|_| next.tid == thread.tid)?;
        let begin = switch.at.max(stretch.begin);
        let is_long = last.at.since(switch.at) > SWITCHING && last.at > begin;
        is_long.then(|| Entering {
            from: self.record.thread(prev, switch.at),
            proof,
            piece: (begin, last.at),
        })
    }

    pub(super) fn say_entering(&mut self, entering: &Entering, thread: &Thread, net: Ns) {
        let text = format!("the context switch from {} to {thread} took {AMOUNT}", entering.from);
        let advice = "the context switch itself (address space, TLB, registers) took that long: keep threads of other processes off this CPU, and record tlb:*, irq_vectors:* and csd:* to see what it waits for";
        self.say(Weight::Blame, net, text, "switching".to_owned(), advice);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{explain_interval, Interval};
    use crate::explain::intervals::{find, Question, Whose};
    use crate::explain::load::window;
    use crate::explain::record::Record;
    use crate::time::{Cpu, Mono, Tid};
    use crate::trace::ftrace_text::FtraceText;

    /// The sentence for 72 us of c, which is switched in `flush` us before the flush at the switch; `after`: what follows.
    fn told(flush: u64, after: &str) -> String {
        let at_switch = 1_111 - flush;
        let text = format!(
            "a-7 [012] d... 6.42{at_switch:04}: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=c next_pid=8 next_prio=19
a-7 [012] d... 6.421111: tlb_flush: pages:-1 reason:flush on task switch (0)
{after}c-8 [012] .... 6.421112: sys_exit: NR 115 = 0
c-8 [012] .... 6.421129: sys_enter: NR 64 (4, 0, 1f, 0, 3b, 0)
c-8 [012] d... 6.421140: sched_switch: prev_comm=c prev_pid=8 prev_prio=19 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
"
        );
        let source = FtraceText::open(text.as_bytes()).unwrap();
        let found = find(&source, &Question::Wakeups, &Whose::default());
        let (begin, end) = (Mono(6_421_057_000), Mono(6_421_129_000));
        let window = window(&source, &found, begin, end);
        let interval = Interval { tid: Tid(8), cpu: Cpu(12), begin, end };
        explain_interval(&Record::new(&window), &interval).sentence
    }

    #[test]
    fn a_switch_that_takes_long_is_not_the_own_time_of_the_thread_that_comes() {
        for flush in [63, 250] {
            let sentence = told(flush, "");
            let said =
                "the context switch from a/7 (nice 0) to c/8 (RT 80) took 54.0 µs (75 %); it ran 18.0 µs";
            assert!(sentence.contains(said), "{flush}: {sentence}");
            assert!(!sentence.contains("clock_nanosleep"), "1 µs is not most of 18 µs: {sentence}");
        }
        assert!(!told(2, "").contains("the context switch"), "{}", told(2, ""));
        // It runs again, and the switches are missing.
        let sentence = told(250, "a-7 [012] .... 6.421111: kfree: call_site=x\n");
        assert!(!sentence.contains("the context switch"), "{sentence}");
    }
}
