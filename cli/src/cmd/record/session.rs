//! `lathunt record`: runs the recorder on the tasks of the running system.
//!
//! One loop at SCHED_OTHER reads the kernel side's data every 20 ms. The run so far is saved every second at first and
//! every ten seconds later, so that a kill loses a tenth of a recording or ten seconds.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use lathunt_core::application::{Deadlines, Task};
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::export::latency_hist::Recorded;
use lathunt_core::judge::{self, claimed_of_recording, Asked, Ending};
use lathunt_core::path_analysis::PathAnalysis;
use lathunt_core::run::Run;
use lathunt_core::stats::claim::Claim;
use lathunt_core::time::{Ns, Tid};
use lathunt_core::verdict::Outcome;
use lathunt_host::child::HeldChild;
use lathunt_host::clock;
use lathunt_host::clock_steps::ClockSteps;
use lathunt_host::facts::counters::Counters;
use lathunt_host::facts::machine::add_online;
use lathunt_host::privileges::{self, Capability};
use lathunt_host::recording::{Recording, Selection, Settings, Snapshot};
use lathunt_host::signals;
use lathunt_host::topology::Topology;
use lathunt_host::user::User;

use super::nobody::is_empty;
use super::old_files::{self, OldFiles};
use super::potential::{self, Chosen, Running};
use super::{penalty, rows};
use crate::live::Display;
use crate::on_late::{OnLate, Wanted};
use crate::outdir::Output;
use crate::stopped;
use crate::strict::Strict;
use crate::until::Until;

const ROOT: &str = "/";
const TURN: Duration = Duration::from_millis(20);
/// Once a second: newly matching threads, the display, the old files.
const SECOND: Ns = Ns(1_000_000_000);

/// Options of the command.
pub struct Plan {
    /// Tasks to record, unless those of the command.
    pub selection: Selection,
    /// Only the command is recorded.
    pub follows_command: bool,
    /// CPUs; `None`: all online CPUs.
    pub cpus: Option<CpuSet>,
    /// Length; `None`: until stopped.
    pub duration: Option<Ns>,
    /// Claim to prove.
    pub until: Option<Claim>,
    /// Worst cases kept per CPU.
    pub peaks: usize,
    /// Smallest latency with a flight record.
    pub threshold: Ns,
    /// Deadlines.
    pub deadlines: Deadlines,
    /// Further conditions of a PASS.
    pub strict: Strict,
    /// Limit whose first exceedance (for an application: by a response time) ends the recording.
    pub stop_at: Option<Ns>,
    /// Actions on late cases.
    pub on_late: Wanted,
    /// Wait at which jobs begin, a pattern for places.
    pub activation: Option<String>,
    /// Threads that wake each other, in this order; empty: no chain.
    pub chain: Vec<String>,
    /// Directory of the old files.
    pub latency_hist: Option<PathBuf>,
    /// Potential latencies and path analysis wanted.
    pub potential: Chosen,
    /// Measure the overhead first.
    pub penalty: bool,
    /// Show a table of tasks; `q` ends.
    pub live: bool,
    /// Output directory.
    pub output: Option<PathBuf>,
    /// Print the run file on stdout.
    pub json: bool,
    /// Print only the verdict.
    pub quiet: bool,
    /// Print every case.
    pub all: bool,
    /// Measure the switch itself too.
    pub switch: bool,
    /// Program to start.
    pub command: Vec<OsString>,
    /// Its user; `None`: that of this process.
    pub user: Option<User>,
}

impl Plan {
    /// Selected threads are an application, whose response times count.
    pub(super) fn is_application(&self) -> bool {
        self.follows_command || !matches!(self.selection, Selection::RealTime | Selection::All)
    }

    /// The criteria for the verdict; `ending`: of the command, once it has ended.
    fn asked(&self, tasks: &[Task], ending: Option<ExitStatus>) -> Asked {
        let command = self.command.first().map(|program| program.to_string_lossy().into_owned());
        Asked {
            tasks: match command.as_deref().filter(|_| self.follows_command) {
                Some(command) => format!("threads of {command}"),
                None => self.selection.to_string(),
            },
            is_application: self.is_application(),
            deadline: self.deadlines.plain().or(self.deadlines.shortest()),
            activation: self.activation.clone(),
            unused: self.deadlines.unused(tasks).into_iter().map(str::to_owned).collect(),
            absent: self.selection.absent(tasks.iter().map(|task| task.thread.comm.as_str())),
            command,
            ending: ending.map(|ending| match ending.signal() {
                Some(signal) => Ending::Killed(signal),
                None => Ending::Exited(ending.code().unwrap_or_default()),
            }),
        }
    }

