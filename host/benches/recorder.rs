//! What the recorder costs: CPU time of `perf bench sched pipe` on one CPU (two switches and two wakings an
//! operation), bare, with the whole recorder, with bpftrace's runqlat, and with a tracefs instance of the same events.
//!
//! Rounds alternate, and medians of the rounds' ratios and differences are taken. CPU time, not wall time: what else
//! runs on the machine counts less.
//! Needs root; peers that are missing are named. `cargo bench -p lathunt-host --bench recorder [-- ROUNDS]`

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use lathunt_core::time::Cpu;
use lathunt_host::recorder::{Floor, Options, Recorder};
use lathunt_host::recording::Settings;
use lathunt_host::tracefs::Tracefs;

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

const LOOPS: u32 = 100_000;
const EVENTS: [&str; 16] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_pi_setprio",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors",
    "timer/hrtimer_expire_entry",
    "timer/hrtimer_expire_exit",
    "power/cpu_idle",
    "nmi/nmi_handler",
    "csd/csd_function_entry",
    "csd/csd_function_exit",
];

/// bpftrace's tools/runqlat.bt without its header, which needs the kernel's sources here.
const RUNQLAT: &str = "
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @qtime[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
    if (args->prev_state == 0) { @qtime[args->prev_pid] = nsecs; }
    $ns = @qtime[args->next_pid];
    if ($ns) { @usecs = hist((nsecs - $ns) / 1000); }
    delete(@qtime[args->next_pid]);
}";

/// CPU time (user and system) of all children waited for so far, ns.
fn children_ns() -> u64 {
    // SAFETY: zeroed plain data that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// How the two tasks of the pipe are scheduled.
#[derive(Clone, Copy, PartialEq)]
enum Pipe {
    /// SCHED_OTHER, before all others of that kind.
    Ordinary,
    /// SCHED_FIFO; a round is over in a second, before throttling would begin.
    RealTime,
}

/// ns of CPU time an operation; `None` when perf cannot be run.
fn pipe_ns(cpu: Cpu, pipe: Pipe) -> Option<f64> {
    let before = children_ns();
    let loops = LOOPS.to_string();
    let scheduled: &[&str] = match pipe {
        Pipe::Ordinary => &["nice", "-n", "-20"],
        Pipe::RealTime => &["chrt", "-f", "20"],
    };
    let status = Command::new(scheduled[0])
        .args(&scheduled[1..])
        .args(["taskset", "-c", &cpu.to_string(), "perf", "bench", "sched", "pipe", "-l", &loops])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.ok().filter(std::process::ExitStatus::success)?;
    Some((children_ns() - before) as f64 / f64::from(LOOPS))
}

/// An own instance with the recorder's events; removed when dropped.
struct Instance {
    path: PathBuf,
    _tracefs: Tracefs,
}

impl Instance {
    fn start() -> Option<Instance> {
        let tracefs = Tracefs::open().ok()?;
        let path = tracefs.root().join("instances/lathunt-bench");
        std::fs::create_dir(&path).ok()?;
        let instance = Instance { path, _tracefs: tracefs };
        let events = instance.path.join("events");
        let enable = |event: &&str| std::fs::write(events.join(event).join("enable"), "1").is_ok();
        let enabled = EVENTS.iter().filter(|event| enable(event)).count();
        (enabled >= 12).then_some(instance)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path.join("events/enable"), "0");
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// bpftrace's runqlat; ended when dropped.
struct Runqlat(Child);

impl Runqlat {
    fn start() -> Option<Runqlat> {
        // It wants tracefs mounted, which not every machine has: here for it alone.
        let mount =
            "[ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", mount, "sh", "bpftrace", "-e", RUNQLAT])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().ok()?;
        let mut runqlat = Runqlat(child);
        sleep(Duration::from_secs(3)); // it compiles and attaches
        runqlat.0.try_wait().ok()?.is_none().then_some(runqlat)
    }
}

impl Drop for Runqlat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What runs beside the pipe. `hunt` uses the whole recorder; `record` leaves ordinary tasks out.
const BESIDE: [&str; 6] = ["bare", "recorder", "record", "bpftrace runqlat", "tracefs instance", "floor"];

