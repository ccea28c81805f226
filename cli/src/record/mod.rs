//! `lathunt record`: the recorder on the tasks of the running system.
//!
//! One loop at SCHED_OTHER reads what the kernel side found every 20 ms: activations into the figures of each thread,
//! flight records into the worst cases. Once a second the run so far is saved, so that a kill costs one second.

mod penalty;
pub mod potential;
mod rows;
pub mod selection;
mod worst;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lathunt_core::application::Tasks;
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::export::latency_hist;
use lathunt_core::run::{Interference, Loss, Run};
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use lathunt_core::verdict::{self, Rules, Verdict};
use lathunt_host::child::HeldChild;
use lathunt_host::facts::{self, counters::Counters};
use lathunt_host::instrument::cyclic::clock;
use lathunt_host::recorder::{self, Recorder};
use lathunt_host::signals;
use lathunt_host::symbols::Symbols;
use lathunt_host::topology::Topology;

use crate::file;
use crate::live::Display;
use crate::outdir::Output;
use potential::{Estimate, Potential};
use selection::Selection;
use worst::Book;

const ROOT: &str = "/";
const TURN: Duration = Duration::from_millis(20);
const SAVE_EVERY: Ns = Ns(1_000_000_000);
/// Threads whose figures are kept: about 100 KB each.
const THREADS: usize = 256;

/// Everything the user asked for.
pub struct Plan {
    /// Whose latencies, without a command.
    pub selection: Selection,
    /// Where; `None`: on all online CPUs.
    pub cpus: Option<CpuSet>,
    /// How long; `None`: until stopped.
    pub duration: Option<Ns>,
    /// Worst cases kept for each CPU.
    pub peaks: usize,
    /// Flight records from here on.
    pub threshold: Ns,
    /// What must not be exceeded.
    pub deadline: Option<Ns>,
    /// Directory of the old files.
    pub latency_hist: Option<PathBuf>,
    /// Potential latencies wanted.
    pub potential: Vec<Potential>,
    /// Measure the cost first.
    pub penalty: bool,
    /// Table of tasks; `q` ends.
    pub live: bool,
    /// Where the files go.
    pub output: Option<PathBuf>,
    /// The run file on stdout.
    pub json: bool,
    /// Only the verdict on stdout.
    pub quiet: bool,
    /// A program to start.
    pub command: Vec<OsString>,
}

impl Plan {
    /// Chosen threads are an application, whose response times count.
    fn is_application(&self) -> bool {
        !self.command.is_empty() || !matches!(self.selection, Selection::RealTime | Selection::All)
    }

    fn options(&self, cpus: &CpuSet, chosen: Option<Vec<lathunt_core::time::Tid>>) -> recorder::Options {
        let all = chosen.is_none() && self.selection == Selection::All;
        recorder::Options {
            peaks_threshold: Some(self.threshold),
            late_timer_stack: self.threshold,
            follow: !self.selection.looks_again() && chosen.is_some(),
            tids: chosen,
            keep_kernel_threads: all,
            ordinary: all,
            lean: true,
            activations: true,
            ..recorder::Options::on(cpus.clone())
        }
    }
}

/// What is known while it goes on.
struct Session {
    cpus: CpuSet,
    recorder: Recorder,
    book: Book,
    tasks: Tasks,
    lost: u64,
    estimate: Option<Estimate>,
}

