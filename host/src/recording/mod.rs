//! A recording of selected tasks: the recorder, read regularly, turned into series, threads, and the worst cases.
//!
//! Shared by `lathunt record` and `lathunt monitor`. The figures of a CPU are counted in the kernel and read from there;
//! those of a thread are summed up here from its activations. A window ends with [`Recording::close_window`], and the next
//! one follows; a recording that closes none is one window.
//!
//! Not here: files, terminals, verdicts.

mod asleep;
mod circumstances;
mod evidence;
mod extremes;
mod files;
mod found;
mod job_evidence;
mod jobs;
mod late;
mod memory;
mod names;
mod objects;
mod pending;
pub mod running;
mod selection;
mod settings;
mod since_reset;
mod snapshot;
mod sources;
mod variables;
mod waits;
mod window;
mod worst;

use lathunt_core::application::{State, Tasks};
use lathunt_core::peak::Peak;
use lathunt_core::run::{Interference, Loss};
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Mono, Tid};
use lathunt_core::trace::activation::Activation;

use crate::clock;
use crate::error::Result;
use crate::recorder::{self, Recorder, Starving};
use crate::symbols::Symbols;
use found::Found;
use jobs::JobBook;
use late::Late;
use objects::Objects;
use window::{Before, Largests};
use worst::Book;

pub use late::LateAbove;
pub use pending::Packed;
pub use selection::Selection;
pub use settings::Settings;
pub use since_reset::SinceReset;
pub use snapshot::Snapshot;

/// Name of the loss of latencies that are in no series.
const NOT_WATCHED: &str = "threads_not_watched";
const BEFORE_FOUND: &str = "activations_before_found";

/// The running recording; dropping it detaches everything.
pub struct Recording {
    settings: Settings,
    recorder: Recorder,
    begin: Mono,
    before: Before,
    largest: Largests,
    book: Book,
    jobs: Option<JobBook>,
    late: Late,
    tasks: Tasks,
    objects: Objects,
    since_reset: Option<SinceReset>,
    later: Vec<Activation>, // of the next window
    overwritten: u64,
    found: Found,
    notes: Vec<String>,
    pending: recorder::Pending,
    starving: Vec<Starving>,
}

impl Recording {
    /// Loads and attaches; tens of ms, and not from a real-time thread.
    ///
    /// # Errors
    /// One line: what the kernel refuses or lacks, or which process does not exist.
    pub fn start(settings: Settings) -> Result<Recording> {
        let tids = match settings.command {
            Some(tid) => Some(vec![tid]),
            None => settings.selection.threads()?,
        };
        let born = || settings.command.map_or_else(|| threads(&settings.selection), |_| Vec::new());
        let mut recorder = Recorder::start_with(&settings.recorder(tids), born)?;
        let begin = clock::mono();
        let mut found = Found::new();
        if settings.command.is_some() {
            recorder.forget_begun(); // it is held before its first instruction
        } else {
            look(&mut found, &recorder, &settings.selection);
        }
        let mut notes = recorder.notes().to_vec();
        let symbols = Symbols::read().unwrap_or_else(|error| {
            notes.push(format!("{error}: kernel stacks show addresses instead of names"));
            Symbols::none()
        });
        let book = Book::new(&settings, symbols.with_code(), begin);
        let jobs = settings.jobs.then(|| JobBook::new(&settings));
        let mut tasks = Tasks::new(settings.threads, None, recorder::syscall_name)
            .with_deadlines(settings.deadlines.clone())
            .with_activation(settings.activation.as_deref())
            .with_chain(&settings.chain)
            .with_held(settings.command);
        let late = Late::new(settings.late.clone(), settings.jobs);
        jobs.iter().for_each(|jobs| tasks.ask_for_jobs(late.wanted_of(jobs)));
        let since_reset = settings.old_files.then(SinceReset::default);
        Ok(Recording {
            settings,
            recorder,
            begin,
            before: Before::default(),
            largest: Largests::default(),
            book,
            jobs,
            late,
            tasks,
            objects: Objects::default(),
            since_reset,
            later: Vec::new(),
            overwritten: 0,
            found,
            notes,
            pending: recorder::Pending::default(),
            starving: Vec::new(),
        })
    }

    /// Reads the kernel side's data. Call it often enough for the rings of 4096 activations per CPU (every 20 to 50 ms;
    /// for a monitor of tasks that wake 10,000 times a second: ten times a second): overwritten activations are counted.
    /// True: there was evidence, and more may follow soon.
    pub fn poll(&mut self) -> bool {
        let mut evidence = false;
        self.recorder.poll_each(|frozen| {
            evidence = true;
            self.book.evidence(frozen);
        });
        self.activations(Mono(u64::MAX));
        self.late_jobs();
        self.set_thresholds();
        for (key, max) in self.recorder.take_largest() {
            self.largest.larger(key, max);
            self.since_reset.iter_mut().for_each(|since| since.larger(key, max));
        }
        evidence
    }

