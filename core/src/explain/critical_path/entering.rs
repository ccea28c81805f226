//! The switch itself: from its event to the last one that shows the CPU still at it.

use super::clauses::{Weight, AMOUNT};
use super::Walk;
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::event::Kind as What;

/// Minimum time to tell: a usual switch takes less.
const LONG: Ns = Ns::from_us(10);
/// Time before a part in which its switch is looked for, as when the events are loaded.
const BACK: Ns = Ns::from_us(100);

/// A switch that took long.
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
        let since = Mono(stretch.begin.0.saturating_sub(BACK.0));
        let is_switch = |kind: &What| matches!(kind, What::Switch { .. });
        let mut earlier = self.record.events_on(cpu, since, stretch.begin).rev();
        let (proof, switch) = earlier.find(|(_, event)| is_switch(&event.kind))?;
        let What::Switch { prev, next, .. } = switch.kind else { return None };
        let at_switch = self
            .record
            .events_on(cpu, switch.at, stretch.end)
            .skip_while(|(index, _)| *index <= proof)
            .take_while(|(_, event)| event.current.is_none() && matches!(event.kind, What::Other { .. }));
        let (_, last) = at_switch.last().filter(|_| next.tid == thread.tid)?;
        let begin = switch.at.max(stretch.begin);
        let is_long = last.at.since(switch.at) >= LONG && last.at > begin;
        is_long.then(|| Entering {
            from: self.record.thread(prev, switch.at),
            proof,
            piece: (begin, last.at),
        })
    }

    pub(super) fn say_entering(&mut self, entering: &Entering, thread: &Thread, net: Ns) {
        let text = format!("the switch from {} to {thread} took {AMOUNT}", entering.from);
        let advice = "the kernel changed the address space and the registers for that long: keep threads of other processes off this CPU, and record tlb:*, irq_vectors:* and csd:* to see what the switch waits for";
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

    /// The sentence for 72 us of cyclictest, which is switched in `flush` us before the flush at the switch.
    fn told(flush: u64) -> String {
        let at_switch = 111 - flush;
        let text = format!(
            "a-7 [012] d... 6.430{at_switch:03}: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=c next_pid=8 next_prio=19
a-7 [012] d... 6.430111: tlb_flush: pages:-1 reason:flush on task switch (0)
c-8 [012] .... 6.430112: sys_exit: NR 115 = 0
c-8 [012] .... 6.430129: sys_enter: NR 64 (4, 0, 1f, 0, 3b, 0)
c-8 [012] d... 6.430140: sched_switch: prev_comm=c prev_pid=8 prev_prio=19 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
"
        );
        let source = FtraceText::open(text.as_bytes()).unwrap();
        let found = find(&source, &Question::Wakeups, &Whose::default());
        let (begin, end) = (Mono(6_430_057_000), Mono(6_430_129_000));
        let window = window(&source, &found, begin, end);
        let interval = Interval { tid: Tid(8), cpu: Cpu(12), begin, end };
        explain_interval(&Record::new(&window), &interval).sentence
    }

    #[test]
    fn a_switch_that_takes_long_is_not_the_own_time_of_the_thread_that_comes() {
        let sentence = told(63);
        assert!(
            sentence
                .contains("the switch from a/7 (nice 0) to c/8 (RT 80) took 54.0 µs (75 %); it ran 18.0 µs"),
            "{sentence}"
        );
        let sentence = told(2);
        assert!(!sentence.contains("the switch from"), "{sentence}");
    }
}
