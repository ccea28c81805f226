//! Response time of a chain of threads that wake each other, `--chain A,B,C`: from the release of A to the end of C.
//!
//! A job of A wakes B and thereby starts a job of B, which wakes C. The response time is from A's release to the end of
//! C's job; if a job starts several, the last end counts. Wake-ups link jobs. If a job of A starts none of B because B was
//! at work, the two activations are a batch (`link`): its ends may be known only within limits. If B was not at work (it
//! polls memory by its own timer, or A gave it nothing), the activation counts as broken. Activations in progress when the
//! recording started or ended count as cut off.
//!
//! Memory: about [`KEPT`] jobs per stage; when a stage is full, the jobs of all stages that were released before its
//! middle one are linked and dropped.

mod link;

use serde::{Deserialize, Serialize};

use self::link::End;
use super::sums::layout;
use super::Task;
use crate::glob::fits;
use crate::histogram::Histogram;
use crate::series::{Quantity, Series, Thread};
use crate::time::{Mono, Ns, Tid};

/// Jobs kept per stage.
const KEPT: usize = 1 << 16;

/// Coverage of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Followed {
    /// Activations of the first thread that could not be followed to the end of the last one.
    pub broken: u64,
    /// Of these, those whose last link is before this stage: one number for each stage after the first.
    pub broken_before: Vec<u64>,
    /// Activations without an own end: a stage was still at work at an earlier one when it got this one, or a later one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued: u64,
    /// Of these, those that missed the deadline at their earliest possible end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued_late: u64,
    /// The longest of them took at least this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at_least_ns: Option<Ns>,
    /// None of them took longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at_most_ns: Option<Ns>,
    /// Not counted: in progress when the recording started or ended.
    pub cut_off: u64,
    /// Threads of the chain.
    pub threads: Vec<Tid>,
    /// Parts of the longest activation, one for each stage: until it woke the next one; of the last one, until its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst_ns: Vec<Ns>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A job of a thread of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub tid: Tid,
    /// The thread that released it; `None`: a timer or an interrupt.
    pub waker: Option<Tid>,
    pub waking: Mono,
    pub begin: Mono,
    pub end: Mono,
}

#[derive(Clone, Default)]
struct Stage {
    pattern: String,
    /// Its threads.
    threads: Vec<Tid>,
    /// When the first recorded activation of one of its threads ended.
    known_from: Option<Mono>,
    jobs: Vec<Seen>,
}

/// State of one chain.
#[derive(Clone)]
pub(super) struct Chain {
    stages: Vec<Stage>,
    followed: Followed,
    histogram: Option<Histogram>,
    misses: u64,
    most: Option<Ns>,
    /// Latest known time.
    now: Mono,
}

impl Chain {
    /// `names`: patterns of thread names, in the order in which they wake each other.
    pub fn new(names: &[String]) -> Chain {
        let stages: Vec<Stage> =
            names.iter().map(|name| Stage { pattern: name.clone(), ..Stage::default() }).collect();
        let followed =
            Followed { broken_before: vec![0; names.len().saturating_sub(1)], ..Followed::default() };
        Chain { stages, followed, histogram: None, misses: 0, most: None, now: Mono(0) }
    }

    /// The name in reports, `A>B>C`.
    pub fn name(&self) -> String {
        self.stages.iter().map(|stage| stage.pattern.as_str()).collect::<Vec<_>>().join(">")
    }

    /// An activation of a thread of this name ended at `blocked`.
    pub fn blocked(&mut self, comm: &str, tid: Tid, blocked: Mono) {
        self.now = self.now.max(blocked);
        for stage in self.stages.iter_mut().filter(|stage| fits(&stage.pattern, comm)) {
            let first = stage.known_from.map_or(blocked, |known| known.min(blocked));
            stage.known_from = Some(first);
            if !stage.threads.contains(&tid) {
                stage.threads.push(tid);
            }
        }
    }

    /// The recording ended.
    pub fn ends(&mut self, end: Mono) {
        self.now = self.now.max(end);
    }

    /// Finished jobs of a thread of this name; `deadline`: that of the chain.
    pub fn add(&mut self, comm: &str, jobs: &[Seen], deadline: Option<Ns>) {
        for stage in self.stages.iter_mut().filter(|stage| fits(&stage.pattern, comm)) {
            stage.jobs.extend_from_slice(jobs);
        }
        let full = self.stages.iter().find(|stage| stage.jobs.len() >= KEPT);
        if let Some(full) = full {
            let middle = full.jobs[KEPT / 2].begin;
            self.link(Some(middle), deadline);
        }
    }