/// The recorder as `lathunt record` sets it for real-time tasks.
fn record(cpus: &[Cpu]) -> lathunt_host::error::Result<Recorder> {
    Recorder::start(&Settings::on(cpus.iter().copied().collect()).recorder(None))
}

/// One measurement with `which` running; says why not.
fn one(which: usize, cpu: Cpu, pipe: Pipe) -> Result<f64, String> {
    let cannot = |what: &str| format!("{what} cannot be started here");
    let _running: Box<dyn std::any::Any> = match which {
        0 => Box::new(()),
        1 => {
            let options = Options::on([Cpu(0), cpu].into_iter().collect());
            Box::new(Recorder::start(&options).map_err(|error| error.to_string())?)
        }
        2 => Box::new(record(&[Cpu(0), cpu]).map_err(|error| error.to_string())?),
        5 => Box::new(Floor::start().map_err(|error| error.to_string())?),
        3 => Box::new(Runqlat::start().ok_or_else(|| cannot("bpftrace"))?),
        _ => Box::new(Instance::start().ok_or_else(|| cannot("an instance of tracefs"))?),
    };
    pipe_ns(cpu, pipe).ok_or_else(|| "perf (package linux-perf) or taskset cannot be run".to_owned())
}

/// Rounds of all of `which`, in turns that begin with another one each time.
fn rounds(which: &[usize], rounds: usize, pipe: Pipe) -> Vec<Result<Vec<f64>, String>> {
    let mut times: Vec<Result<Vec<f64>, String>> = which.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..rounds {
        for turn in 0..times.len() {
            let place = (round + turn) % times.len();
            if let Ok(values) = &mut times[place] {
                match one(which[place], Cpu(1), pipe) {
                    Ok(value) => values.push(value),
                    Err(why) => times[place] = Err(why),
                }
            }
        }
    }
    times
}

fn main() {
    let count = figure::rounds(9);
    let times = rounds(&[0, 1, 2, 3, 4], count, Pipe::Ordinary);
    let what = "perf bench sched pipe with the recorder / bare";
    let (bare, recorder, record) = match (&times[0], &times[1], &times[2]) {
        (Ok(bare), Ok(recorder), Ok(record)) => (bare, recorder, record),
        (Err(why), ..) | (_, Err(why), _) | (_, _, Err(why)) => return figure::skipped(what, why),
    };
    figure::at_most(what, figure::median_ratio(recorder, bare), "x", 1.12);
    let what = "  with record of real-time tasks / bare";
    figure::at_most(what, figure::median_ratio(record, bare), "x", 1.05);
    let real_time = rounds(&[0, 2, 5], count, Pipe::RealTime);
    let what = "  the same, the pipe's tasks real-time";
    match (&real_time[0], &real_time[1]) {
        (Ok(bare), Ok(record)) => figure::at_most(what, figure::median_ratio(record, bare), "x", 1.12),
        (Err(why), _) | (_, Err(why)) => figure::skipped(what, why),
    }
    if let (Ok(bare), Ok(floor)) = (&real_time[0], &real_time[2]) {
        let ratio = figure::median_ratio(floor, bare);
        println!("    below it nobody comes: programs that only read the clock  {ratio:.3} x bare");
    }
    let added = |values: &[f64]| {
        let added: Vec<f64> = values.iter().zip(bare).map(|(value, bare)| value - bare).collect();
        figure::median(&added)
    };
    for (name, peer) in BESIDE.iter().zip(&times).skip(3) {
        let what = format!("  its added cost / that of {name}");
        match peer {
            Ok(peer) => figure::below(&what, added(recorder) / added(peer), "x", 0.5),
            Err(why) => figure::skipped(&what, why),
        }
    }
    for (name, values) in BESIDE.iter().zip(&times) {
        if let Ok(values) = values {
            let (ns, ratio) = (figure::median(values), figure::median_ratio(values, bare));
            println!("  {name:18} {ns:7.0} ns an operation  {ratio:.3} x bare  {:+.0} ns", added(values));
        }
    }
}
