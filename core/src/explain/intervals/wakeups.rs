//! From each waking to the switch-in.
//!
//! A waking of a thread that is on its CPU is not a wake-up. If another thread was switched in there last, the thread's
//! switch-in was not recorded, and only an upper limit of the latency is known: until it left again.

use super::unanswerable::{NO_SWITCH, NO_WAKE_UP};
use super::{Begun, Search};
use crate::explain::turns::{Came, TWICE};
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Level, Strings, TaskRef};

impl Search<'_> {
    /// A `sched_wakeup`: the start only if there is no `sched_waking` for it.
    pub(super) fn woken_at_last(&mut self, task: TaskRef, at: Mono) {
        self.comes_awake(task);
        if self.found.from_wakeup {
            return self.woken(task, at);
        }
        if self.by_thread.contains_key(&task.tid) || self.is_on(task.tid) || self.is_others(task) {
            return;
        }
        self.found.without_waking += 1;
        self.by_thread.insert(task.tid, Begun::new(at, task.tid, None));
    }

    fn comes_awake(&mut self, task: TaskRef) {
        let known = self.switched.entry(task.tid).or_default();
        known.name(task.comm);
        known.asleep_since = None;
    }

    /// Whether it is on a CPU, according to switches; false for a thread without a switch so far.
    fn is_on(&self, tid: Tid) -> bool {
        self.turns.has(tid)
            || self.switched.get(&tid).is_some_and(|known| known.was_switched && !known.is_off)
    }

    fn is_others(&self, task: TaskRef) -> bool {
        self.realtime && !is_realtime(task, self.normalizer.strings())
    }

    pub(super) fn woken(&mut self, task: TaskRef, at: Mono) {
        let tid = task.tid;
        self.comes_awake(task);
        if self.is_others(task) {
            return;
        }
        let begun = self.by_thread.get(&tid).filter(|begun| !begun.leaving).map(|begun| begun.at);
        if begun.is_some_and(|begun| at.since(begun) < TWICE) {
            return;
        }
        // A waiting thread is not woken again: if it is, its switch-in was not recorded.
        let is_off = |tid| self.switched.get(&tid).is_some_and(|known| known.is_off);
        if let Some(begun) = begun.filter(|_| is_off(tid)) {
            self.unseen_switch_in(tid, begun, at);
        }
        self.by_thread.insert(tid, Begun::new(at, tid, None));
    }

    pub(super) fn switched(&mut self, event: &Event, prev: Tid, left_as: LeftAs, next: Tid) {
        let came = self.turns.switch(event.cpu, prev, next, event.at);
        match came {
            Came::Again => return,
            Came::Unseen(tid) if !self.turns.has(tid) => self.switched.entry(tid).or_default().is_off = true,
            _ => {}
        }
        self.left(prev, left_as, &came, event.at);
        let asleep_since = self.switched.get_mut(&next).and_then(|known| known.asleep_since.take());
        if let Some(begun) = self.by_thread.remove(&next) {
            self.keep(begun, next, event);
        } else if let Kind::Switch { next, .. } = event.kind {
            self.waited_before(next, event.at);
            asleep_since.into_iter().for_each(|since| self.unseen_waking(next, since, event.at));
        }
    }

    /// A waking while it still ran is not a wake-up, unless it then slept and no other waking ends that sleep.
    fn left(&mut self, tid: Tid, left_as: LeftAs, came: &Came, at: Mono) {
        let Some(Begun { at: since, leaving, .. }) = self.by_thread.remove(&tid) else {
            if matches!(left_as, LeftAs::Blocked(_)) {
                self.switched.entry(tid).or_default().asleep_since = Some(at);
            }
            return;
        };
        let is_unseen = match came {
            Came::Unseen(_) => true,
            Came::First => since < self.lost_until,
            _ => false,
        };
        if is_unseen {
            self.unseen_switch_in(tid, since, at);
        } else if matches!(left_as, LeftAs::Blocked(_)) && !leaving {
            self.by_thread.insert(tid, Begun { leaving: true, ..Begun::new(at, tid, None) });
        }
    }

    /// Wake-ups not finished at the end of the trace: of threads that are not on a CPU, while each CPU runs another
    /// one.
    pub(super) fn unfinished(&mut self) {
        let Some((_, last)) = self.found.reach else { return };
        let open: Vec<Begun> = self.by_thread.drain().map(|(_, begun)| begun).collect();
        for begun in open {
            let known = self.switched.get(&begun.tid);
            let was_off = known.is_some_and(|known| known.was_switched && known.is_off);
            let never = !known.is_some_and(|known| known.was_switched) && self.all_cpus_known();
            if begun.leaving || !(was_off || never) || self.turns.has(begun.tid) || last <= begun.at {
                continue;
            }
            self.keep_unfinished(begun);
        }
    }

    /// A thread that still waits for a CPU when the trace ends.
    pub(super) fn keep_unfinished(&mut self, begun: Begun) {
        let Some((_, at)) = self.found.reach else { return };
        let tid = begun.tid;
        let cpu = self.aimed_at.get(&tid).copied().unwrap_or_default();
        let kind = Kind::Other { name: Default::default() };
        let end = Event { at, cpu, current: Some(tid), level: Level::Unsaid, kind };
        self.keep_until(begun, tid, &end, true);
    }

    /// Whether the running thread of every CPU is known from a switch.
    fn all_cpus_known(&self) -> bool {
        self.turns.known() == self.cpus.len() // a CPU with a switch is one with events
    }

    /// What the trace does not record, although it may declare the events.
    pub(super) fn unrecorded(&mut self) {
        let found = &mut self.found;
        // Its formats are those of all events of the kernel, not of the recorded ones.
        let declares_all = self.source.info().format.starts_with("trace.dat");
        let starts = ["sched_wakeup_new", "sched_process_fork"];
        let declares_starts =
            self.source.catalogue().classes().iter().any(|class| starts.contains(&&*class.name));
        found.may_be_new = !self.has_start && (declares_all || !declares_starts);
        if found.unanswerable.is_some() || found.events == 0 {
            return;
        }
        if declares_all && self.turns.known() == 0 {
            found.unanswerable = Some(NO_SWITCH);
        } else if !self.has_wakeup && (declares_all || found.waited_before + found.unseen_wakings > 0) {
            found.unanswerable = Some(NO_WAKE_UP);
        } else {
            return;
        }
        (found.waited_before, found.unseen_wakings) = (0, 0);
        (found.longest_waited_before, found.longest_unseen_waking) = (None, None);
        found.longest_realtime_before = None;
    }

    /// A switch-in without a wake-up: the thread waited since before the trace, woken or preempted, or it is new.
    pub(super) fn waited_before(&mut self, next: TaskRef, at: Mono) {
        let Some((first, _)) = self.found.reach else { return };
        if !self.is_first_switch || next.tid == Tid::IDLE || self.lost_until > Mono(0) || self.is_others(next)
        {
            return;
        }
        let least = at.since(first);
        if self.found.unanswerable.is_some() || least == Ns::ZERO {
            return;
        }
        if !self.is_selected(next.tid, first, at) {
            return;
        }
        let comm = next.comm.map_or("", |comm| self.normalizer.strings().get(comm)).to_owned();
        self.found.waited_before += 1;
        if is_realtime(next, self.normalizer.strings()) {
            self.found.longest_realtime_before = self.found.longest_realtime_before.max(Some(least));
        }
        if self.found.longest_waited_before.as_ref().is_none_or(|(known, ..)| *known < least) {
            self.found.longest_waited_before = Some((least, format!("{comm}/{}", next.tid), at));
        }
    }

    /// A thread that slept since then is switched in, and no wake-up is recorded in between.
    fn unseen_waking(&mut self, next: TaskRef, since: Mono, at: Mono) {
        if next.tid == Tid::IDLE
            || self.found.unanswerable.is_some()
            || self.lost_until > since
            || self.is_others(next)
            || !self.is_selected(next.tid, since, at)
        {
            return;
        }
        self.found.unseen_wakings += 1;
        let most = at.since(since);
        if self.found.longest_unseen_waking.as_ref().is_none_or(|(known, ..)| *known < most) {
            self.found.longest_unseen_waking = Some((most, self.name(next.tid), at));
        }
    }

    /// `tid`, woken at `since`, was switched in before `at`.
    fn unseen_switch_in(&mut self, tid: Tid, since: Mono, at: Mono) {
        if self.is_selected(tid, since, at) {
            self.found.unseen_switch_ins += 1;
            let most = (at.since(since), at);
            self.found.longest_unseen_switch_in = self.found.longest_unseen_switch_in.max(Some(most));
        }
    }
}

/// Whether it is a real-time thread, other than the kernel's stopper threads.
fn is_realtime(task: TaskRef, strings: &Strings) -> bool {
    let comm = task.comm.map_or("", |comm| strings.get(comm));
    let stops = ["migration/", "watchdog/", "stopper/"].iter().any(|start| comm.starts_with(start));
    task.prio.is_some_and(|prio| prio.is_realtime()) && !stops
}