    /// Jobs that are among the worst: their events are still in the rings.
    fn late_jobs(&mut self) {
        let Some(book) = &mut self.jobs else { return };
        let ended = self.tasks.take_jobs();
        if !ended.is_empty() {
            self.late.jobs(&ended);
            book.ended(ended, |from| self.recorder.peek(from));
            self.tasks.ask_for_jobs(self.late.wanted_of(book));
        }
        book.make_room(self.book.evidence_of());
    }

    /// Counts new activations, except those switched in after `until`: they are counted next time.
    fn activations(&mut self, until: Mono) {
        let Recording { recorder, book, late, tasks, objects, since_reset, later, .. } = self;
        let waited = std::mem::take(later);
        let mut count = |activation: &Activation| {
            if activation.switched_in > until {
                later.push(*activation);
                return;
            }
            book.activation(activation);
            late.wakeup(activation);
            since_reset.iter_mut().for_each(|since| since.activation(activation));
            let is_of_task = tasks.add(&objects.with_sources(activation));
            objects.see(activation, is_of_task);
        };
        waited.iter().for_each(&mut count);
        self.overwritten += recorder.activations(count);
    }

    /// The kernel side freezes from the smallest latency on that could still become one of the worst.
    fn set_thresholds(&self) {
        for cpu in self.settings.cpus.iter() {
            let useful = self.book.useful_from(cpu);
            self.recorder.set_threshold(cpu, useful);
            self.recorder.set_late_timer_stack(cpu, useful);
        }
    }

    /// The window so far.
    #[must_use]
    pub fn snapshot(&mut self) -> Snapshot {
        self.read().0
    }

    /// Ends the window and starts the next one.
    #[must_use]
    pub fn close_window(&mut self) -> Snapshot {
        self.poll();
        self.tasks.ends_window();
        self.late_jobs();
        let now = clock::mono();
        let open = self.recorder.going_on(now);
        self.tasks.goes_on_at(now, &open, |tid| self.recorder.blocks_at_the_end(tid));
        let (snapshot, cumulative) = self.read();
        self.before.close(&cumulative, snapshot.end);
        self.largest.begin_window(|_| true);
        self.recorder.restart_seconds(snapshot.end);
        self.book.begin_window(self.begin);
        self.jobs.iter_mut().for_each(JobBook::begin_window);
        self.set_thresholds();
        self.tasks.begin_window();
        self.begin = snapshot.end;
        snapshot
    }

    fn read(&mut self) -> (Snapshot, Vec<Series>) {
        self.poll();
        self.book.explain_cases();
        // Explaining takes time: samples of that time are in all figures of this window, or in none.
        self.poll();
        let end = clock::mono();
        let cumulative = self.recorder.series();
        self.activations(end);
        self.late_jobs();
        self.book.explain_cases();
        self.jobs.iter_mut().for_each(|jobs| jobs.explain_cases(self.book.evidence_of()));
        let taken = self.recorder.take_largest();
        self.since_reset.iter_mut().for_each(|since| since.meanwhile(&taken));
        self.largest.meanwhile(&taken);
        let part = |series: &Series| {
            let key = (series.quantity, series.cpu?);
            self.before.part(series, self.largest.of(key), self.book.smallest(key))
        };
        // A CPU whose wake-ups were all lost has a series too.
        let told = |series: &Series| {
            series.histogram.count() > 0 || (series.quantity == Quantity::Wakeup && series.lost > 0)
        };
        let mut series: Vec<Series> = cumulative.iter().filter_map(part).filter(told).collect();
        let maximum =
            |series: &Series| self.book.peak_of((series.quantity, series.cpu?), series.histogram.max()?);
        let mut maxima: Vec<Peak> = series.iter().filter_map(maximum).collect();
        let (mut peaks, flight) = self.book.peaks();
        peaks.extend(self.jobs.iter().flat_map(JobBook::peaks));
        peaks.sort_by_key(|peak| (std::cmp::Reverse(peak.total_ns), peak.begin));
        let waits = self.waits();
        waits.iter().for_each(|wait| wait.add_to(&mut series, end));
        let mut tasks = self.tasks.report_while(&waits, end);
        let of_tasks = tasks.iter().flat_map(|task| {
            let of_quantity = |series: &Series| {
                self.book.peak_of_thread(task.thread.tid, series.quantity, series.histogram.max()?)
            };
            task.series.iter().filter_map(of_quantity)
        });
        let mut of_tasks: Vec<Peak> = of_tasks.collect();
        tasks.iter_mut().for_each(|task| task.worst = self.book.worst_of(task.thread.tid).map(Box::new));
        self.objects.collect();
        self.objects.name_in(&tasks, peaks.iter_mut().chain(&mut of_tasks).chain(&mut maxima));
        self.objects.describe(&self.book.evidence_of().memory, &mut tasks);
        let old_files = self.since_reset.as_ref();
        let old_files = old_files.map(|since| (since.part(&cumulative), since.worst())).unwrap_or_default();
        let snapshot = Snapshot {
            begin: self.begin,
            end,
            series,
            old_files,
            tasks,
            maxima,
            of_tasks,
            peaks,
            flight,
            interference: self.interference(),
            losses: self.losses(),
        };
        (snapshot, cumulative)
    }