    /// Whether `run` has shown or refuted the claim of `until`.
    fn is_settled(&self, until: &mut Until, run: &Run, elapsed: Ns) -> bool {
        let said = claimed_of_recording(run, &self.asked(&run.tasks, None), until.confidence());
        until.is_shown(&said, elapsed) || is_late(run)
    }

    /// Stores the outcome of the claim, if one was requested.
    fn conclude(&self, run: &mut Run, took: Ns) {
        let Some(until) = self.until.map(Until::new) else { return };
        let asked = self.asked(&run.tasks, None);
        let said = claimed_of_recording(run, &asked, until.confidence());
        run.verdict = Some(judge::judge_recording(run, &asked));
        let is_refuted = is_late(run);
        until.conclude(run, &said, is_refuted, took);
    }

    /// A recording of the whole system has one deadline for all tasks.
    fn deadlines_in_force(&self) -> Deadlines {
        match self.is_application() {
            true => self.deadlines.clone(),
            false => Deadlines::of_all(self.deadlines.plain()),
        }
    }

    /// Everything is attached: of root's rights, only those are kept that the rest needs.
    fn give_up_rights(&self, output: &Output) -> anyhow::Result<()> {
        let mut kept = vec![Capability::Bpf, Capability::Perfmon, Capability::Syslog];
        kept.extend([Capability::SysPtrace, Capability::DacReadSearch]); // to identify descriptors of the threads
        kept.extend(output.needs());
        kept.extend(self.latency_hist.as_deref().map(crate::outdir::needs).unwrap_or_default());
        kept.extend((!self.command.is_empty()).then_some(Capability::Kill)); // the program may change its user
        Ok(privileges::keep(&kept)?)
    }

    fn old_files(&self, topology: &Topology) -> Recorded {
        Recorded {
            cpus: topology.possible.iter().collect(),
            potential: potential::quantities(&self.potential.latencies).collect(),
            pid: old_files::pid(&self.selection),
        }
    }

    fn settings(&self, cpus: &CpuSet, command: Option<Tid>, conditions: &Conditions) -> Settings {
        Settings {
            selection: self.selection.clone(),
            command: command.filter(|_| self.follows_command),
            peaks: self.peaks,
            threshold: self.threshold,
            deadlines: self.deadlines_in_force(),
            activation: self.activation.clone(),
            chain: self.chain.clone(),
            preemption: conditions.kernel.preemption_model(),
            switch: self.switch,
            old_files: self.latency_hist.is_some(),
            jobs: self.is_application(),
            late: self.late(),
            ..Settings::on(cpus.clone())
        }
    }
}

/// State during the recording.
pub(super) struct Session<'a> {
    pub(super) plan: &'a Plan,
    base: Run,
    pub(super) recording: Recording,
    potential: Running,
    /// As of the last look.
    path_analysis: Vec<PathAnalysis>,
    old_files: Option<OldFiles>,
    clock_steps: ClockSteps,
    pub(super) on_late: Option<OnLate>,
}

