//! Whether a text has only the lines of some CPUs or threads, as `grep` leaves them: its scheduler events name others.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::fields::{FieldValue, Fields};
use crate::numbers::counted;

/// Least switches without their predecessor that count: some kernels do not report all.
const LEAST: u64 = 5;

/// Least events after a wake-up for a CPU without events: at the end of a text, its switch may be still to come.
const AFTER: u64 = 10;

/// Facts of the scheduler's events.
#[derive(Debug, Default)]
pub(super) struct Filtered {
    /// The thread last switched in, of each CPU.
    current: HashMap<u32, i64>,
    /// Switches whose predecessor on their CPU is known, and those of another thread than it switched in.
    switches: u64,
    broken: u64,
    /// Number of events.
    events: u64,
    /// By their target CPU, wake-ups and migrations, and the number of events before the first.
    aimed: BTreeMap<u32, (u64, u64)>,
}

impl Filtered {
    /// The next event.
    pub fn event(&mut self, cpu: u32, name: &str, fields: &Fields<'_>) {
        let number = |wanted: &str| {
            fields.iter().find_map(|(name, value): &(Cow<'_, str>, FieldValue<'_>)| match value {
                FieldValue::Number(number) if name == wanted => Some(*number),
                _ => None,
            })
        };
        self.events += 1;
        let aimed_at = match name {
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => number("target_cpu"),
            "sched_migrate_task" => number("dest_cpu"),
            _ => None,
        };
        if let Some(target) = aimed_at.and_then(|cpu| u32::try_from(cpu).ok()) {
            self.aimed.entry(target).or_insert((0, self.events)).0 += 1;
        }
        if name == "sched_switch"
            && let (Some(previous), Some(next)) = (number("prev_pid"), number("next_pid"))
            && let Some(current) = self.current.insert(cpu, next)
        {
            self.switches += 1;
            self.broken += u64::from(current != previous);
        }
    }

    /// Switches before and after this place do not follow one another.
    pub fn gap(&mut self) {
        self.current.clear();
    }

    /// What to say of missing lines; `seen` are the CPUs with events. After a loss, a switch has no predecessor either.
    pub fn found(&self, seen: impl Fn(u32) -> bool, is_lossy: bool) -> Vec<String> {
        let mut found = Vec::new();
        let absent = self.aimed.iter().find(|(cpu, (_, first))| self.events >= first + AFTER && !seen(**cpu));
        if let Some((cpu, (count, _))) = absent {
            let wakeups = counted(*count, "wake-up or migration");
            found.push(format!(
                "{wakeups} to CPU {cpu}, of which the text has no event: it has the lines of some CPUs only"
            ));
        }
        let (broken, switches) = (self.broken, self.switches);
        if broken >= LEAST && broken * 5 >= switches * 2 && !is_lossy {
            found.push(format!("{broken} of {switches} switches leave another thread than the one switched in before: switches are missing, the text has the lines of some threads only"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::FtraceText;
    use crate::trace::source::Source;

    fn damage(text: &str) -> Vec<String> {
        FtraceText::open(text.as_bytes()).unwrap().info().damage.iter().map(ToString::to_string).collect()
    }

    fn switches() -> Vec<String> {
        let threads = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
        let switch = |at: usize| {
            let ((out, from), (into, to)) = (threads[at % 4], threads[(at + 1) % 4]);
            format!(
                "  {out}-{from}  [000]  1.0000{:02}: sched_switch: prev_comm={out} prev_pid={from} prev_prio=120 \
                 prev_state=S ==> next_comm={into} next_pid={to} next_prio=120\n",
                10 + at
            )
        };
        (0..40).map(switch).collect()
    }

    #[test]
    fn the_lines_of_one_thread_are_known_by_the_switches_between_others_that_they_lack() {
        let lines = switches();
        assert_eq!(damage(&lines.concat()), [""; 0]);
        let of_one: String =
            lines.iter().filter(|line| line.contains("comm=a ")).map(String::as_str).collect();
        assert!(damage(&of_one)[0].contains("of some threads only"), "{:?}", damage(&of_one));
        // A kernel may not report one of many.
        let but_one: String =
            lines.iter().enumerate().filter(|(at, _)| *at != 9).map(|(_, line)| line.as_str()).collect();
        assert_eq!(damage(&but_one), [""; 0]);
    }

    #[test]
    fn the_lines_of_one_cpu_are_known_by_wake_ups_on_others() {
        let line = |cpu: u32, at: u32, target: u32| {
            format!(
                "  a-1  [00{cpu}]  1.0000{at}: sched_waking: comm=b pid=2 prio=120 target_cpu=00{target}\n"
            )
        };
        let wakings = |cpu: u32| (10..30).map(|at| line(cpu, at, 1)).collect::<String>();
        assert!(
            damage(&wakings(0))[0].contains("to CPU 1, of which the text has no event"),
            "{:?}",
            damage(&wakings(0))
        );
        assert_eq!(damage(&wakings(1)), [""; 0]);
        assert_eq!(damage(&(wakings(0) + &line(1, 90, 0))), [""; 0]);
    }
}
