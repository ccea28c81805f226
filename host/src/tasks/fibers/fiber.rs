//! A fiber under a thread of the set.

use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::program::{Program, Rule};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_runtime::policy::Refusal;
use lathunt_runtime::{lock_scheduler, this, Error};

use super::super::ground::{Due, Ground, Mark};
use super::super::locks::Refused;
use super::super::shared::Shared;
use super::tables::{Place, Tables};
use super::Crew;
use crate::clock;

/// Notes among the recorded events, with the release of the job.
pub(super) const BEGINS: u32 = 1;
/// See [`BEGINS`].
pub(super) const ENDS: u32 = 2;

/// Bytes written at once.
const AT_ONCE: usize = 64 << 10;

/// A fiber.
pub(super) struct Fiber {
    pub shared: Arc<Shared>,
    pub program: Arc<Program>,
    pub tables: Rc<Tables>,
    pub crew: Rc<Crew>,
    pub place: Rc<Place>,
    pub held: Vec<usize>,
    pub cpu: Cpu,
}

fn refused(error: Error) -> Refused {
    match error {
        Error::Refused(Refusal::Deadlock) => Refused::Deadlock,
        Error::Refused(refusal) => Refused::Runtime(refusal),
        _ => Refused::Stopped,
    }
}

impl Ground for Fiber {
    fn cpu_time(&self) -> Ns {
        Ns(this().and_then(|thread| thread.times()).map_or(0, |times| times.cpu))
    }

    fn cpu(&self) -> Cpu {
        self.cpu
    }

    fn expect(&mut self, due: Due) {
        match due {
            Due::At(release, deadline) => self.place.job(release, deadline),
            Due::OnSignal(deadline) => self.place.job_on_signal(deadline),
        }
    }

    fn sleep_until(&mut self, due: Mono) -> bool {
        while clock::mono() < due {
            if self.shared.stop.load(Ordering::Relaxed) || lathunt_runtime::sleep_until(due.0).is_err() {
                return false;
            }
        }
        true
    }

    /// Phases name only CPUs that are shared by all, and do not change the single scheduler of the set.
    fn enter(&mut self, _: Option<Rule>, _: Option<&CpuSet>) -> Result<(), String> {
        Ok(())
    }

    fn lock(&mut self, mutex: usize) -> Result<Option<Ns>, Refused> {
        let of_set = &self.tables.mutexes[mutex];
        let waited = match of_set.lock(Some(0)) {
            Ok(()) => None,
            Err(Error::Refused(Refusal::WouldBlock)) => {
                let begun = clock::mono();
                of_set.lock(None).map_err(refused)?;
                Some(clock::mono().since(begun))
            }
            Err(error) => return Err(refused(error)),
        };
        self.held.push(mutex);
        Ok(waited)
    }

    fn unlock(&mut self, mutex: usize) {
        if let Some(at) = self.held.iter().rposition(|held| *held == mutex) {
            self.held.remove(at);
            let _ = self.tables.mutexes[mutex].unlock(); // it is held
        }
    }

    fn held(&self) -> Option<usize> {
        self.held.last().copied()
    }

    fn join(&mut self, condition: usize) -> Result<(), Refused> {
        let _held = lock_scheduler();
        self.tables.conditions[condition].join(&self.place);
        Ok(())
    }

    fn sleep(&mut self) -> Option<Mono> {
        self.place.sleep()
    }

    fn signal(&mut self, condition: usize) -> Result<(), Refused> {
        let _held = lock_scheduler();
        self.tables.conditions[condition].signal(clock::mono());
        Ok(())
    }

    fn broadcast(&mut self, condition: usize) -> Result<(), Refused> {
        let _held = lock_scheduler();
        self.tables.conditions[condition].broadcast(clock::mono());
        Ok(())
    }

    fn barrier(&mut self, barrier: usize) -> Result<Option<Mono>, Refused> {
        let held = lock_scheduler();
        let at = clock::mono();
        let is_last = self.tables.barriers[barrier].arrive(&self.place, at);
        drop(held);
        Ok(if is_last { Some(at) } else { self.place.sleep() })
    }

    fn post(&mut self, semaphore: usize) -> Result<bool, Refused> {
        let _held = lock_scheduler();
        Ok(self.tables.semaphores[semaphore].post(clock::mono()))
    }

    fn take(&mut self, semaphore: usize) -> Result<Option<Mono>, Refused> {
        let held = lock_scheduler();
        let time = self.tables.semaphores[semaphore].take(&self.place);
        drop(held);
        Ok(time.or_else(|| self.place.sleep()))
    }

    fn yield_now(&mut self) {
        lathunt_runtime::yield_now();
    }

    fn fork(&mut self, task: usize) -> Result<(), String> {
        self.crew.fork(&self.shared, &self.program, &self.tables, task)
    }

    fn mark(&mut self, mark: Mark) {
        let (kind, release, late) = match mark {
            Mark::Begins(release) => (BEGINS, release, false),
            Mark::Ends { release, late } => (ENDS, release, late),
        };
        let _ = lathunt_runtime::note(kind, release.0);
        if late {
            // The events before the first late job are those that explain it.
            let _ = lathunt_runtime::stop_recording();
        }
    }

    fn write(&mut self, buffer: &[u8], bytes: u64) -> std::io::Result<bool> {
        let Some(device) = &self.shared.device else { return Ok(true) };
        let mut left = bytes;
        while left > 0 && !buffer.is_empty() {
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let now = buffer.len().min(AT_ONCE).min(usize::try_from(left).unwrap_or(usize::MAX));
            // SAFETY: the buffer lives on while this fiber waits for the write.
            let written = unsafe { lathunt_runtime::io::write(device.as_raw_fd(), buffer.as_ptr(), now) };
            match written {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(written) => left -= written as u64,
                Err(libc::ECANCELED) => return Ok(false),
                Err(libc::EINTR) => {}
                Err(error) => return Err(std::io::Error::from_raw_os_error(error)),
            }
        }
        Ok(true)
    }
}
