//! One run: rights, CPUs, memory, PM QoS, threads, and a turn of the screen every 10 ms.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lathunt_core::conditions::IdleState;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::cyclictest::options::{Options, Policy};
use lathunt_core::cyclictest::plan::Plan;
use lathunt_core::cyclictest::text::{self, Figures};
use lathunt_core::time::Ns;
use lathunt_host::cpuidle::{self, Disabled};
use lathunt_host::instrument::cyclic::tracemark::{MarkOnBreak, TraceMarker};
use lathunt_host::instrument::cyclic::{self as instrument, Clock, Cyclic, Hooks};
use lathunt_host::named_pipe::NamedPipe;
use lathunt_host::{pm_qos, sched, signals};

use super::super::cyclic::{Attach, BreakWatch};
use super::{machine, output, status_file, tap, warn, Failure};

/// One run.
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) plan: Plan,
    pub(super) command: String,
    pub(super) started: SystemTime,
    pub(super) smis: Vec<machine::SmiCounter>,
    status: Option<status_file::StatusFile>,
    fifo: Option<NamedPipe>,
    rings: Vec<Arc<tap::Ring>>,
    /// Of the averages.
    pub(super) sums: Vec<Arc<tap::Sum>>,
    pub(super) overflows: Vec<Arc<tap::Overflows>>,
    pub(super) spikes: Option<Arc<tap::Spikes>>,
    /// Of `-v`: what was printed up to where.
    printed: Vec<Printed>,
    again: bool,
    pub(super) lost: u64,
}

/// How far the samples of one thread are printed, with the reduction of `-o`.
#[derive(Clone, Copy, Default)]
struct Printed {
    next: u64,
    in_group: u64,
    worst: (u64, u64), // cycle, latency
}

impl Session {
    pub(super) fn new(options: Options, plan: Plan, command: String) -> Session {
        let threads = plan.threads.len();
        let each = |wanted: bool| if wanted { threads } else { 0 };
        let rows = options.histogram.unwrap_or(0);
        Session {
            rings: (0..each(options.verbose)).map(|_| Arc::new(tap::Ring::new())).collect(),
            sums: (0..threads).map(|_| Arc::default()).collect(),
            overflows: (0..each(rows > 0)).map(|_| Arc::new(tap::Overflows::new(rows))).collect(),
            spikes: (options.spike > 0).then(|| Arc::new(tap::Spikes::new(options.spike_nodes as usize))),
            printed: vec![Printed::default(); threads],
            options,
            plan,
            command,
            started: SystemTime::now(),
            smis: Vec::new(),
            status: None,
            fifo: None,
            again: false,
            lost: 0,
        }
    }

    pub(super) fn run(&mut self, online: &CpuSet, watch: &mut Attach<'_>) -> Result<(), Failure> {
        let rights = self.set_up(online)?;
        let _held = self.hold_latency();
        let idle_states = self.disable_idle_states(online)?;
        self.check_resolution();
        signals::install().map_err(|error| error.to_string())?;
        self.status = status_file::StatusFile::create();
        self.fifo = match &self.options.fifo {
            Some(path) => Some(NamedPipe::create(&path_of(path)).map_err(|error| error.to_string())?),
            None => None,
        };
        self.say_intervals();
        let specs = self.specs();
        let mut watch = (self.options.breaktrace > 0).then(|| watch(&specs)).flatten();
        let hooks = self.hooks(&mut watch);
        let settings = self.settings(specs, rights);
        let cyclic = Cyclic::start(settings, hooks).map_err(|error| {
            let refused = if rights { "" } else { "Unable to change scheduling policy!\n" };
            let policy = error.to_string().contains("scheduling policy");
            format!("{}{error}", if policy { refused } else { "" })
        })?;
        let ended = self.watch(&cyclic);
        let broke = cyclic.broke();
        let results = cyclic.finish();
        let restored =
            idle_states.map_or(Ok(()), |states| states.restore().map_err(|error| error.to_string()));
        let summary = self.summary(&results, broke, watch);
        ended.and(summary)?;
        restored?;
        match results.iter().find_map(|result| result.error.as_ref()) {
            Some(error) => Err(format!("FATAL: {error}")),
            None => Ok(()),
        }
    }

