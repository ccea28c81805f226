//! The daemon: records, closes a window at each boundary of the wall clock, stores it, starts the next.
//!
//! One thread does all of it, some ten times a second, at SCHED_OTHER. Its messages go to stderr, one line each: what it
//! records, and everything that a reader of the history needs to know.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lathunt_core::application::Deadlines;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::exceedance::Exceedances;
use lathunt_core::monitor::export::{duration, Published};
use lathunt_core::monitor::timepiece::{Change, ClockOffsets, Reading};
use lathunt_core::monitor::window::{UnixMs, Window};
use lathunt_core::numbers::counted;
use lathunt_core::time::{Mono, Ns};
use lathunt_host::monitor::source::{Settings, Source};
use lathunt_host::monitor::store::{Limits, Saved, Store};
use lathunt_host::monitor::{clocks, http, memory};
use lathunt_host::privileges::{self, Capability};
use lathunt_host::recording::{LateAbove, Selection};
use lathunt_host::topology::Topology;
use lathunt_host::{facts, signals};

use super::scrape;
use crate::on_late::{OnLate, Wanted};

/// Interval of reading the recorder. Eight flight buffers per CPU and a rising threshold bridge it.
const TURN: Duration = Duration::from_millis(100);
/// The same after evidence was found: the threshold is still rising, and buffers may fill quickly.
const SOON: Duration = Duration::from_millis(5);
/// Interval of checking which CPUs are online.
const CPUS_EVERY: Ns = Ns(1_000_000_000);
pub(super) const ROOT: &str = "/";

/// Options of the command.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Length of a window.
    pub window: Ns,
    /// Database of the windows.
    pub database: PathBuf,
    /// Limits of the history.
    pub limits: Limits,
    /// CPUs; `None`: all.
    pub cpus: Option<CpuSet>,
    /// Tasks.
    pub selection: Selection,
    /// Deadlines of their jobs.
    pub deadlines: Deadlines,
    /// Exceedances of deadlines, counted over windows.
    pub exceedances: Exceedances,
    /// Actions on late cases.
    pub on_late: Wanted,
    /// Latency above which a wake-up is late.
    pub latency_deadline: Option<Ns>,
    /// Number of task names with series of their own.
    pub names: usize,
    /// Address of the metrics; `None`: not served.
    pub listen: Option<SocketAddr>,
}

/// Runs until a signal requests the end.
///
/// # Errors
/// If nothing can be recorded, or the database is unusable.
pub fn run(plan: &Plan) -> anyhow::Result<ExitCode> {
    signals::install()?;
    // Most of what may be refused comes first: then no database is created. The recorder comes after the database all the
    // same, because a second monitor must not load one, and while a large database is checked the recorder would not be
    // read.
    let topology = Topology::read(Path::new(ROOT))?;
    let cpus = recorded(&topology, plan)?;
    let listener = plan.listen.map(http::bind).transpose()?;
    let (store, found) = Store::open(&plan.database, plan.limits, clocks::wall(), crate::file::foreign())?;
    found.iter().for_each(|event| say(&event.detail));
    let on_late =
        OnLate::start(&plan.on_late, plan.latency_deadline.filter(|_| plan.deadlines.is_empty()), &cpus)?;
    let preemption = facts::gather(Path::new(ROOT), &cpus).kernel.preemption_model();
    let settings = Settings {
        cpus: cpus.clone(),
        selection: plan.selection.clone(),
        deadlines: plan.deadlines.clone(),
        names: plan.names,
        preemption,
        late: late(plan),
    };
    let (source, notes) = Source::start(settings)?;
    notes.iter().for_each(|note| say(note));
    privileges::keep(&[Capability::Bpf, Capability::Perfmon])?;
    let mut monitor = Monitor::new(plan, store, source, topology.online, cpus, on_late)?;
    if let Some(listener) = listener {
        say(&format!("metrics: http://{}/metrics", listener.local_addr()?));
        scrape::serve(listener, &monitor.source, &monitor.published, &monitor.cpus)?;
    }
    monitor.announce();
    memory::give_back();
    let mut pause = SOON;
    while signals::stop_requested().is_none() {
        std::thread::sleep(monitor.until_boundary().min(pause));
        pause = if monitor.turn() { SOON } else { TURN };
    }
    Ok(monitor.end())
}

/// All possible CPUs, so that one that comes online later is recorded from its first wake-up on.
fn recorded(topology: &Topology, plan: &Plan) -> anyhow::Result<CpuSet> {
    match &plan.cpus {
        None => Ok(topology.possible.clone()),
        wanted => Ok(topology.select(wanted.as_ref())?),
    }
}