/// Records.
///
/// # Errors
/// When nothing could be recorded, or the result could not be written.
pub fn run(plan: &Plan) -> anyhow::Result<ExitCode> {
    signals::install()?;
    let mut display = Display::new(plan.quiet);
    let topology = Topology::read(Path::new(ROOT))?;
    let cpus = topology.select(plan.cpus.as_ref())?;
    let mut conditions = conditions(&cpus, plan);
    let estimate = potential::start(&plan.potential, &cpus)?;
    let output = Output::create(plan.output.as_deref(), conditions.started.as_deref())?;
    let penalty = match plan.penalty {
        true => Some(penalty::measure(plan, &cpus)?),
        false => None,
    };
    let mut child = (!plan.command.is_empty()).then(|| HeldChild::start(&plan.command)).transpose()?;
    let chosen = match &child {
        Some(child) => Some(vec![child.tid()]),
        None => plan.selection.threads()?,
    };
    let mut session = session(plan, cpus, chosen, estimate, &conditions, &mut display)?;
    conditions.notes.extend(session.recorder.notes().iter().cloned());
    let before = Counters::read(Path::new(ROOT), &session.cpus);
    let mut base = Run::new(conditions);
    base.penalty = penalty;
    if let Some(child) = &child {
        child.go();
    }
    let elapsed = session.record(plan, &mut child, &base, &output, &mut display);
    display.finish();
    session.collect();
    session.book.close();
    base.conditions.during = before.during(Path::new(ROOT), &session.cpus);
    base.conditions.duration_s = Some(elapsed.as_secs());
    let (mut run, flight) = session.run(&base);
    run.complete = true;
    run.verdict = Some(judge(&run, plan));
    write_latency_hist(plan, &session, &run)?;
    let written = output.write(&run, &flight);
    output.print(&run, plan.json, plan.quiet)?;
    written?;
    Ok(run.verdict.as_ref().map_or(0, verdict::exit_code).into())
}

fn conditions(cpus: &CpuSet, plan: &Plan) -> Conditions {
    let mut conditions = facts::gather(Path::new(ROOT), cpus);
    conditions.command = Some(std::env::args().collect::<Vec<_>>().join(" "));
    conditions.tool = Some(format!("lathunt {}", env!("CARGO_PKG_VERSION")));
    conditions.load = Some("the system itself (recorded, not made)".to_owned());
    conditions.duration_s = plan.duration.map(Ns::as_secs);
    // A CPU where no such task ran was recorded all the same: the verdict must not miss its samples.
    conditions.machine.cpus_measured = None;
    conditions.notes.push(format!("recorded CPUs {cpus}"));
    conditions
}

fn session(
    plan: &Plan,
    cpus: CpuSet,
    chosen: Option<Vec<lathunt_core::time::Tid>>,
    estimate: Option<Estimate>,
    conditions: &Conditions,
    display: &mut Display,
) -> anyhow::Result<Session> {
    let recorder = Recorder::start(&plan.options(&cpus, chosen))?;
    let symbols = Symbols::read().unwrap_or_else(|error| {
        display.say(&format!("{error}\n  it costs: kernel stacks show addresses instead of names"));
        Symbols::none()
    });
    let preemption = match conditions.kernel.realtime {
        Some(true) => Some("rt".to_owned()),
        _ => conditions.kernel.preemption_in_force.clone(),
    };
    Ok(Session {
        cpus,
        recorder,
        book: Book::new(plan.peaks, plan.threshold, preemption, symbols),
        tasks: Tasks::new(THREADS, plan.deadline, recorder::syscall_name),
        lost: 0,
        estimate,
    })
}

impl Session {
    /// Until a signal, `q`, the end of the command or of the time. Returns how long it took.
    fn record(
        &mut self,
        plan: &Plan,
        child: &mut Option<HeldChild>,
        base: &Run,
        output: &Output,
        display: &mut Display,
    ) -> Ns {
        let begun = clock::mono();
        let keys = plan.live.then(lathunt_host::terminal::Keys::read).flatten();
        let mut saved = Ns::ZERO;
        loop {
            std::thread::sleep(TURN);
            self.collect();
            let elapsed = clock::mono().since(begun);
            let over = plan.duration.is_some_and(|duration| elapsed >= duration);
            let quit = keys.as_ref().is_some_and(|keys| keys.pressed(b'q'));
            let ended = child.as_mut().is_some_and(|child| child.ended().is_some());
            if over || quit || ended || signals::stop_requested().is_some() {
                return elapsed;
            }
            if elapsed.saturating_sub(saved) >= SAVE_EVERY {
                saved = elapsed;
                self.look_again(plan);
                let (mut run, _) = self.run(base);
                run.conditions.duration_s = Some(elapsed.as_secs());
                output.save(&run);
                // A failure is said at the end, when it is tried again.
                let _ = write_latency_hist(plan, self, &run);
            }
            if display.is_due() {
                display.show(&rows::progress(plan, &self.recorder, &self.book, &self.tasks, elapsed));
            }
        }
    }

