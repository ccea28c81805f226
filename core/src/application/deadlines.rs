//! Deadlines of the threads of an application.
//!
//! `500us` applies to the real-time threads, or to all threads if there are none; `control=500us,io-*=10ms,*=none`
//! selects threads by shell patterns, of which the first match decides. Threads without a deadline are not judged; the
//! verdict lists them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::job::Due;
use super::others::OTHERS;
use super::task::Task;
use crate::glob::{fits, Glob};
use crate::time::Ns;

/// Maximum bytes of a thread name (TASK_COMM_LEN - 1).
const NAME: usize = 15;

/// Deadline of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// None.
    None,
    /// A response time.
    At(Ns),
    /// Its period.
    Period,
}

/// The deadline a thread was judged by, as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedDeadline {
    /// The deadline; null: none.
    pub deadline_ns: Option<Ns>,
    /// Deadline of the real-time threads, which does not apply to this SCHED_OTHER thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_ns: Option<Ns>,
    /// Its deadline was requested to be its period, but it has none, or had several.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_period: bool,
}

/// The deadlines of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// Patterns of thread names, in the order in which they are tried.
    named: Vec<(String, Limit)>,
    /// Deadline of real-time threads that match no pattern, or of all such threads if none is real-time.
    default: Option<Limit>,
    /// One deadline for all threads.
    of_all: Option<Ns>,
}

impl Deadlines {
    /// The same deadline for each thread, of any policy.
    #[must_use]
    pub fn of_all(deadline: Option<Ns>) -> Deadlines {
        Deadlines { of_all: deadline, ..Deadlines::default() }
    }

