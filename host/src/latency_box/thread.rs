//! A thread of the box or the responder: its CPU and priority.

use std::os::unix::thread::JoinHandleExt;
use std::sync::{mpsc, Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lathunt_core::time::Cpu;

use crate::error::{Error, Result};
use crate::sched::{self, Policy};
use crate::signals;

/// CPU and priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The CPU it is bound to; `None`: any.
    pub cpu: Option<Cpu>,
    /// SCHED_FIFO priority; 0 is an ordinary thread.
    pub priority: i32,
}

impl Place {
    /// Sets the calling thread up.
    ///
    /// # Errors
    /// If the CPU or the priority is refused.
    pub(super) fn take(self) -> Result<()> {
        if let Some(cpu) = self.cpu {
            sched::pin(cpu)?;
        }
        sched::prefault_stack();
        // An ordinary thread's sleep is 50 µs longer without this.
        // SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        match self.priority {
            0 => Ok(()),
            priority => sched::set_policy(Policy::Fifo, priority),
        }
    }

    /// Changes by other processes to the calling thread since [`Place::take`]; three system calls, at its end. A change that
    /// was undone in between is not seen.
    fn changed(self) -> Option<String> {
        let bound = self.cpu.is_none_or(|cpu| sched::affinity().map_or(true, |cpus| cpus.iter().eq([cpu])));
        let moved = self.cpu.filter(|_| !bound).map(|cpu| format!("it was moved away from CPU {cpu}"));
        let lowered = sched::changed_from(Policy::Fifo, self.priority).filter(|_| self.priority > 0);
        moved.or_else(|| {
            lowered.map(|how| format!("another process changed its scheduling: it ended as {how}"))
        })
    }
}

/// A thread that can be asked to end.
pub(crate) struct Worker<T> {
    handle: Option<JoinHandle<Option<T>>>, // `None`: its place was refused
    changed: Arc<OnceLock<String>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts `work` in a thread at `place`; returns when it is set up. All signals except the one that ends a blocked call
    /// are blocked there.
    ///
    /// # Errors
    /// If the place is refused; no thread keeps running then.
    pub(crate) fn start(
        name: &str,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Worker<T>> {
        let _blocked = signals::Blocked::all_but_wake()?;
        let (ready, is_ready) = mpsc::sync_channel(1);
        let changed = Arc::new(OnceLock::new());
        let (found, own_name) = (Arc::clone(&changed), name.to_owned());
        let body = move || {
            let set_up = place.take();
            let failed = set_up.is_err();
            let _ = ready.send(set_up);
            let done = (!failed).then(work)?;
            if let Some(how) = place.changed() {
                let _ = found.set(format!("{own_name}: {how}"));
            }
            Some(done)
        };
        let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
        let handle =
            builder.spawn(body).map_err(|error| Error::new("start", format!("thread {name}"), error))?;
        match is_ready.recv() {
            Ok(set_up) => set_up.map(|()| Worker { handle: Some(handle), changed }),
            Err(_) => Err(Error::refused("start", format!("thread {name}"), "it ended at once")),
        }
    }

    /// Changes by other processes to its CPUs or scheduling; once it has ended.
    pub(super) fn changed(&self) -> Option<String> {
        self.changed.get().cloned()
    }

    /// Whether it has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Interrupts a call that it is blocked in.
    pub(super) fn kick(&self) {
        if let Some(handle) = self.handle.as_ref().filter(|handle| !handle.is_finished()) {
            // SAFETY: the thread was not joined yet, so that its id is valid.
            unsafe { libc::pthread_kill(handle.as_pthread_t(), signals::wake_signal()) };
        }
    }

    /// Interrupts it until it ends, for at most `limit`. A thread that the kernel blocks for longer is abandoned: `None`.
    pub(crate) fn end(&mut self, limit: Duration) -> Option<T> {
        let begun = Instant::now();
        while !self.is_finished() {
            if begun.elapsed() > limit {
                self.handle = None;
                return None;
            }
            self.kick();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.handle.take().and_then(|handle| handle.join().ok()?)
    }
}
