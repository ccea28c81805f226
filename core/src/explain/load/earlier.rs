//! The events before an interval: the newest ones, and of the older ones those that still hold at its start.
//!
//! A thread may sleep longer than the newest events reach back. Its system call, its switch-out and its armed timer are
//! kept, so that nothing recorded is reported as not recorded. Memory: the limit, and a few events per thread and timer.

use std::collections::VecDeque;

use crate::hash::HashMap;
use crate::time::{Mono, Tid};
use crate::trace::event::{Event, Kind, LeftAs};

/// Events in time order, at most `limit` and those that still hold.
pub(super) struct Earlier {
    limit: usize,
    newest: VecDeque<Event>,
    calls: HashMap<Tid, Event>,
    left: HashMap<Tid, Event>,
    woken: HashMap<Tid, Event>,
    timers: HashMap<u64, Event>,
}

impl Earlier {
    pub fn new(limit: usize) -> Earlier {
        let (calls, left, woken, timers) = Default::default();
        Earlier { limit, newest: VecDeque::new(), calls, left, woken, timers }
    }

    /// Adds the next event in time order. Cost: two hash operations at most, once `limit` events are kept.
    pub fn add(&mut self, event: Event) {
        self.newest.push_back(event);
        if self.newest.len() > self.limit
            && let Some(oldest) = self.newest.pop_front()
        {
            self.leave(oldest);
        }
    }

    fn leave(&mut self, event: Event) {
        match event.kind {
            Kind::SysEnter { .. } => _ = event.current.map(|tid| self.calls.insert(tid, event)),
            Kind::SysExit { .. } => _ = event.current.map(|tid| self.calls.remove(&tid)),
            Kind::Switch { prev, next, left_as } => {
                self.left.remove(&next.tid);
                self.woken.remove(&next.tid);
                match left_as {
                    _ if prev.tid == Tid::IDLE => {}
                    LeftAs::Dead => _ = (self.left.remove(&prev.tid), self.calls.remove(&prev.tid)),
                    _ => _ = self.left.insert(prev.tid, event),
                }
            }
            // The events that end them may be among the lost ones.
            Kind::Lost { .. } => {
                self.calls.clear();
                self.left.clear();
                self.woken.clear();
                self.timers.clear();
            }
            Kind::Waking { task, .. } => _ = self.woken.insert(task.tid, event),
            Kind::HrtimerStart { timer, .. } | Kind::WheelTimerStart { timer, .. } => {
                self.timers.insert(timer, event);
            }
            Kind::HrtimerCancel { timer }
            | Kind::TimerExpireEntry { timer, .. }
            | Kind::WheelExpireEntry { timer, .. } => _ = self.timers.remove(&timer),
            _ => {}
        }
    }

    /// All of them in time order, and the start of the complete record if older ones were left out.
    pub fn into_events(self) -> (VecDeque<Event>, Option<Mono>) {
        let is_cut = self.newest.len() == self.limit;
        let complete_from = self.newest.front().filter(|_| is_cut).map(|event| event.at);
        let by_thread = [self.calls, self.left, self.woken].into_iter().flat_map(HashMap::into_values);
        let mut held: Vec<Event> = by_thread.chain(self.timers.into_values()).collect();
        held.sort_by_key(|event| (event.at, event.cpu));
        let mut events = self.newest;
        for event in held.into_iter().rev() {
            events.push_front(event);
        }
        (events, complete_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::tests::{notation, told};

    /// The sleep of `rt` and of the one that wakes it started long before the newest events.
    const SLEEPS: &str = "
          0 c1 switch idle > waker/60@60
         10 c1 call 230 1 1 0
         11 c1 arm 5000
         12 c1 switch waker/60@60:S > idle
        100 c0 switch idle > rt/50@80
        110 c0 call 0 3 0 1
        112 c0 switch rt/50@80:S > other/70
       1000 c0 call 39
       1001 c0 ret 39
       1002 c0 call 39
       1003 c0 ret 39
       5001 c1 vec+ local_timer
       5002 c1 timer+ hrtimer_wakeup
       5003 c1 waking waker/60@60 c1
       5004 c1 timer-
       5005 c1 vec- local_timer
       5006 c1 switch idle > waker/60@60
       5008 c1 ret 230
       5020 c1 waking rt/50@80 c0
       5022 c0 switch other/70:R > rt/50@80
       5030 c0 ret 0
    ";

    #[test]
    fn lost_events_end_what_held_before_them() {
        let window = notation::window(SLEEPS);
        let mut earlier = Earlier::new(3);
        let lost = Event { kind: Kind::Lost { count: None, after: None }, ..window.events[8] };
        let events = window.events.iter().filter(|event| event.at < Mono(2_000_000)).copied();
        let (before, after): (Vec<Event>, Vec<Event>) = events.partition(|event| event.at < lost.at);
        before.into_iter().chain([lost]).chain(after).for_each(|event| earlier.add(event));
        // The call that ended is not kept, and none from before the loss.
        assert_eq!(earlier.into_events().0.len(), 3);
    }

    #[test]
    fn what_holds_since_long_before_an_interval_is_still_known_in_it() {
        let mut window = notation::window(SLEEPS);
        let whole = told(&window, 2_000, 5_025);
        let mut earlier = Earlier::new(3);
        for event in window.events.iter().filter(|event| event.at < Mono(2_000_000)) {
            earlier.add(*event);
        }
        let (kept, complete_from) = earlier.into_events();
        assert_eq!(complete_from, Some(Mono(1_001_000)));
        // Not the switches from idle: their threads were switched out again.
        assert_eq!(kept.len(), 3 + 6);
        let later = window.events.iter().filter(|event| event.at >= Mono(2_000_000));
        window.events = kept.into_iter().chain(later.copied()).collect();
        let explanation = told(&window, 2_000, 5_025);
        assert!(explanation.sentence.contains("as requested in"), "{}", explanation.sentence);
        assert_eq!(explanation.sentence, whole.sentence);
    }
}