    /// Rights, CPUs of the main thread, counters. Answers whether real time is allowed.
    fn set_up(&mut self, online: &CpuSet) -> Result<bool, Failure> {
        let plan = &self.plan;
        for remark in &plan.remarks {
            eprintln!("{remark}");
        }
        let highest = plan.threads.iter().map(|thread| thread.priority).max().unwrap_or(0);
        let rights = sched::denied::has_realtime_right(highest.max(1));
        if !rights && highest == 0 {
            warn("no right to real time: the threads run as SCHED_OTHER, and latencies include its timer slack");
        }
        if self.options.verbose {
            let named = plan.named_cpus.as_ref().map(|cpus| format!("Using {} cpus.\n", cpus.len()));
            let named = named.unwrap_or_default();
            let (possible, online) = (machine::possible_count(), online.len());
            self.print(&format!("{named}Max CPUs = {possible}\nOnline CPUs = {online}\n{named}"))?;
        }
        let allowed = sched::affinity().unwrap_or_default();
        let main = match &self.options.main_affinity {
            Some(spec) => Some(spec.resolve(&allowed, online)?),
            None => self.plan.named_cpus.clone(),
        };
        if let Some(Err(error)) = main.map(|cpus| sched::set_affinity(&cpus)) {
            warn(&format!("Couldn't setaffinity in main thread: {error}"));
        }
        if self.options.smi {
            for thread in &self.plan.threads {
                let counter = machine::SmiCounter::start(thread.cpu).map_err(|why| {
                    format!("FATAL: SMI counter is not supported on this processor ({why})")
                })?;
                self.smis.push(counter);
            }
        }
        Ok(rights)
    }

    /// Holds `/dev/cpu_dma_latency` as cyclictest does, and says so.
    fn hold_latency(&mut self) -> Option<pm_qos::Held> {
        let why = match &self.options {
            Options { laptop: true, .. } => Some(" to save battery power"),
            Options { default_system: true, .. } => Some(" from cyclictest"),
            Options { deepest_idle_state: Some(_), .. } => Some(", --deepest-idle-state is set instead"),
            _ => None,
        };
        if let Some(why) = why {
            warn(&format!("not setting cpu_dma_latency{why}"));
            return None;
        }
        match pm_qos::hold(self.options.latency_us) {
            Ok(held) => {
                let _ = self.print(&text::latency_target(self.options.latency_us)); // a closed pipe shows later
                Some(held)
            }
            Err(error) => {
                warn(&error.to_string());
                None
            }
        }
    }

    fn disable_idle_states(&self, online: &CpuSet) -> Result<Option<Disabled>, Failure> {
        let Some(deepest) = self.options.deepest_idle_state else { return Ok(None) };
        let cpus = self.plan.named_cpus.as_ref().unwrap_or(online);
        let is_too_deep = |state: &IdleState| i64::from(state.state) > i64::from(deepest);
        let states = cpuidle::disable(cpus, "idle states of cyclictest", is_too_deep)
            .map_err(|error| format!("Could not set deepest cpu idle state: {error}"))?;
        if states.count == 0 {
            warn(&format!("--deepest-idle-state {deepest}: CPUs {cpus} have no deeper idle state enabled"));
        }
        Ok(Some(states))
    }

    pub(super) fn clock(&self) -> Clock {
        if self.options.clock == 1 {
            Clock::Realtime
        } else {
            Clock::Monotonic
        }
    }

    fn check_resolution(&self) {
        if !self.options.resolution {
            return;
        }
        let reported = instrument::clock::resolution(self.clock());
        let measured = instrument::clock::measured_resolution(self.clock());
        if self.options.verbose || measured > reported {
            warn(&format!("reported clock resolution: {reported} nsec"));
            warn(&format!("measured clock resolution approximately: {measured} nsec"));
        }
    }

    fn say_intervals(&mut self) {
        if !self.options.verbose {
            return;
        }
        // cyclictest has added the distance already when it prints the interval
        let distance = match self.options.histogram {
            None => self.options.distance_us.unwrap_or(500),
            Some(_) => 0,
        };
        let mut lines = String::new();
        for (index, thread) in self.plan.threads.iter().enumerate() {
            if self.plan.named_cpus.is_some() {
                lines += &format!("Thread {index} using cpu {}.\n", thread.cpu);
            }
            lines += &format!("Thread {index} Interval: {}\n", thread.interval_us as i64 + distance);
        }
        let _ = self.print(&lines); // a closed pipe shows at the next turn
    }

    fn hooks(&self, watch: &mut Option<Box<dyn BreakWatch>>) -> Vec<Hooks> {
        let options = &self.options;
        let unit = output::unit(options);
        let rows = u64::from(options.histogram.unwrap_or(0));
        let mut marker_failed = false;
        (0..self.plan.threads.len())
            .map(|thread| {
                let tap = tap::Tap {
                    thread,
                    unit,
                    sum: Arc::clone(&self.sums[thread]),
                    ring: self.rings.get(thread).cloned(),
                    overflows: self.overflows.get(thread).map(|overflows| (rows, Arc::clone(overflows))),
                    spikes: self.spikes.as_ref().map(|spikes| (options.spike, Arc::clone(spikes))),
                };
                let mut hooks = Hooks { peak: None, sample: Some(Box::new(tap)) };
                hooks.peak = watch.as_mut().and_then(|watch| watch.on_peak(thread));
                if options.tracemark && options.breaktrace > 0 && !marker_failed {
                    match TraceMarker::open() {
                        Ok(marker) => {
                            let (limit, unit) = (options.breaktrace as i64, Ns(unit));
                            let next = hooks.peak.take();
                            hooks.peak = Some(Box::new(MarkOnBreak { marker, limit, unit, next }));
                        }
                        Err(error) => {
                            warn(&format!("no trace mark will be written: {error}"));
                            marker_failed = true;
                        }
                    }
                }
                hooks
            })
            .collect()
    }