/// Records.
///
/// # Errors
/// If nothing could be recorded, or the result could not be written.
pub fn run(plan: &Plan) -> anyhow::Result<ExitCode> {
    signals::install()?;
    let mut display = Display::new(plan.quiet);
    let topology = Topology::read(Path::new(ROOT))?;
    let cpus = topology.select(plan.cpus.as_ref())?;
    let mut conditions = conditions(&cpus, plan);
    let in_force = conditions.kernel.preemption_in_force.as_deref();
    conditions.notes.extend(potential::notes(&plan.potential, in_force));
    potential::refuse_unless_possible(&plan.potential)?;
    let start_potential = || potential::start(&plan.potential, &cpus);
    let old_files = match &plan.latency_hist {
        Some(directory) => Some(OldFiles::begin(directory, plan.old_files(&topology))?),
        None => None,
    };
    let penalty = match plan.penalty {
        true => Some(penalty::measure(&plan.settings(&cpus, None, &conditions), start_potential)?),
        false => None,
    };
    let on_late = OnLate::start(&plan.on_late, plan.deadlines.plain(), &cpus)?;
    let command = (!plan.command.is_empty()).then_some(&plan.command);
    let start = |command: &Vec<OsString>| HeldChild::start(command, plan.json, plan.user.as_ref());
    let mut child = command.map(start).transpose()?;
    let command = child.as_ref().map(HeldChild::tid);
    let recording = Recording::start(plan.settings(&cpus, command, &conditions))?;
    // Last: loading and attaching programs turns interrupts and preemption off for longer than almost anything else.
    let potential = start_potential()?;
    let output = Output::create(plan.output.as_deref(), conditions.started.as_deref())?;
    // Now that nothing can refuse the recording any more.
    plan.nobody_yet().iter().for_each(|told| eprintln!("lathunt: {told}"));
    conditions.notes.extend(recording.notes().iter().cloned());
    let noted = recording.notes().len();
    let before = Counters::read(Path::new(ROOT), &cpus);
    let base = Run { penalty, ..Run::new(conditions) };
    let clock_steps = ClockSteps::watch();
    let path_analysis = Vec::new();
    let mut session =
        Session { plan, base, recording, potential, path_analysis, old_files, clock_steps, on_late };
    // After the program was forked: the rings are read in time even if it keeps the CPUs busy. Without the privilege
    // nothing changes.
    let _ = lathunt_host::sched::set_nice(-20);
    if let Some(child) = &mut child {
        child.go();
    }
    plan.give_up_rights(&output)?;
    let (elapsed, ending, by_user) = session.record(&mut child, &output, &mut display);
    display.finish();
    session.recording.finish();
    plan.note_at_end(&session.recording.notes()[noted..], &mut session.base.conditions.notes);
    session.base.conditions.during = before.during(Path::new(ROOT), &cpus);
    add_online(Path::new(ROOT), &mut session.base.conditions.machine);
    session.base.conditions.duration_s = Some(elapsed.as_secs());
    session.base.conditions.during.clock_set_ns = session.clock_steps.steps();
    let (snapshot, old_files) = session.look();
    let mut run = session.run(&snapshot);
    run.complete = true;
    by_user.filter(|_| plan.until.is_none()).into_iter().for_each(|why| run.stopped(why));
    // Of a program that runs until it is stopped, this is the end of the recording, but of another it is an early one.
    let ended_before = child.is_some() && ending.is_none() && plan.duration.is_none();
    let by_signal = ended_before.then(|| stopped::by_signal(elapsed, "COMMAND, which still ran")).flatten();
    run.conditions.notes.extend(by_signal);
    plan.conclude(&mut run, elapsed);
    let stopped_at = session.stopped_at();
    run.conditions.notes.extend(stopped_at.clone());
    session.on_late.take().into_iter().for_each(|on_late| on_late.finish(&mut run));
    run.verdict = Some(plan.strict.judge(judge::judge_recording(&run, &plan.asked(&run.tasks, ending))));
    if is_empty(&run) {
        let printed = output.print(&run, plan.json, plan.quiet, plan.all);
        eprintln!("lathunt: {}", plan.nobody());
        crate::exit::all([printed, old_files])?;
        return Ok(crate::exit::of(run.verdict.as_ref()));
    }
    let written = output.write(&run, &snapshot.flight);
    crate::exit::all([output.print(&run, plan.json, plan.quiet, plan.all), written, old_files])?;
    Ok(match stopped_at {
        Some(why) => {
            eprintln!("lathunt: {why}");
            crate::exit::EXCEEDED.into()
        }
        None => crate::exit::of(run.verdict.as_ref()),
    })
}

fn is_late(run: &Run) -> bool {
    run.verdict.as_ref().is_some_and(|verdict| verdict.outcome == Some(Outcome::Fail))
}

fn conditions(cpus: &CpuSet, plan: &Plan) -> Conditions {
    let mut conditions = crate::conditions::of_this_run(cpus);
    conditions.load = Some("the system itself (recorded, not generated)".to_owned());
    conditions.duration_s = plan.duration.map(Ns::as_secs);
    conditions
}

