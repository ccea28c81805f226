//! Idle states during a hunt: unchanged, limited throughout, or limited in every second round for comparison.
//!
//! By default a hunt does not change them: it measures the machine as configured. cyclictest holds /dev/cpu_dma_latency at
//! 0, and so may measure less.

use std::path::Path;

use anyhow::{bail, Result};
use lathunt_core::conditions::{Conditions, IdleState};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::idle::IdleComparison;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::clock;
use lathunt_host::cpuidle::{self, Disabled};
use lathunt_host::facts::idle;
use lathunt_host::instrument::cyclic::halves::{halves, CurrentHalf, InHalves};
use lathunt_host::instrument::cyclic::Hooks;
use lathunt_host::pm_qos::{self, Held};
use lathunt_host::tree::Tree;

/// After a change of the limit samples belong to neither kind: a CPU leaves its idle state only by an interrupt.
const SETTLING: Ns = Ns::from_ms(20);
/// Rounds of each kind, if time permits.
const ROUNDS: u64 = 10;
const SHORTEST: Ns = Ns::from_ms(250);

/// Requested limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Hold /dev/cpu_dma_latency at this, µs.
    pub pm_qos: Option<i32>,
    /// Disable idle states of the measured CPUs that take longer to leave.
    pub latency: Option<Ns>,
    /// Alternate both kinds; the limit is `pm_qos`, or 0.
    pub compare: bool,
}

/// Limits idle states while it lives.
pub struct Limit {
    _held: Option<Held>,
    states: Option<Disabled>,
}

impl Limit {
    /// Applies `wanted` for the whole measurement, and notes it in `conditions`.
    ///
    /// # Errors
    /// One line: /dev/cpu_dma_latency or an idle state is not writable. Nothing is changed then.
    pub fn set(wanted: Wanted, cpus: &CpuSet, conditions: &mut Conditions) -> Result<Limit> {
        let held = match wanted.pm_qos.filter(|_| !wanted.compare) {
            Some(us) => Some(pm_qos::hold(us)?),
            None => None,
        };
        conditions.knobs.cpu_dma_latency_held_us = held.as_ref().map(|held| held.us);
        let Some(limit) = wanted.latency else { return Ok(Limit { _held: held, states: None }) };
        let is_too_deep = |state: &IdleState| state.exit_latency_us.is_some_and(|us| us > limit.0 / 1_000);
        let states = cpuidle::disable(cpus, "idle states of a hunt", is_too_deep)?;
        let note = match states.count {
            0 => format!("--idle-latency {limit}: no enabled idle state of CPUs {cpus} has a longer exit latency"),
            n => format!("--idle-latency {limit}: {n} idle states of CPUs {cpus} with a longer exit latency were disabled"),
        };
        conditions.notes.push(note);
        Ok(Limit { _held: held, states: Some(states) })
    }

    /// Restores the changes.
    ///
    /// # Errors
    /// One line: the setting that could not be restored.
    pub fn restore(self) -> Result<()> {
        self.states.map_or(Ok(()), |states| states.restore().map_err(Into::into))
    }
}

/// Rounds of both kinds.
pub struct Rounds {
    limit_us: i32,
    length: Ns,
    turn: CurrentHalf,
    figures: Vec<InHalves>,
    held: Held,
    rounds: u32, // rounds started
    changed: Mono,
    doubt: Option<String>,
}

impl Rounds {
    /// Rounds within `duration`; `None`: not requested.
    ///
    /// # Errors
    /// One line: the time is too short, or /dev/cpu_dma_latency cannot be held.
    pub fn new(wanted: Wanted, duration: Option<Ns>, cpus: &CpuSet) -> Result<Option<Rounds>> {
        if !wanted.compare {
            return Ok(None);
        }
        let limit_us = wanted.pm_qos.unwrap_or(0);
        let mut held = pm_qos::hold(limit_us)?;
        held.change(None)?;
        let length = Ns(duration.unwrap_or(Ns(60_000_000_000)).0 / (2 * ROUNDS)).max(SHORTEST);
        if duration.is_some_and(|duration| duration.0 < 4 * length.0) {
            bail!("--compare-idle: {} is too short for two rounds of {length} of each kind; measure longer (-D)", duration.unwrap_or_default());
        }
        let tree = Tree::new(Path::new("/"));
        let states = cpus.iter().map(|cpu| idle::states(&tree, cpu).len()).max().unwrap_or(0);
        let holders = pm_qos::holders();
        let doubt = match (states, holders.as_slice()) {
            (0 | 1, _) => Some(
                "this machine shows no idle states to limit (no cpuidle driver, or one state): a difference is chance, or the \
                 host's"
                    .to_owned(),
            ),
            (_, []) => None,
            (_, holders) => Some(format!("{} held /dev/cpu_dma_latency in both kinds of rounds", holders.join(", "))),
        };
        let (turn, figures) = (CurrentHalf::default(), Vec::new());
        Ok(Some(Rounds { limit_us, length, turn, figures, held, rounds: 0, changed: Mono(0), doubt }))
    }

    /// Description for the conditions of the run.
    #[must_use]
    pub fn note(&self) -> String {
        format!(
            "--compare-idle: idle states were limited to {} µs in every second round of {}; series, worst cases and verdict are of both kinds",
            self.limit_us, self.length
        )
    }

    /// From now on each thread also counts by half.
    pub fn watch(&mut self, hooks: &mut [Hooks]) {
        for hooks in hooks {
            let (hook, figures) = halves(&self.turn, hooks.sample.take());
            hooks.sample = Some(hook);
            self.figures.push(figures);
        }
    }

    /// Starts the next round when it is due.
    pub fn look(&mut self) {
        let now = clock::mono();
        if self.rounds == 0 || now.since(self.changed) >= self.length {
            self.turn.set(None);
            let limited = self.rounds % 2 == 1;
            if let Err(error) = self.held.change(limited.then_some(self.limit_us)) {
                self.doubt = Some(error.to_string());
            }
            self.rounds += 1;
            self.changed = now;
        } else if now.since(self.changed) >= SETTLING {
            self.turn.set(Some(self.rounds.is_multiple_of(2)));
        }
    }

    /// Results of both kinds.
    #[must_use]
    pub fn finish(self, cpus: &[Cpu]) -> IdleComparison {
        let halves: Vec<_> = self.figures.iter().map(InHalves::histograms).collect();
        let series = |half: usize| {
            let one = |(cpu, halves): (&Cpu, &[lathunt_core::histogram::Histogram; 2])| {
                Series::new(Quantity::Cyclic, Some(*cpu), halves[half].clone())
            };
            cpus.iter().zip(&halves).map(one).collect()
        };
        IdleComparison {
            limit_us: self.limit_us,
            rounds: self.rounds / 2,
            round_ns: self.length,
            free: series(0),
            limited: series(1),
            doubt: self.doubt,
        }
    }
}