    /// The old files restart `quantities` from now on.
    pub fn reset(&mut self, quantities: &[Quantity]) {
        let (snapshot, cumulative) = self.read();
        if let Some(since) = &mut self.since_reset {
            since.reset(quantities, &cumulative, snapshot.end);
        }
    }

    /// Ends the recording: late tasks whose activation never ended become cases too, and so do those that still wait for a
    /// CPU. The last snapshot is taken after it.
    pub fn finish(&mut self) {
        self.poll();
        let (end, open) = self.recorder.stop();
        self.starving.clear(); // they are among these
        self.poll();
        for (activation, state) in &open {
            if *state == State::Waits {
                self.waited_until_the_end(activation);
            }
            let begun = self.recorder.begun_before(activation);
            begun.iter().for_each(|begun| _ = self.tasks.add(&self.objects.with_sources(begun)));
            self.tasks.goes_on(activation, *state);
        }
        if self.settings.is_application() {
            self.notes.extend(asleep::note(self.recorder.never_woke()));
            for (who, process, policy, ran) in self.recorder.measured() {
                let ran = ran.saturating_sub(self.found.ran_before(who.tid));
                self.tasks.ran(who, process, policy, ran);
            }
        }
        self.tasks.end(end, |tid| self.recorder.blocks_at_the_end(tid));
        self.late_jobs();
        self.book.close();
        self.objects.finish();
    }

    /// The culprit of the latest of the worst on `cpu`, as of the last snapshot; empty: none yet.
    #[must_use]
    pub fn last_culprit(&self, cpu: lathunt_core::time::Cpu) -> &str {
        self.book.last_culprit(cpu)
    }

    /// Start of the window.
    #[must_use]
    pub fn since(&self) -> Mono {
        self.begin
    }

    /// What this kernel cannot record, and the consequence: one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The underlying recorder.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn interference(&self) -> Vec<Interference> {
        let taken = |by: recorder::Interference| {
            let recorder::Interference { cpu, source, count, total_ns, max_ns } = by;
            Interference { cpu, source: source.to_string(), count, total_ns, max_ns }
        };
        let mut all: Vec<Interference> = self.recorder.interference().into_iter().map(taken).collect();
        all.sort_by_key(|taken| std::cmp::Reverse(taken.total_ns));
        all
    }

    /// Losses since the recording began; empty: none.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let own = [
            (
                "activations_overwritten",
                self.overwritten,
                "activations overwritten before they were read: in the figures of CPUs, but not in those of threads",
            ),
            (
                "threads_beyond_limit",
                self.tasks.not_kept(),
                "activations of threads beyond the limit of separate figures: only their wake-ups are counted, for their CPU and for \"(others)\"",
            ),
        ];
        let not_measured = [
            (
                NOT_WATCHED,
                self.found.without_room.len() as u64,
                "threads without a free slot in the recorder's table (8192 slots, 4 for each thread to choose from): not measured",
            ),
            (
                BEFORE_FOUND,
                self.found.missed,
                "activations, at most, of threads before their discovery: threads that the kernel side does not follow are looked up once a second",
            ),
        ];
        let own = own.into_iter().chain(not_measured).filter(|&(_, count, _)| count > 0);
        let loss = |(counter, count, meaning): (&str, u64, &str)| Loss {
            counter: counter.to_owned(),
            count,
            meaning: meaning.to_owned(),
            evidence_only: ![NOT_WATCHED, BEFORE_FOUND].contains(&counter),
        };
        self.recorder.losses().into_iter().chain(own.map(loss)).collect()
    }
}

/// Starts measuring the threads that match now.
fn look(found: &mut Found, recorder: &Recorder, selection: &Selection) {
    found.look(threads(selection), |tid| recorder.watch(tid).ok());
}

fn threads(selection: &Selection) -> Vec<Tid> {
    selection.threads().ok().flatten().unwrap_or_default() // a process may have ended since
}
