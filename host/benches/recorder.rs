//! What the recorder costs: CPU time of `perf bench sched pipe` on one CPU (two switches and two wakings an
//! operation), bare, with the whole recorder, with bpftrace's runqlat, and with a tracefs instance of the same events.
//!
//! Rounds alternate and medians are compared. CPU time, not wall time: what else runs on the machine counts less.
//! Needs root; peers that are missing are named. `cargo bench -p lathunt-host --bench recorder [-- ROUNDS]`

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use lathunt_core::time::Cpu;
use lathunt_host::recorder::{Options, Recorder};

const LOOPS: u32 = 100_000;
const TRACEFS: &str = "/sys/kernel/tracing";
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

/// ns of CPU time an operation; `None` when perf cannot be run.
fn pipe_ns(cpu: Cpu) -> Option<f64> {
    let before = children_ns();
    let loops = LOOPS.to_string();
    let status = Command::new("taskset")
        .args(["-c", &cpu.to_string(), "perf", "bench", "sched", "pipe", "-l", &loops])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.ok().filter(std::process::ExitStatus::success)?;
    Some((children_ns() - before) as f64 / f64::from(LOOPS))
}

/// An own instance with the recorder's events; removed when dropped.
struct Instance(PathBuf);

impl Instance {
    fn start() -> Option<Instance> {
        let instance = Instance(Path::new(TRACEFS).join("instances/lathunt-bench"));
        std::fs::create_dir(&instance.0).ok()?;
        let enable =
            |event: &&str| std::fs::write(instance.0.join("events").join(event).join("enable"), "1").is_ok();
        let enabled = EVENTS.iter().filter(|event| enable(event)).count();
        (enabled >= 12).then_some(instance)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("events/enable"), "0");
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// bpftrace's runqlat; ended when dropped.
struct Runqlat(Child);

impl Runqlat {
    fn start() -> Option<Runqlat> {
        let mut command = Command::new("bpftrace");
        command.args(["-e", RUNQLAT]).stdout(Stdio::null()).stderr(Stdio::null());
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let cpu = Cpu(1);
    let mut times: [(&str, Vec<f64>); 4] =
        [("bare", vec![]), ("recorder", vec![]), ("bpftrace runqlat", vec![]), ("tracefs instance", vec![])];
    for _ in 0..rounds {
        times[0].1.extend(pipe_ns(cpu));
        match Recorder::start(&Options::on([Cpu(0), cpu].into_iter().collect())) {
            Ok(recorder) => {
                times[1].1.extend(pipe_ns(cpu));
                drop(recorder);
            }
            Err(error) => println!("SKIPPED recorder: {error}"),
        }
        if let Some(_running) = Runqlat::start() {
            times[2].1.extend(pipe_ns(cpu));
        }
        if let Some(_running) = Instance::start() {
            times[3].1.extend(pipe_ns(cpu));
        }
    }
    if times[0].1.is_empty() {
        println!("SKIPPED recorder bench: perf (package linux-perf) or taskset cannot be run");
        return;
    }
    let bare = median(times[0].1.clone());
    println!(
        "perf bench sched pipe on CPU {cpu}, CPU time an operation, median of {rounds} alternating rounds:"
    );
    for (name, values) in times {
        match values.is_empty() {
            true => println!("{name:18} SKIPPED: cannot be started here (root, bpftrace, tracefs?)"),
            false => {
                let ns = median(values);
                println!("{name:18} {ns:7.0} ns  {:.3} x bare  {:+.0} ns", ns / bare, ns - bare);
            }
        }
    }
}
