//! Which kinds of events a record has: the absence of an event proves something only where its kind is recorded.

use crate::trace::event::{Event, Kind};

/// System calls from this number on are markers of programs.
const OWN_CALLS: i32 = 512;

/// The kinds of events that are recorded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kinds {
    /// `sched_waking`. If not, `sched_wakeup` is used, which may be on another CPU than the waker.
    pub wakings: bool,
    /// `sched_switch`. If not, threads are known at their own events only.
    pub switches: bool,
    /// System calls of the kernel, not only markers.
    pub calls: bool,
    /// `sched_migrate_task`: a thread that starts to wait on one CPU and ends on another without it shows a loss.
    pub migrations: bool,
    /// Expiries of timers.
    pub timers: bool,
    /// Starts of timers.
    pub timer_starts: bool,
}

impl Kinds {
    /// The kinds of these events, in one pass.
    #[must_use]
    pub fn of(events: &[Event]) -> Kinds {
        let mut has = Kinds::default();
        for event in events {
            match event.kind {
                Kind::Waking { new: false, .. } => has.wakings = true,
                Kind::Switch { .. } => has.switches = true,
                Kind::Migrate { .. } => has.migrations = true,
                Kind::SysEnter { id, .. } => has.calls |= id < OWN_CALLS,
                Kind::TimerExpireEntry { .. } => has.timers = true,
                Kind::HrtimerStart { .. } => has.timer_starts = true,
                _ => {}
            }
        }
        has
    }
}