    /// Links the jobs released before `until`, and drops them; `None`: all.
    fn link(&mut self, until: Option<Mono>, deadline: Option<Ns>) {
        for stage in &mut self.stages {
            // By waker, then by time of the waking.
            stage.jobs.sort_by_key(|job| (job.waker, job.waking));
        }
        let known_from = self.stages.iter().map(|stage| stage.known_from.unwrap_or(Mono(u64::MAX))).max();
        let is_due = |job: &Seen| until.is_none_or(|until| job.begin < until);
        let Some((first, rest)) = self.stages.split_first() else { return };
        let mut first: Vec<Seen> = first.jobs.clone();
        first.sort_by_key(|job| job.begin);
        let ends = link::ends(&first, rest, known_from.unwrap_or(Mono(0)));
        let due: Vec<(&Seen, End)> =
            first.iter().zip(ends.iter().copied()).filter(|(job, _)| is_due(job)).collect();
        let of_one = |&(job, end): &(&Seen, End)| match end {
            End::At(end) => Some((end.since(job.begin), *job)),
            End::Between(..) | End::Broken(_) => None,
        };
        let longest = due.iter().filter_map(of_one).max_by_key(|(length, _)| *length);
        let worst = longest.map(|(length, job)| (length, parts_of(job.begin, &job, rest)));
        for (job, end) in due {
            match end {
                End::At(end) => self.record(end.since(job.begin), deadline),
                // Not late yet if the recording ended before its deadline.
                _ if known_from.is_some_and(|known| job.begin < known) => self.followed.cut_off += 1,
                End::Between(from, until) => {
                    self.followed.queued(from.since(job.begin), until.since(job.begin), deadline);
                }
                End::Broken(_) if deadline.is_some_and(|deadline| self.now.since(job.begin) <= deadline) => {
                    self.followed.cut_off += 1;
                }
                End::Broken(stage) => {
                    self.followed.broken += 1;
                    self.followed.broken_before[stage] += 1;
                }
            }
        }
        if let Some((length, parts)) =
            worst.filter(|(length, _)| *length > self.followed.worst_ns.iter().copied().sum())
            && self.histogram.as_ref().and_then(Histogram::max) == Some(length)
        {
            // The parts of one that has no wake-up are not known.
            let parts = parts.filter(|parts| parts.iter().copied().sum::<Ns>() == length);
            self.followed.worst_ns = parts.unwrap_or_default();
        }
        for stage in &mut self.stages {
            stage.jobs.retain(|job| until.is_some_and(|until| job.begin >= until));
        }
    }

    fn record(&mut self, response: Ns, deadline: Option<Ns>) {
        self.histogram.get_or_insert_with(|| Histogram::of_few(layout())).record(response);
        if let Some(deadline) = deadline.filter(|&deadline| response > deadline) {
            self.misses += 1;
            self.most = self.most.max(Some(response.saturating_sub(deadline)));
        }
    }

    /// The chain as a task with the response times of the chain. `tasks`: the recorded threads; one of the chain that may
    /// poll for its job does so within the response times of the chain.
    pub fn report(&self, deadline: Option<Ns>, tasks: &[Task]) -> Task {
        let mut whole = self.clone();
        whole.link(None, deadline);
        whole.followed.threads = whole.stages.iter().flat_map(|stage| stage.threads.clone()).collect();
        let thread = Thread { tid: Tid(0), comm: self.name(), prio: None };
        let series = whole.histogram.map(|histogram| {
            let mut series = Series::new(Quantity::Response, None, histogram);
            series.thread = Some(thread.clone());
            series.missed = Some(0);
            series
        });
        let activations = series.as_ref().map_or(0, |series| series.histogram.count());
        let first = self.stages.first().map(|stage| stage.threads.as_slice()).unwrap_or_default();
        let of = |tids: &[Tid], figure: fn(&Task) -> Option<Ns>| {
            let inferred = tasks.iter().filter(|task| !task.is_chosen && tids.contains(&task.thread.tid));
            inferred.filter_map(figure).max()
        };
        // It was released with its first thread.
        let unfinished = tasks.iter().filter(|task| first.contains(&task.thread.tid));
        let unfinished =
            unfinished.filter_map(|task| task.unfinished.clone()).max_by_key(|last| last.after_ns);
        let polls_from_ns = of(&whole.followed.threads, |task| task.polls_from_ns);
        let polls_every_ns = of(first, |task| task.polls_every_ns);
        let released = tasks.iter().filter(|task| first.contains(&task.thread.tid));
        Task {
            thread,
            is_chosen: true,
            deadline_ns: deadline,
            misses: whole.misses + whole.followed.queued_late,
            miss_max_ns: whole.most,
            activations,
            series: series.into_iter().collect(),
            chain: Some(whole.followed),
            unfinished,
            stopped_ns: None,
            polls_from_ns,
            polls_every_ns,
            rounded_ns: released.filter_map(|task| task.rounded_ns).max(),
            ..Task::default()
        }
    }
}