    /// Whether no deadline is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.default.is_none() && self.of_all.is_none()
    }

    /// The one deadline, if there are no patterns.
    #[must_use]
    pub fn plain(&self) -> Option<Ns> {
        match (self.named.as_slice(), self.default, self.of_all) {
            ([], Some(Limit::At(deadline)), _) | ([], None, Some(deadline)) => Some(deadline),
            _ => None,
        }
    }

    /// The shortest deadline.
    #[must_use]
    pub fn shortest(&self) -> Option<Ns> {
        let all =
            self.named.iter().map(|(_, limit)| *limit).chain(self.default).chain(self.of_all.map(Limit::At));
        let times = all.filter_map(|limit| match limit {
            Limit::At(deadline) => Some(deadline),
            Limit::None | Limit::Period => None,
        });
        times.min()
    }

    /// Reads `500us`, `period`, `control=500us,io-*=10ms,*=none`; `duration` reads a time.
    ///
    /// # Errors
    /// One line: an entry that cannot be read, or a second default.
    pub fn parse(text: &str, duration: fn(&str) -> Result<Ns, String>) -> Result<Deadlines, String> {
        let mut all = Deadlines::default();
        for part in text.split(',') {
            all.add(part.trim(), duration)?;
        }
        Ok(all)
    }

    /// Reads a file: one entry per line; `#` starts a comment.
    ///
    /// # Errors
    /// One line with the number of the line that cannot be read.
    pub fn parse_file(text: &str, duration: fn(&str) -> Result<Ns, String>) -> Result<Deadlines, String> {
        let mut all = Deadlines::default();
        for (nth, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                all.add(line, duration).map_err(|error| format!("line {nth}: {error}"))?;
            }
        }
        if all.is_empty() {
            return Err("it has no deadline: write lines such as 'control=500us'".to_owned());
        }
        Ok(all)
    }

    fn add(&mut self, part: &str, duration: fn(&str) -> Result<Ns, String>) -> Result<(), String> {
        let limit = |text: &str| match text.trim() {
            "none" => Ok(Limit::None),
            "period" => Ok(Limit::Period),
            time => duration(time).map(Limit::At),
        };
        match part.rsplit_once('=') {
            Some((pattern, time)) => {
                self.named.push((name(pattern)?, limit(time)?));
                Ok(())
            }
            None if self.default.is_some() => {
                Err(format!("'{part}' is a second deadline for all threads: name threads (control={part})"))
            }
            None => {
                self.default = Some(limit(part)?);
                Ok(())
            }
        }
    }

    /// Deadline of the first pattern that matches this name.
    fn named(&self, comm: &str) -> Option<Limit> {
        self.named.iter().find(|(pattern, _)| fits(pattern, comm)).map(|(_, limit)| *limit)
    }

    /// Deadline of the jobs of a thread of this name, during the recording.
    pub(super) fn due(&self, comm: &str) -> Due {
        let is_period = self.named(comm).or(self.default) == Some(Limit::Period);
        Due { deadline: self.while_running(comm), is_period }
    }

    /// Deadline of a thread of this name, as far as it is known before the end; `None`: none, or its period.
    #[must_use]
    pub fn while_running(&self, comm: &str) -> Option<Ns> {
        let limit = self.named(comm).or(self.default).or(self.of_all.map(Limit::At))?;
        match limit {
            Limit::At(deadline) => Some(deadline),
            Limit::None | Limit::Period => None,
        }
    }

    /// Whether the name alone gives a thread a deadline, for any policy.
    #[must_use]
    pub fn names(&self, comm: &str) -> bool {
        self.named(comm).is_some() || self.of_all.is_some()
    }

    /// Whether the deadline of some threads is their period.
    fn has_period(&self) -> bool {
        self.named.iter().map(|(_, limit)| *limit).chain(self.default).any(|limit| limit == Limit::Period)
    }

    /// Sets `held_to` of each of `tasks`. Misses of a task without a deadline do not count.
    pub(super) fn tell(&self, tasks: &mut [Task]) {
        if self.named.is_empty() && self.default.is_none() {
            return;
        }
        let any = tasks.iter().any(is_real_time);
        for task in tasks {
            if task.thread.comm == OTHERS {
                // Their deadlines are not known, nor are their periods.
                let (others_ns, lacks_period) = (self.shortest(), self.has_period());
                task.held_to = Some(AppliedDeadline { deadline_ns: None, others_ns, lacks_period });
                continue;
            }
            let limit = match (self.named(&task.thread.comm), self.default) {
                (Some(limit), _) => limit,
                (None, Some(default)) if !any || is_real_time(task) || task.chain.is_some() => default,
                _ => Limit::None,
            };
            let deadline_ns = match limit {
                Limit::None => None,
                Limit::At(deadline) => Some(deadline),
                Limit::Period => period_of(task),
            };
            let lacks_period = limit == Limit::Period && deadline_ns.is_none();
            let others_ns = match (self.named(&task.thread.comm), self.default) {
                (None, Some(Limit::At(others))) if deadline_ns.is_none() => Some(others),
                _ => None,
            };
            task.held_to = Some(AppliedDeadline { deadline_ns, others_ns, lacks_period });
            if deadline_ns.is_none() {
                (task.deadline_ns, task.misses, task.miss_max_ns) = (None, 0, None);
                task.late_causes.clear();
            }
        }
    }

    /// Patterns whose deadline applies to none of `tasks`: no name matches, or all that do match an earlier one. Not those
    /// that set no deadline (`*=none`): without them nothing would be judged otherwise.
    #[must_use]
    pub fn unused<'d>(&'d self, tasks: &[Task]) -> Vec<&'d str> {
        let decides =
            |task: &Task| self.named.iter().position(|(pattern, _)| fits(pattern, &task.thread.comm));
        let used: BTreeSet<usize> = tasks.iter().filter_map(decides).collect();
        let unused = self
            .named
            .iter()
            .enumerate()
            .filter(|(nth, (_, limit))| !used.contains(nth) && !matches!(limit, Limit::None));
        unused.map(|(_, (pattern, _))| pattern.as_str()).collect()
    }
}

/// Parses a pattern of thread names; `comm:control`, the notation of `--tasks`, means `control`.
fn name(pattern: &str) -> Result<String, String> {
    let pattern = pattern.trim();
    let name = pattern.strip_prefix("comm:").unwrap_or(pattern);
    if name.is_empty() {
        return Err(format!("'{pattern}=' names no thread"));
    }
    if Glob::new(name.as_bytes()).shortest() > NAME {
        return Err(format!("'{name}' matches no thread: the kernel keeps {NAME} bytes of a name"));
    }
    Ok(name.to_owned())
}

/// The period as a deadline. If it changed, each job was judged by the period of its time: the longest one then, which a job
/// that took longer missed at any time; `None` if all met theirs, because no single period describes that.
fn period_of(task: &Task) -> Option<Ns> {
    let period = task.period.as_ref()?;
    let one = period.longest_ns.filter(|_| period.changed).unwrap_or(period.median_ns);
    (!period.changed || task.misses > 0).then_some(one)
}