/// The cases to act on.
fn late(plan: &Plan) -> LateAbove {
    if !plan.on_late.is_given() {
        return LateAbove::default();
    }
    let above = plan.on_late.above;
    LateAbove {
        wakeups: above.or(plan.latency_deadline),
        jobs: above,
        deadlines: plan.deadlines.clone(),
        stop: None,
    }
}

fn say(line: &str) {
    eprintln!("lathunt monitor: {line}");
}

/// Converts a time to the wall clock.
type Clock = fn(&ClockOffsets, Mono) -> UnixMs;

struct Monitor {
    plan: Plan,
    cpus: CpuSet,
    source: Arc<Mutex<Source>>,
    published: Arc<Mutex<Published>>,
    store: Store,
    timepiece: ClockOffsets,
    online: CpuSet,
    online_at: Mono,
    begin: UnixMs,
    begun: Mono,
    boundary: UnixMs,
    whole: bool,
    /// Windows that were discarded before the database became unwritable; `None`: it is writable.
    failing: Option<u64>,
    closed: u64,
    on_late: Option<OnLate>,
}

impl Monitor {
    fn new(
        plan: &Plan,
        store: Store,
        source: Source,
        online: CpuSet,
        cpus: CpuSet,
        on_late: Option<OnLate>,
    ) -> anyhow::Result<Monitor> {
        let first = clocks::read();
        // Kernel symbols are read after recording began, which takes a while.
        let begun = source.since();
        let timepiece = ClockOffsets::new(first);
        let begin = timepiece.wall_of(begun);
        let mut exceedances = plan.exceedances.clone();
        store.add_to(&mut exceedances, begin)?;
        let published =
            Published::new(env!("CARGO_PKG_VERSION"), plan.window, &store.alltime()?, exceedances);
        let mut monitor = Monitor {
            plan: plan.clone(),
            cpus,
            source: Arc::new(Mutex::new(source)),
            published: Arc::new(Mutex::new(published)),
            store,
            timepiece,
            online,
            online_at: clocks::mono(),
            begin,
            begun,
            boundary: begin.next_boundary(plan.window),
            whole: false, // it starts with the daemon, not at a boundary
            failing: None,
            closed: 0,
            on_late,
        };
        monitor.store.begin(begin, plan.window);
        Ok(monitor)
    }

    fn announce(&mut self) {
        let Plan { window, database, .. } = &self.plan;
        let what = format!(
            "lathunt {} on {}, {} on CPUs {}, windows of {}, in {}",
            env!("CARGO_PKG_VERSION"),
            machine(),
            self.plan.selection,
            self.cpus,
            duration(*window),
            database.display()
        );
        say(&format!("recording: {what}"));
        self.store.event(Event::new(self.begin, Kind::Started, what));
    }

