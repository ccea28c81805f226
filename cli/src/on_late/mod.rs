//! `--on-late`: selects the late cases to act on, and records the actions.
//!
//! One case at a time, and at most the requested number per minute. An action starts some ms after its case, in the loop
//! that collects samples: the measuring threads are not involved. A separate process (`lathunt_host::on_late`) starts
//! programs; traces are kept here, because the recorder is here.

mod samples;
mod wanted;

use std::collections::VecDeque;

use anyhow::{Context, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::on_late::{Action, OnLate as Kept};
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::time::{Mono, Ns};
use lathunt_host::on_late::{ActionProcess, Case, Done, Rules};
use lathunt_host::topology::Topology;
use lathunt_host::user::User;
use lathunt_host::{clock, sched};

pub use samples::{late_samples, LateReceiver, LateSample};
pub use wanted::{Wanted, What};

const MINUTE: Ns = Ns(60_000_000_000);
/// Maximum traces of one measurement: each is some MB.
const TRACES: usize = 64;

/// Actions of a measurement on late cases, while it runs.
pub struct OnLate {
    attendant: Option<ActionProcess>,
    wants_traces: bool,
    traces: usize,
    per_minute: usize,
    begun: VecDeque<Mono>, // actions of the last minute
    kept: Kept,
    running: Option<Action>,
    until: Mono, // end of the last action
}

impl OnLate {
    /// Prepares; `None`: nothing was requested. Call it before threads are started, memory is locked, or privileges are
    /// dropped. `above`: the limit for a late case, if it is the same for all.
    ///
    /// # Errors
    /// One line: a process that cannot be signalled, a user that does not exist, or what the kernel refuses.
    pub fn start(wanted: &Wanted, above: Option<Ns>, measured: &CpuSet) -> Result<Option<OnLate>> {
        if !wanted.is_given() {
            return Ok(None);
        }
        let (actions, wants_traces) = wanted.actions()?;
        let mut kept = Kept { above_ns: wanted.above.or(above), ..Kept::default() };
        let mut attendant = None;
        if !actions.is_empty() {
            let (cpus, on_measured) = place(measured)?;
            let user = User::of_command(wanted.user.as_deref())?;
            if let (Some(user), None) = (&user, &wanted.user) {
                let name = if user.name.is_empty() { user.uid.to_string() } else { user.name.clone() };
                eprintln!("lathunt: --on-late: commands run as {name}, who called sudo; --on-late-user root runs them as root");
            }
            if on_measured {
                eprintln!(
                    "lathunt: --on-late: every usable CPU is measured, so actions run on CPUs {cpus} too; cases during an action are marked"
                );
            }
            (kept.cpus, kept.on_measured) = (Some(cpus.to_string()), on_measured);
            let rules = Rules { cpus, timeout: wanted.timeout, user };
            attendant = Some(ActionProcess::start(actions, rules)?);
        }
        let (per_minute, begun) = (wanted.per_minute, VecDeque::new());
        Ok(Some(OnLate {
            attendant,
            wants_traces,
            traces: 0,
            per_minute,
            begun,
            kept,
            running: None,
            until: Mono(0),
        }))
    }

    /// The limit for a late case, if it is the same for all.
    #[must_use]
    pub fn above(&self) -> Option<Ns> {
        self.kept.above_ns
    }

    /// Whether a case may be acted on now: no action is running, and the limit per minute is not reached.
    pub fn is_ready(&mut self) -> bool {
        if let Some(done) = self.attendant.as_mut().and_then(ActionProcess::done) {
            self.ended(Some(done));
        }
        let now = clock::mono();
        self.begun.retain(|&at| now.since(at) < MINUTE);
        let acts = self.attendant.is_some() || self.wants_traces;
        acts && self.running.is_none() && self.begun.len() < self.per_minute
    }

    /// Counts reports of measuring threads. Returns the largest, if an action is allowed now.
    pub fn samples(&mut self, receivers: &mut [LateReceiver]) -> Option<LateSample> {
        let ready = self.is_ready();
        let mut worst: Option<LateSample> = None;
        for (thread, receiver) in receivers.iter_mut().enumerate() {
            let (count, largest) = receiver.take(thread);
            self.noticed(count);
            let larger = largest.filter(|new| {
                worst.is_none_or(|worst| new.sample.latency > worst.sample.latency)
                    && !self.is_own_doing(new.sample.expected)
            });
            worst = larger.or(worst);
        }
        worst.filter(|_| ready)
    }

    /// Whether a case that began at `begin` overlaps the last action.
    fn is_own_doing(&self, begin: Mono) -> bool {
        begin < self.until
    }

    /// Whether a case is of the acting process, or overlaps the last action.
    #[must_use]
    pub fn is_own(&self, peak: &Peak) -> bool {
        let acts = self.attendant.as_ref().map(ActionProcess::pid);
        Some(peak.victim.tid.0) == acts || self.is_own_doing(peak.begin)
    }

    /// Counts `cases` more late cases.
    pub fn noticed(&mut self, cases: u64) {
        self.kept.cases += cases;
        self.kept.withheld += cases;
    }

    /// Acts on `peak`, one of those counted. `trace` keeps a trace of the time before it, with its case, and returns its
    /// path.
    pub fn act(&mut self, peak: &Peak, trace: impl FnOnce(&str) -> Result<String>) {
        let begin = clock::mono();
        let json = serde_json::to_string(peak)
            .unwrap_or_else(|error| unreachable!("a peak has only string keys: {error}"));
        let mut action = Action {
            cpu: peak.cpu,
            case: peak.begin,
            total_ns: peak.total_ns,
            begin,
            end: None,
            did: Vec::new(),
        };
        if self.wants_traces {
            action.did.push(self.trace(|| trace(&json)));
        }
        let limit = self.kept.above_ns.map_or(String::new(), |above| above.0.to_string());
        let withheld = self.kept.withheld.saturating_sub(1);
        let environment = [("LATHUNT_LIMIT_NS", limit), ("LATHUNT_WITHHELD", withheld.to_string())];
        let case = Case { json: &json, environment: &environment };
        self.begun.push_back(begin);
        self.kept.withheld = self.kept.withheld.saturating_sub(1);
        match self.attendant.as_mut().map(|attendant| attendant.act(&case)) {
            Some(Ok(())) => self.running = Some(action),
            Some(Err(error)) => {
                self.attendant = None;
                eprintln!("lathunt: --on-late: {error}: no further command or signal");
                self.undone(action);
            }
            None => self.keep(Action { end: Some(clock::mono()), ..action }),
        }
    }

    /// No process is left to act: only the trace counts, if one was kept.
    fn undone(&mut self, action: Action) {
        if action.did.is_empty() {
            self.begun.pop_back();
            self.kept.withheld += 1;
        } else {
            self.keep(Action { end: Some(clock::mono()), ..action });
        }
    }

    fn trace(&mut self, keep: impl FnOnce() -> Result<String>) -> String {
        if self.traces == TRACES {
            return format!("trace: not kept, {TRACES} of this measurement are");
        }
        match keep() {
            Ok(place) => {
                self.traces += 1;
                format!("trace: {place}")
            }
            Err(error) => format!("trace: {error:#}"),
        }
    }

    fn ended(&mut self, done: Option<Done>) {
        let Some(mut action) = self.running.take() else { return };
        match done {
            Some(done) => {
                action.end = Some(done.end);
                action.did.extend(done.did);
            }
            None => action.did.push("not over when the measurement ended".to_owned()),
        }
        self.keep(action);
    }

    fn keep(&mut self, action: Action) {
        action.did.iter().filter(|did| !did.ends_with("exit status 0")).for_each(|did| {
            eprintln!("lathunt: on a late case of {} on CPU {}: {did}", action.total_ns, action.cpu);
        });
        self.until = action.end.unwrap_or(self.until);
        self.kept.acted(action);
    }

    /// Actions so far, for a file that survives a kill.
    #[must_use]
    pub fn so_far(&self) -> Kept {
        self.kept.clone()
    }

    /// Waits until running actions are over, at most their time limit. Returns all actions.
    #[must_use]
    pub fn end(mut self) -> Kept {
        if self.running.is_some() {
            let done = self.attendant.as_mut().and_then(ActionProcess::wait);
            self.ended(done);
        }
        self.kept
    }

    /// The same, and stores them in `run`.
    pub fn finish(self, run: &mut Run) {
        let kept = self.end();
        kept.mark(&mut run.peaks);
        run.on_late = Some(kept);
    }
}

/// CPUs for actions: usable CPUs that are not measured, preferably not isolated; else all, and then the flag is true.
fn place(measured: &CpuSet) -> Result<(CpuSet, bool)> {
    let topology = Topology::read(std::path::Path::new("/")).context("--on-late")?;
    let usable = match lathunt_host::trusted::me() {
        0 => topology.online.clone(),
        _ => sched::affinity()?,
    };
    let others = usable.minus(measured);
    let ordinary = others.minus(&topology.isolated);
    Ok(match (ordinary.is_empty(), others.is_empty()) {
        (false, _) => (ordinary, false),
        (true, false) => (others, false),
        (true, true) => (usable, true),
    })
}