impl Task {
    /// Of a chain: the number of activations that missed `deadline` behind an earlier one, and a lower limit of the longest.
    #[must_use]
    pub fn queued_beyond(&self, deadline: Ns) -> Option<(u64, Ns)> {
        let chain = self.chain.as_ref().filter(|_| !self.is_release_in_doubt(deadline))?;
        let least = chain.queued_at_least_ns.filter(|&least| least > deadline)?;
        Some((chain.queued_late.max(1), least))
    }
}

impl Followed {
    /// An activation took at least `from` and at most `until`.
    fn queued(&mut self, from: Ns, until: Ns, deadline: Option<Ns>) {
        self.queued += 1;
        self.queued_late += u64::from(deadline.is_some_and(|deadline| from > deadline));
        self.queued_at_least_ns = self.queued_at_least_ns.max(Some(from));
        self.queued_at_most_ns = self.queued_at_most_ns.max(Some(until));
    }
}

/// End of the last job that `job` started in the last of `stages`; `None`: it did not reach it.
fn end_of(job: &Seen, stages: &[Stage]) -> Option<Mono> {
    let Some((next, rest)) = stages.split_first() else { return Some(job.end) };
    next.started_by(job).filter_map(|one| end_of(&next.jobs[one], rest)).max()
}

/// The parts of the time from `since` to that end, one for the stage of `job` and for each later one.
fn parts_of(since: Mono, job: &Seen, stages: &[Stage]) -> Option<Vec<Ns>> {
    let Some((next, rest)) = stages.split_first() else { return Some(vec![job.end.since(since)]) };
    let last = next.started_by(job).map(|one| &next.jobs[one]).max_by_key(|one| end_of(one, rest))?;
    let mut parts = vec![last.waking.since(since)];
    parts.extend(parts_of(last.waking, last, rest)?);
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::super::unfinished::{State, Unfinished};
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(tid: i32, waker: Option<i32>, begin: u64, end: u64) -> Seen {
        let (waking, begin, end) = (Mono(begin * MS), Mono(begin * MS), Mono(end * MS));
        Seen { tid: Tid(tid), waker: waker.map(Tid), waking, begin, end }
    }

    /// Ten activations of 100 ms: `a` from 0 to 15, wakes `b` at 14, which wakes `c` at 30.
    fn chain(leave_out: Option<u64>, wakes: i32) -> Task {
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut chain = Chain::new(&names);
        for (tid, name) in (1..).zip(&names) {
            chain.blocked(name, Tid(tid), Mono(0));
        }
        for k in 1..=10 {
            let r = k * 100;
            chain.add("c", &[seen(3, Some(2), r + 30, r + 60)], None);
            if Some(k) != leave_out {
                chain.add("b", &[seen(2, Some(wakes), r + 14, r + 35)], None);
            }
            chain.add("a", &[seen(1, None, r, r + 15)], None);
        }
        chain.blocked("a", Tid(1), Mono(2_000 * MS));
        chain.report(Some(Ns(40 * MS)), &[])
    }

    #[test]
    fn late_jobs_of_a_chain_with_a_thread_that_may_poll_are_in_doubt() {
        let mut chain = Chain::new(&["a", "b"].map(str::to_owned));
        chain.blocked("a", Tid(1), Mono(0));
        chain.blocked("b", Tid(2), Mono(0));
        for k in 1..=10 {
            let r = k * 100;
            chain.add("a", &[seen(1, None, r, r + 51)], None);
            chain.add("b", &[seen(2, Some(1), r + 50, r + 52)], None);
        }
        let deadline = Ns(40 * MS);
        let of = |tid, is_chosen| {
            let mut polls = Task::default();
            polls.thread.tid = Tid(tid);
            (polls.polls_from_ns, polls.is_chosen) = (Some(Ns(9)), is_chosen);
            chain.report(Some(deadline), &[polls])
        };
        for tid in [1, 2] {
            assert!(of(tid, false).is_late_by_doubt_alone(deadline));
            assert!(!of(tid, true).is_late_by_doubt_alone(deadline), "its jobs start at its wait");
        }
        assert!(!of(3, false).is_late_by_doubt_alone(deadline), "not in the chain");
    }

    #[test]
    fn a_chain_takes_from_the_first_release_to_the_last_end_and_each_late_one_is_counted() {
        let task = chain(None, 1);
        let response = &task.of(Quantity::Response).unwrap().histogram;
        assert_eq!((response.count(), response.max()), (10, Some(Ns(60 * MS))));
        assert_eq!((task.misses, task.miss_max_ns), (10, Some(Ns(20 * MS))));
        assert_eq!(task.chain.unwrap().broken, 0);
        assert_eq!(task.thread.to_string(), "a>b>c");
        assert_eq!(chain(None, 1).chain.unwrap().worst_ns, [14, 16, 30].map(Ns::from_ms));
    }

    #[test]
    fn an_activation_whose_link_is_not_seen_is_counted_with_the_stage_that_it_did_not_reach() {
        let task = chain(Some(4), 1);
        let followed = task.chain.unwrap();
        assert_eq!((task.activations, followed.broken, followed.broken_before), (9, 1, vec![1, 0]));
        let followed = chain(None, 9).chain.unwrap();
        assert_eq!((followed.broken, followed.broken_before), (10, vec![10, 0]), "somebody else wakes b");
    }

    #[test]
    fn a_turn_that_begins_several_lasts_until_the_last_of_them_ends_and_needs_them_all() {
        let mut chain = Chain::new(&["a", "b"].map(str::to_owned));
        chain.blocked("a", Tid(1), Mono(0));
        chain.blocked("b", Tid(2), Mono(0));
        chain.add("a", &[seen(1, None, 100, 120)], None);
        chain.add("b", &[seen(2, Some(1), 105, 110), seen(2, Some(1), 115, 150)], None);
        let report = chain.report(None, &[]);
        assert_eq!(report.of(Quantity::Response).unwrap().histogram.max(), Some(Ns(50 * MS)));
        assert_eq!(report.chain.unwrap().worst_ns, [15, 35].map(Ns::from_ms));
    }

    /// 40 activations of 10 ms, in time; `jobs` replaces the jobs of b and c of `activations` of them, from the 30th on.
    fn with_backlog(jobs: &[(i32, u64, u64)], activations: u64) -> Task {
        let mut chain = Chain::new(&["a", "b", "c"].map(str::to_owned));
        for (tid, name) in (1..).zip(["a", "b", "c"]) {
            chain.blocked(name, Tid(tid), Mono(0));
        }
        for k in 1..=40 {
            let r = k * 10;
            chain.add("a", &[seen(1, None, r, r + 1)], None);
            if !(30..30 + activations).contains(&k) {
                chain.add("b", &[seen(2, Some(1), r + 1, r + 3)], None);
                chain.add("c", &[seen(3, Some(2), r + 2, r + 6)], None);
            }
        }
        for &(tid, begin, end) in jobs {
            chain.add(if tid == 2 { "b" } else { "c" }, &[seen(tid, Some(tid - 1), begin, end)], None);
        }
        chain.blocked("a", Tid(1), Mono(2_000 * MS));
        chain.report(Some(Ns(8 * MS)), &[])
    }

    fn of_backlog(task: &Task) -> (u64, u64, u64, Option<u64>) {
        let chain = task.chain.as_ref().unwrap();
        let most = task.of(Quantity::Response).unwrap().histogram.max().map(|max| max.0 / MS);
        assert_eq!(chain.broken, 0, "{chain:?}");
        (task.activations, chain.queued, task.misses, most)
    }

    #[test]
    fn a_stage_that_takes_its_next_job_without_a_wait_links_the_jobs_in_their_order() {
        // b works from 301 to 314, for two activations; each wakes c.
        let task = with_backlog(&[(2, 301, 314), (3, 311, 313), (3, 314, 317)], 2);
        assert_eq!(of_backlog(&task), (40, 0, 1, Some(13)));
        // c has one job for both: the first ended in it, no sooner than b woke it.
        let task = with_backlog(&[(2, 301, 314), (3, 311, 317)], 2);
        assert_eq!(of_backlog(&task), (39, 1, 1, Some(7)), "310 to 317");
        let chain = task.chain.unwrap();
        let limits = (chain.queued_late, chain.queued_at_least_ns, chain.queued_at_most_ns);
        assert_eq!(limits, (1, Some(Ns(11 * MS)), Some(Ns(17 * MS))));
        // c is at work when b passes the next two on to it.
        let task = with_backlog(&[(2, 301, 303), (3, 302, 326), (2, 311, 313), (2, 321, 323)], 3);
        assert_eq!(of_backlog(&task), (38, 2, 0, Some(6)), "320 to 326");
        assert_eq!(task.chain.unwrap().queued_at_most_ns, Some(Ns(26 * MS)));
    }

    #[test]
    fn activations_that_share_jobs_are_unknown_where_some_start_none() {
        // b wakes c for every second activation only.
        let mut chain = Chain::new(&["a", "b", "c"].map(str::to_owned));
        for (tid, name) in (1..).zip(["a", "b", "c"]) {
            chain.blocked(name, Tid(tid), Mono(0));
        }
        for k in 1..=40 {
            let r = k * 10;
            chain.add("a", &[seen(1, None, r, r + 1)], None);
            if k != 30 && k != 31 {
                chain.add("b", &[seen(2, Some(1), r + 1, r + 3)], None);
                (k % 2 == 0).then(|| chain.add("c", &[seen(3, Some(2), r + 2, r + 6)], None));
            }
        }
        chain.add("b", &[seen(2, Some(1), 301, 314)], None);
        chain.add("c", &[seen(3, Some(2), 311, 315)], None);
        chain.blocked("a", Tid(1), Mono(2_000 * MS));
        let task = chain.report(Some(Ns(8 * MS)), &[]);
        let chain = task.chain.unwrap();
        assert_eq!((task.activations, chain.broken, chain.queued, task.misses), (19, 19, 2, 0));
        let limits = (chain.queued_at_least_ns, chain.queued_at_most_ns);
        assert_eq!(limits, (Some(Ns(5 * MS)), Some(Ns(15 * MS))), "315 is the end of one of them");
    }

    #[test]
    fn many_turns_take_no_more_room_and_none_is_forgotten() {
        let mut chain = Chain::new(&["a", "b"].map(str::to_owned));
        chain.blocked("a", Tid(1), Mono(0));
        chain.blocked("b", Tid(2), Mono(0));
        for k in 1..200_000 {
            chain.add("a", &[seen(1, None, k * 10, k * 10 + 2)], None);
            chain.add("b", &[seen(2, Some(1), k * 10 + 1, k * 10 + 4)], None);
            assert!(chain.stages.iter().all(|stage| stage.jobs.len() <= KEPT));
        }
        let task = chain.report(None, &[]);
        assert_eq!((task.activations, task.chain.unwrap().broken), (199_999, 0));
    }

    #[test]
    fn a_chain_whose_first_thread_is_not_finished_at_the_end_is_not_finished() {
        let last = |state| Unfinished {
            state,
            since: Mono(0),
            after_ns: Ns(50 * MS),
            place: None,
            out_of_quota: false,
            locked_ns: None,
        };
        let with = |tid, state, deadline| {
            let mut task = Task::default();
            (task.thread.tid, task.unfinished) = (Tid(tid), Some(last(state)));
            let mut chain = Chain::new(&["a".to_owned(), "b".to_owned()]);
            chain.blocked("a", Tid(1), Mono(0));
            chain.blocked("b", Tid(2), Mono(0));
            chain.add("b", &[seen(2, Some(1), 114, 120)], None);
            chain.add("a", &[seen(1, None, 100, 115)], None);
            chain.report(Some(Ns(deadline * MS)), &[task]).late_end().map(|end| end.after_ns)
        };
        for state in [State::Waits, State::Runs, State::Preempted] {
            assert_eq!(with(1, state, 40), Some(Ns(50 * MS)));
            assert_eq!(with(1, state, 50), None, "not late yet");
            assert_eq!(with(2, state, 40), None, "the activation is broken or cut off");
        }
        assert!(with(1, State::Blocked, 40).is_some(), "it may have left its loop, or not");
    }

    #[test]
    fn what_began_before_all_were_seen_or_goes_on_at_the_end_is_cut_off() {
        let mut chain = Chain::new(&["a", "b"].map(str::to_owned));
        chain.blocked("a", Tid(1), Mono(0));
        chain.add("a", &[seen(1, None, 10, 12), seen(1, None, 990, 992)], None);
        chain.blocked("b", Tid(2), Mono(50 * MS));
        chain.blocked("a", Tid(1), Mono(1_000 * MS));
        let followed = chain.report(Some(Ns(40 * MS)), &[]).chain.unwrap();
        assert_eq!((followed.cut_off, followed.broken), (2, 0));
    }
}