impl Session<'_> {
    /// Runs until a signal, `q`, the end of the command or of the time. Returns how long it took, how the command ended if
    /// it has, and whether it was stopped before a given time.
    fn record(
        &mut self,
        child: &mut Option<HeldChild>,
        output: &Output,
        display: &mut Display,
    ) -> (Ns, Option<ExitStatus>, Option<String>) {
        let begun = clock::mono();
        let plan = self.plan;
        let keys = plan.live.then(lathunt_host::terminal::Keys::read).flatten();
        let (mut saved, mut second) = (Ns::ZERO, Ns::ZERO);
        let (mut until, mut is_settled) = (plan.until.map(Until::new), false);
        loop {
            std::thread::sleep(TURN);
            self.recording.poll();
            self.potential.poll();
            self.act(output);
            self.clock_steps.look();
            let elapsed = clock::mono().since(begun);
            let over = is_settled
                || self.recording.is_to_stop()
                || plan.duration.is_some_and(|duration| elapsed >= duration);
            let pressed = keys.as_ref().map(lathunt_host::terminal::Keys::pressed).unwrap_or_default();
            let quit = pressed.contains(&b'q');
            if pressed.contains(&b'?') {
                display.toggle_keys();
            }
            let ending = child.as_mut().and_then(HeldChild::ended);
            if over || quit || ending.is_some() || signals::stop_requested().is_some() {
                // Ctrl-C ends COMMAND too.
                let by_itself = over || (ending.is_some() && signals::stop_requested().is_none());
                let early = plan.duration.filter(|_| !by_itself);
                let by_user = early.and_then(|planned| stopped::by_user(elapsed, planned));
                return (elapsed, ending, by_user);
            }
            if elapsed.saturating_sub(second) < SECOND {
                continue;
            }
            second = elapsed;
            self.recording.look_again();
            add_online(Path::new(ROOT), &mut self.base.conditions.machine);
            let save = elapsed.saturating_sub(saved) >= Ns(elapsed.0 / 10).clamp(SECOND, Ns(10 * SECOND.0));
            if !save && !display.is_due() && plan.latency_hist.is_none() && until.is_none() {
                continue;
            }
            // A failure of the old files is reported at the end, when they are written again.
            let (snapshot, _) = self.look();
            if save || until.is_some() {
                let mut run = self.run(&snapshot);
                run.conditions.duration_s = Some(elapsed.as_secs());
                run.conditions.during.clock_set_ns = self.clock_steps.steps();
                // A kill must not lose the misses seen so far.
                run.verdict =
                    Some(plan.strict.judge(judge::judge_recording(&run, &plan.asked(&run.tasks, None))));
                is_settled = until.as_mut().is_some_and(|until| plan.is_settled(until, &run, elapsed));
                if save && !is_empty(&run) {
                    saved = elapsed;
                    output.save(&run);
                }
            }
            if display.is_due() {
                display.show(&rows::progress(plan, until, &self.recording, &snapshot, elapsed));
            }
        }
    }

    /// Takes a snapshot and updates the old files.
    fn look(&mut self) -> (Snapshot, anyhow::Result<()>) {
        if let Some(old_files) = &mut self.old_files {
            old_files.obey(&mut self.recording, &self.potential);
        }
        let mut snapshot = self.recording.snapshot();
        let (series, longest) = self.potential.read();
        self.path_analysis = self.potential.path_analysis();
        let updated = match &mut self.old_files {
            Some(old_files) => old_files.update(&snapshot, &series),
            None => Ok(()),
        };
        snapshot.series.extend(series);
        snapshot.peaks.extend(longest);
        snapshot.losses.extend(self.potential.losses());
        (snapshot, updated)
    }

    /// The run so far.
    fn run(&self, snapshot: &Snapshot) -> Run {
        let Snapshot { series, tasks, peaks, interference, losses, .. } = snapshot.clone();
        let mut run =
            Run { complete: false, series, tasks, peaks, interference, losses, ..self.base.clone() };
        run.path_analysis.clone_from(&self.path_analysis);
        run.on_late = self.on_late.as_ref().map(OnLate::so_far);
        run.conditions.notes.extend(self.old_files.iter().flat_map(OldFiles::notes));
        self.plan.note_new_cpus(&mut run);
        run
    }
}