    fn until_boundary(&self) -> Duration {
        let left = self.boundary.0 - clocks::wall().0;
        Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1))
    }

    /// Called some ten times a second; returns true if it should be called again soon.
    fn turn(&mut self) -> bool {
        let reading = clocks::read();
        let now = wall(reading);
        let changes = self.timepiece.look(reading);
        let slept = changes.iter().any(|change| matches!(change, Change::Slept(_)));
        for change in changes {
            self.changed(change, reading);
        }
        let busy = lock(&self.source).poll();
        self.act();
        if now >= self.boundary {
            // A window closed slightly late ends at the boundary; not after a sleep or a stall: later samples are in it.
            let in_time = !slept && now < self.boundary.next_boundary(self.plan.window);
            let end = if in_time { self.boundary } else { now };
            self.close(end, end, in_time, ClockOffsets::wall_of);
        }
        if clocks::mono().since(self.online_at) >= CPUS_EVERY {
            self.online_at = clocks::mono();
            self.look_at_cpus(now);
            lock(&self.source).look_again();
        }
        busy
    }

    /// Acts on late cases, if requested.
    fn act(&mut self) {
        let Some(on_late) = &mut self.on_late else { return };
        let (cases, worst) = lock(&self.source).take_late(on_late.is_ready());
        on_late.noticed(cases);
        if let Some(peak) = worst.filter(|peak| !on_late.is_own(peak)) {
            on_late.act(&peak, |_| anyhow::bail!("a monitor keeps no traces"));
        }
    }

    fn changed(&mut self, change: Change, now: Reading) {
        match change {
            Change::Slept(length) => {
                self.whole = false;
                self.event(wall(now), Kind::Suspend, format!("the machine slept for {length}"));
            }
            Change::Stepped(ns) => {
                let (way, size) = (if ns < 0 { "back" } else { "forward" }, Ns(ns.unsigned_abs()));
                self.event(wall(now), Kind::ClockStep, format!("the wall clock was set {way} by {size}"));
                // Samples until now belong to the old time, with those until the window is closed.
                let end = UnixMs(wall(now).0 - ns.div_euclid(1_000_000));
                self.close(end, wall(now), false, ClockOffsets::wall_before_change);
            }
        }
    }

    fn look_at_cpus(&mut self, now: UnixMs) {
        let Some(online) = clocks::online(Path::new(ROOT)).filter(|online| *online != self.online) else {
            return;
        };
        let told = |what: &str, cpus: CpuSet| (!cpus.is_empty()).then(|| format!("CPUs {cpus} {what}"));
        let changes = [
            told("came online", online.minus(&self.online)),
            told("went offline", self.online.minus(&online)),
            told("are not recorded", online.minus(&self.online).minus(&self.cpus)),
        ];
        let detail = changes.into_iter().flatten().collect::<Vec<_>>().join(", ");
        self.online = online;
        self.event(now, Kind::CpusChanged, detail);
    }

    fn event(&mut self, at: UnixMs, kind: Kind, detail: String) {
        say(&detail);
        self.store.event(Event::new(at, kind, detail));
    }

    /// Closes the window at `end`; the next one starts at `next`. `clock` converts the times of its maxima.
    fn close(&mut self, end: UnixMs, next: UnixMs, in_time: bool, clock: Clock) {
        let window = self.take_window(end, in_time, clock);
        self.begin = next;
        self.begun = clocks::mono();
        self.boundary = next.next_boundary(self.plan.window);
        self.whole = in_time;
        self.save(window, Some((next, self.plan.window)));
        memory::give_back();
    }

    fn take_window(&mut self, end: UnixMs, in_time: bool, clock: Clock) -> Window {
        let mut source = lock(&self.source);
        let series = source.close(&|at| clock(&self.timepiece, at));
        let lost = source.activations_lost();
        drop(source);
        if lost > 0 {
            let detail = format!(
                "{lost} activations were overwritten before they were read: figures of tasks in the window that ended at {end} \
                 lack them; those of CPUs have all"
            );
            lock(&self.published).activations_lost(end);
            self.event(end, Kind::ActivationsLost, detail);
        }
        let measured = clocks::mono().since(self.begun);
        self.closed += 1;
        Window { begin: self.begin.min(end), end, measured, whole: self.whole && in_time, series }
    }

    fn save(&mut self, window: Window, next: Option<(UnixMs, Ns)>) {
        let (at, given_up) = (window.end, self.store.given_up());
        lock(&self.published).closed(&window);
        let saved = self.store.close(window, next);
        lock(&self.published).stored(self.store.waiting(), self.store.given_up());
        match saved {
            Saved::Yes => {
                if let Some(before) = self.failing.take() {
                    self.event(at, Kind::StoreRecovered, recovered(self.store.given_up() - before));
                }
            }
            Saved::Anew(event) => say(&event.detail),
            Saved::Waits(error) => {
                if self.failing.is_none() {
                    self.failing = Some(given_up);
                    self.event(at, Kind::StoreFailed, format!("{error}; windows wait in memory"));
                }
            }
        }
    }

    /// Closes the last window.
    fn end(mut self) -> ExitCode {
        lock(&self.source).finish();
        self.on_late.take().and_then(|on_late| on_late.end().line()).iter().for_each(|line| say(line));
        let now = clocks::wall();
        let window = self.take_window(now, false, ClockOffsets::wall_of);
        self.store.event(Event::new(now, Kind::Stopped, "on request"));
        self.save(window, None);
        let (waiting, given_up) = (self.store.waiting() as u64, self.store.given_up());
        match waiting + given_up {
            0 => {
                say(&format!("ended; windows written: {}, in {}", self.closed, self.plan.database.display()))
            }
            lost => say(&format!(
                "ended; {lost} of {} lost, {} could not be written",
                counted(self.closed, "window"),
                self.plan.database.display()
            )),
        }
        if waiting + given_up > 0 {
            crate::exit::COULD_NOT_MEASURE.into()
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// `board-7 (Linux 6.12.1-rt)`, as far as known.
fn machine() -> String {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let kernel = read("osrelease").map(|release| format!(" (Linux {release})")).unwrap_or_default();
    read("hostname").unwrap_or_else(|| "a host without a name".to_owned()) + &kernel
}

fn recovered(given_up: u64) -> String {
    let written = "the windows that waited are written";
    match given_up {
        0 => written.to_owned(),
        lost => format!("{written}, but for the {lost} oldest, which are lost"),
    }
}

fn wall(reading: Reading) -> UnixMs {
    UnixMs(reading.wall_ns.div_euclid(1_000_000))
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