/// By the policy: a real-time priority may be a PI boost.
fn is_real_time(task: &Task) -> bool {
    matches!(task.policy.as_str(), "SCHED_FIFO" | "SCHED_RR" | "SCHED_DEADLINE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micro(text: &str) -> Result<Ns, String> {
        let number = text.strip_suffix("us").and_then(|number| number.parse().ok());
        number.map(Ns::from_us).ok_or_else(|| format!("'{text}' is not a time"))
    }

    fn parse(text: &str) -> Result<Deadlines, String> {
        Deadlines::parse(text, micro)
    }

    fn task(comm: &str, policy: &str) -> Task {
        let task = serde_json::json!({
            "thread": { "tid": 7, "comm": comm, "prio": null }, "process": 7, "policy": policy,
            "waits_in": null, "timer_driven": true, "activations": 2,
            "period": {"median_ns": 900_000, "jitter_median_ns": 0, "jitter_max_ns": 0, "missed": 0}, "series": [],
            "execution": null, "preemptions": 0, "page_faults": 0, "deadline_ns": 500_000, "misses": 3
        });
        serde_json::from_value(task).unwrap()
    }

    fn told(text: &str, tasks: &[(&str, &str)]) -> Vec<Option<u64>> {
        let mut tasks: Vec<Task> = tasks.iter().map(|(comm, policy)| task(comm, policy)).collect();
        parse(text).unwrap().tell(&mut tasks);
        tasks.iter().map(|task| task.held_to.unwrap().deadline_ns.map(|ns| ns.0 / 1_000)).collect()
    }

    #[test]
    fn a_plain_deadline_is_that_of_the_real_time_threads_or_of_all() {
        let both = [("control", "SCHED_FIFO"), ("logger", "SCHED_OTHER")];
        assert_eq!(told("500us", &both), [Some(500), None]);
        assert_eq!(told("500us", &both[1..]), [Some(500)]);
        assert_eq!(told("period", &both), [Some(900), None]);
    }

    #[test]
    fn a_thread_without_one_period_cannot_be_held_to_it() {
        let lacks = |period: serde_json::Value, misses| {
            let mut tasks = [task("control", "SCHED_FIFO")];
            tasks[0].period = serde_json::from_value(period).unwrap();
            tasks[0].misses = misses;
            parse("period").unwrap().tell(&mut tasks);
            tasks[0].held_to.unwrap().lacks_period
        };
        let of = |changed| serde_json::json!({"median_ns": 9, "jitter_median_ns": 0, "jitter_max_ns": 0, "missed": 0, "changed": changed});
        assert!(lacks(serde_json::Value::Null, 0));
        assert!(!lacks(of(false), 0) && !lacks(of(true), 1));
        let mut slow_before = [task("control", "SCHED_FIFO")];
        slow_before[0].period = serde_json::from_value(of(true)).unwrap();
        slow_before[0].period.as_mut().unwrap().longest_ns = Some(Ns(90));
        parse("period").unwrap().tell(&mut slow_before);
        assert_eq!(slow_before[0].held_to.unwrap().deadline_ns, Some(Ns(90)));
        assert!(lacks(of(true), 0), "in time by each of them, which none of them says");
    }

    #[test]
    fn the_first_pattern_that_fits_decides_and_misses_without_a_deadline_do_not_count() {
        let tasks = [("control", "SCHED_FIFO"), ("io-3", "SCHED_OTHER"), ("main", "SCHED_FIFO")];
        assert_eq!(told("control=50us, io-[0-9]=70us,*=none", &tasks), [Some(50), Some(70), None]);
        assert_eq!(told("control=50us,9us", &tasks), [Some(50), None, Some(9)]);
        let mut main = [task("main", "SCHED_FIFO")];
        let deadlines = parse("control=50us").unwrap();
        deadlines.tell(&mut main);
        assert_eq!((main[0].misses, main[0].deadline_ns), (0, None));
        assert_eq!(deadlines.unused(&main), ["control"]);
        let late = parse("*=10us,main=1us,comm:x=2us").unwrap();
        assert_eq!(late.unused(&main), ["main", "x"], "an earlier one decides");
        assert!(parse("main=1us,*=none").unwrap().unused(&main).is_empty(), "nothing else ran");
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line() {
        for (text, expected) in [
            ("1us,2us", "second deadline"),
            ("=5us", "names no thread"),
            ("a=b", "'b' is not a time"),
            ("sixteen__[ab]_longer=5us", "15 bytes"),
        ] {
            assert!(parse(text).unwrap_err().contains(expected), "{text}");
        }
        let file = Deadlines::parse_file("# loops\ncontrol = 50us # fast\n\n7us\n", micro).unwrap();
        assert_eq!(file, parse("control=50us,7us").unwrap());
        assert!(Deadlines::parse_file("a=1us\nb=\n", micro).unwrap_err().starts_with("line 2:"));
        assert!(Deadlines::parse_file("# nothing\n", micro).is_err());
    }
}
