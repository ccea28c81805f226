//! Kernel events of a late answer: copied out of the flight rings of all CPUs when the round trip is over.
//!
//! Nothing is frozen: the measuring thread queues its round trips ([`super::trips`]), and the collector reads the rings a few
//! ms later. A ring holds 4096 events of a CPU; if it was overwritten by then, the explanation says from when on events are
//! known.

use std::sync::Arc;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::explain::Explanation;
use lathunt_core::peak::Worst;
use lathunt_core::run::Loss;
use lathunt_core::time::{Mono, Ns, Tid};
use lathunt_core::trace::activation::Activation;
use lathunt_core::trace::syscall_names::SyscallTable;
use lathunt_core::trace::window::Window;

use super::trips::Trip;
use crate::error::Result;
use crate::recorder::{self, Recorder};
use crate::recording::Packed;
use crate::symbols::Symbols;

/// How long before the begin events are read: locks may have been taken then.
const BEFORE: Ns = Ns::from_ms(5);

/// The recorder of the kernel's events.
pub struct Evidence {
    recorder: Recorder,
    symbols: Symbols,
    preemption: Option<String>,
    overwritten: u64,
}

/// Events of all CPUs around a moment.
pub type Rings = Arc<Packed>;

impl Evidence {
    /// Loads and attaches: tens of ms, before threads measure. `activations`: record those of the threads of
    /// [`Evidence::watch`]. `preemption` is the kernel's model, for the wording of causes.
    ///
    /// # Errors
    /// One line: what the kernel refuses or lacks.
    pub fn start(cpus: CpuSet, preemption: Option<String>, activations: bool) -> Result<Evidence> {
        let options =
            recorder::Options { tids: Some(Vec::new()), activations, ..recorder::Options::on(cpus) };
        let recorder = Recorder::start(&options)?;
        let symbols = Symbols::read().unwrap_or_else(|_| Symbols::none()).with_code();
        Ok(Evidence { recorder, symbols, preemption, overwritten: 0 })
    }

    /// Drains unrequested events, so that the rings do not fill up. Call it every few ms, then [`Evidence::since`].
    pub fn poll(&mut self) {
        self.recorder.poll_each(drop);
    }

    /// Records the activations of this thread too.
    ///
    /// # Errors
    /// If the map of followed threads is full.
    pub fn watch(&self, tid: Tid) -> Result<()> {
        self.recorder.watch(tid).map(drop)
    }

    /// The activations that ended since the last call.
    pub fn activations(&mut self, see: impl FnMut(&Activation)) {
        self.overwritten += self.recorder.activations(see);
    }

    /// The events since shortly before `from`; takes some ms.
    #[must_use]
    pub fn since(&self, from: Mono) -> Rings {
        Arc::new(Packed::new(self.recorder.peek(Mono(from.0.saturating_sub(BEFORE.0)))))
    }

    /// The explanation of the events; takes some ms.
    ///
    /// # Errors
    /// If the record is damaged.
    pub fn explain(
        &self,
        rings: &Rings,
        explain: impl FnOnce(&mut Window) -> Explanation,
    ) -> std::result::Result<Explanation, String> {
        let mut frozen = rings.unpacked();
        frozen.note_code(&self.symbols);
        let damaged = |damage| format!("its flight record is damaged: {damage}");
        let mut window = frozen.decode(&self.symbols).map_err(damaged)?;
        window.preemption.clone_from(&self.preemption);
        window.syscalls = SyscallTable::of_machine(std::env::consts::ARCH);
        Ok(explain(&mut window))
    }

    /// Lost evidence so far; every round trip is in the figures.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = self.recorder.losses();
        let meaning = "activations overwritten before they were read: cases without their waking".to_owned();
        let counter = "activations_overwritten".to_owned();
        let count = self.overwritten;
        losses.extend((count > 0).then_some(Loss { counter, count, meaning, evidence_only: true }));
        losses.iter_mut().for_each(|loss| loss.evidence_only = true);
        losses
    }

    /// Events that this kernel cannot record, one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.recorder.notes()
    }
}

/// The worst round trips of one channel with the kernel events during each, if recorded.
pub struct Book<T> {
    worst: Worst<(T, Option<Rings>)>,
}

impl<T> Book<T> {
    /// Keeps the `limit` worst.
    #[must_use]
    pub fn new(limit: usize) -> Book<T> {
        Book { worst: Worst::new(limit) }
    }

    /// Adds finished cases: (how long, since when, the rest). `since` is called once for all of them.
    pub fn take(
        &mut self,
        cases: impl Iterator<Item = (Ns, Mono, T)>,
        since: impl FnOnce(Mono) -> Option<Rings>,
    ) {
        let mut fresh: Vec<(Ns, Mono, T)> =
            cases.filter(|(total, ..)| self.worst.would_keep(*total)).collect();
        let Some(first) = fresh.iter().map(|(_, begin, _)| *begin).min() else { return };
        fresh.sort_by_key(|(total, ..)| std::cmp::Reverse(*total));
        let rings = since(first);
        for (total, _, case) in fresh {
            drop(self.worst.offer(total, (case, rings.clone())));
        }
    }

    /// The cases, the worst first.
    pub fn cases(&self) -> impl Iterator<Item = (Ns, &T, Option<&Rings>)> {
        self.worst.iter().map(|(total, (case, rings))| (*total, case, rings.as_ref()))
    }
}

impl Book<Trip> {
    /// The case of stimulus `sequence`.
    #[must_use]
    pub fn of(&self, sequence: u64) -> Option<(&Trip, &Rings)> {
        let (_, trip, rings) = self.cases().find(|(_, trip, _)| trip.sequence == sequence)?;
        Some((trip, rings?))
    }
}