    /// Turns the screen every 10 ms until the end.
    fn watch(&mut self, cyclic: &Cyclic) -> Result<(), Failure> {
        let mut turn = 0u64;
        loop {
            self.show(cyclic)?;
            self.answer_requests(cyclic, turn);
            std::thread::sleep(Duration::from_millis(10));
            if signals::stop_requested().is_some() || !cyclic.is_running() {
                return Ok(());
            }
            if cyclic.done() > 0 {
                // as cyclictest: the first thread that has its loops ends the run, the others have 50 ms more
                std::thread::sleep(Duration::from_millis(50));
                return Ok(());
            }
            turn += 1;
            if self.options.refresh_on_max && !self.wait_for_max(cyclic) {
                return Ok(());
            }
        }
    }

    /// Waits until some maximum has grown; false when the end came first.
    fn wait_for_max(&mut self, cyclic: &Cyclic) -> bool {
        let threads = self.plan.threads.len();
        let maxima =
            |cyclic: &Cyclic| -> Vec<_> { (0..threads).map(|index| cyclic.live(index).max).collect() };
        let shown = maxima(cyclic);
        let mut turn = 0;
        while maxima(cyclic) == shown {
            if signals::stop_requested().is_some() || !cyclic.is_running() || cyclic.done() > 0 {
                return false;
            }
            self.answer_requests(cyclic, turn);
            turn += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn figures(&self, cyclic: &Cyclic) -> Vec<Figures> {
        let smis = |index| self.smis.get(index).map(machine::SmiCounter::count);
        (0..self.plan.threads.len())
            .map(|index| output::figures(&self.options, &self.plan, index, &cyclic.live(index), smis(index)))
            .collect()
    }

    fn show(&mut self, cyclic: &Cyclic) -> Result<(), Failure> {
        if self.options.verbose {
            self.print_samples()
        } else if !self.options.quiet {
            let figures = self.figures(cyclic);
            self.print_screen(&figures)
        } else {
            Ok(())
        }
    }

    pub(super) fn print_screen(&mut self, figures: &[Figures]) -> Result<(), Failure> {
        let policy = match self.plan.policy {
            Policy::Other => "other",
            Policy::Batch => "batch",
            Policy::Idle => "idle",
            Policy::Fifo => "fifo",
            Policy::RoundRobin => "rr",
        };
        let policy = if self.plan.other { format!("{policy}/other") } else { policy.to_owned() };
        let screen = text::screen(self.again, &policy, &machine::load(), figures, self.options.nsecs);
        self.again = true;
        self.print(&screen)
    }

    pub(super) fn print_samples(&mut self) -> Result<(), Failure> {
        let mut lines = String::new();
        for (thread, (ring, printed)) in self.rings.iter().zip(&mut self.printed).enumerate() {
            let Printed { mut next, mut in_group, mut worst } = *printed;
            self.lost += ring.drain(&mut next, |cycle, latency| {
                if latency > worst.1 {
                    worst = (cycle, latency);
                }
                in_group += 1;
                if in_group == self.options.oscope {
                    lines += &text::sample_line(thread, worst.0, worst.1);
                    (in_group, worst) = (0, (cycle + 1, 0));
                }
            });
            *printed = Printed { next, in_group, worst };
        }
        self.print(&lines)
    }

    /// Signals and readers of the pipe.
    fn answer_requests(&mut self, cyclic: &Cyclic, turn: u64) {
        let (asked, asked_file) = (signals::take_status_request(), signals::take_status_file_request());
        let reader = self.fifo.as_ref().filter(|_| turn.is_multiple_of(5)).and_then(NamedPipe::reader_waits);
        if !asked && !asked_file && reader.is_none() {
            return;
        }
        let figures = self.figures(cyclic);
        if asked {
            eprint!("{}", text::status_report(&figures, self.options.nsecs));
        }
        if let Some(file) = self.status.as_mut().filter(|_| asked_file) {
            file.write(&text::status_report(&figures, self.options.nsecs));
        }
        if let Some(mut reader) = reader {
            let _ = reader.write_all(text::status_lines(&figures, self.options.nsecs).as_bytes());
            // it went away
        }
    }

    /// To stdout at once, for live readers.
    pub(super) fn print(&mut self, text: &str) -> Result<(), Failure> {
        lathunt_host::stdout::write(text.as_bytes())
            .map_err(|error| format!("cannot write to stdout: {error}"))
    }
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