    fn collect(&mut self) {
        for frozen in self.recorder.poll() {
            self.book.evidence(frozen);
        }
        let activations = self.recorder.activations();
        self.lost += activations.lost;
        for activation in &activations.records {
            self.book.activation(activation);
            self.tasks.add(activation);
        }
        for cpu in self.cpus.iter() {
            let useful = self.book.useful_from(cpu);
            self.recorder.set_threshold(cpu, useful);
            self.recorder.set_late_timer_stack(cpu, useful);
        }
    }

    /// Threads that came to match since.
    fn look_again(&mut self, plan: &Plan) {
        if plan.command.is_empty() && plan.selection.looks_again() {
            for tid in plan.selection.threads().ok().flatten().unwrap_or_default() {
                let _ = self.recorder.watch(tid);
            }
        }
    }

    /// The run as it stands, with its flight records.
    fn run(&self, base: &Run) -> (Run, Vec<u8>) {
        let (peaks, flight) = self.book.peaks();
        let mut run = Run { complete: false, peaks, tasks: self.tasks.report(), ..base.clone() };
        run.series = self.recorder.series().into_iter().filter(|s| s.histogram.count() > 0).collect();
        run.series.extend(self.estimate.iter().flat_map(Estimate::series));
        let taken = |by: recorder::Interference| {
            let recorder::Interference { cpu, source, count, total_ns, max_ns } = by;
            Interference { cpu, source: source.to_string(), count, total_ns, max_ns }
        };
        run.interference = self.recorder.interference().into_iter().map(taken).collect();
        run.interference.sort_by_key(|taken| std::cmp::Reverse(taken.total_ns));
        run.losses = self.recorder.losses();
        run.losses.extend(self.own_losses());
        (run, flight)
    }

    fn own_losses(&self) -> impl Iterator<Item = Loss> {
        let loss = |counter: &str, count, meaning: &str| Loss {
            counter: counter.to_owned(),
            count,
            meaning: meaning.to_owned(),
            evidence_only: true,
        };
        [
            loss(
                "activations_overwritten",
                self.lost,
                "activations overwritten before they were read: in the figures of CPUs, but not in those of threads",
            ),
            loss(
                "threads_beyond_limit",
                self.tasks.not_kept(),
                "activations of threads beyond the first 256: in the figures of CPUs, but not in those of threads",
            ),
        ]
        .into_iter()
        .filter(|loss| loss.count > 0)
    }
}

/// An application is judged by its response times, a system by its wake-ups.
fn judge(run: &Run, plan: &Plan) -> Verdict {
    if plan.is_application() {
        let response = run.tasks.iter().filter_map(|task| task.of(Quantity::Response)).cloned();
        let of_tasks = Run { series: response.collect(), ..run.clone() };
        return verdict::judge(&of_tasks, plan.deadline, &Rules::instrument(Quantity::Response));
    }
    let timed = run.max_of(Quantity::TimerWakeup).is_some();
    let quantity = if timed { Quantity::TimerWakeup } else { Quantity::Wakeup };
    verdict::judge(run, plan.deadline, &Rules::instrument(quantity))
}

fn write_latency_hist(plan: &Plan, session: &Session, run: &Run) -> anyhow::Result<()> {
    let Some(directory) = &plan.latency_hist else { return Ok(()) };
    let cpus: Vec<Cpu> = session.cpus.iter().collect();
    for wanted in latency_hist::files(&cpus, &run.series, &session.book.of_quantities()) {
        let path = directory.join(&wanted.path);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent)
            .map_err(|error| anyhow::anyhow!("cannot make {}: {error}", parent.display()))?;
        file::write_quick(&path, wanted.text.as_bytes())?;
    }
    Ok(())
}
