//! A recording as `record` and `monitor` make it: what is injected is among the worst cases, at its size, with the
//! injector to blame; windows hold what happened in them.

mod cyclic_thread;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use cyclic_thread::{allowed, clock, CyclicThread};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::peak::Peak;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::calibrate::{agree, disturb, Disturbance, PulseObservation};
use lathunt_host::inject::{Kind, WORKER};
use lathunt_host::recording::{Recording, Settings, Snapshot};
use lathunt_host::testing::{lacks_bpf, may_run};
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;

/// Of an attempt, and so many are judged.
const PULSES: u32 = 6;
/// Kept of each CPU.
const PEAKS: usize = 64;
/// One is enough on a quiet machine. A host that takes whole milliseconds from this guest spoils most pulses of many.
const ATTEMPTS: usize = 24;
const CPU: Cpu = Cpu(0);
/// Their threads are of one priority and on one CPU: together, they would wait for each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The cause that ranks first. A recording of real-time tasks leaves out switches between ordinary ones, so that who
/// held the CPU before is known from the switch that ended it.
fn is_cause(kind: Kind, cause: &str) -> bool {
    match kind {
        Kind::Softirq => cause.contains("softirq NET_RX"),
        _ => cause.contains(WORKER),
    }
}

/// What came of pulses of one kind and length, over all attempts.
#[derive(Default)]
struct Cell {
    /// That alone delayed the thread, as it saw itself.
    pulses: usize,
    /// Among the worst, of the same activation.
    found: usize,
    sized: usize,
    explained: usize,
    blamed: usize,
    cases: String,
}

impl Cell {
    /// Enough to judge.
    fn is_full(&self) -> bool {
        self.pulses >= PULSES as usize
    }

    /// All pulses that hit are there; other load may have taken the evidence of some.
    fn is_right(&self) -> bool {
        self.is_full()
            && self.explained * 2 >= self.pulses
            && self.found * 4 >= self.pulses * 3
            && self.sized * 3 >= self.found * 2
            && self.blamed * 3 >= self.explained * 2
    }
}

/// As many as are kept may have been worse.
fn is_none_of_the_worst(sight: &PulseObservation, snapshot: &Snapshot) -> bool {
    let least = snapshot.peaks.get(PEAKS - 1);
    least.is_some_and(|least| least.total_ns > sight.due)
}

/// Whether nothing but the pulse delayed the thread, as it saw itself, and nothing made the pulse longer.
fn is_alone(sight: &PulseObservation, length: Ns, undisturbed: Ns) -> bool {
    sight.due <= length + allowed(length) && agree(sight.due, sight.peak.latency, undisturbed)
}

/// Disturbs and records.
fn gather(kind: Kind, cpu: Cpu, length: Ns, cell: &mut Cell) -> lathunt_host::error::Result<()> {
    let settings = Settings { peaks: PEAKS, ..Settings::on(CpuSet::from_iter([cpu])) };
    let mut recording = Recording::start(settings)?;
    let what = Disturbance {
        kind,
        cpu,
        length,
        lead: Ns::from_us(30),
        pulses: PULSES,
        priority: 90,
        interval: length + Ns::from_ms(1),
        lock_memory: true,
        only_cpu: false,
    };
    let seen = std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| disturb(&what, None));
        while !disturbing.is_finished() {
            sleep(Duration::from_millis(10));
            recording.poll();
        }
        disturbing.join().unwrap()
    });
    let seen = seen?;
    recording.finish();
    let snapshot = recording.snapshot();
    let quiet = seen.undisturbed.unwrap_or_default();
    for sight in seen.sights.iter().filter(|sight| is_alone(sight, length, quiet)) {
        cell.pulses += 1;
        let mine = |peak: &&Peak| peak.victim.tid == seen.victim && peak.begin == sight.peak.expected;
        let Some(peak) = snapshot.peaks.iter().find(mine) else {
            if is_none_of_the_worst(sight, &snapshot) {
                cell.pulses -= 1;
                continue;
            }
            let near = snapshot.peaks.iter().filter(|peak| {
                peak.begin + Ns::from_ms(5) > sight.peak.expected
                    && peak.begin < sight.peak.expected + Ns::from_ms(5)
            });
            let near: Vec<_> = near.map(|peak| (&peak.victim, peak.begin, peak.total_ns)).collect();
            cell.cases += &format!(
                "\n  due {} at {:?} of {:?} is not among the worst {}: near it {near:?}; lost {:?}",
                sight.due,
                sight.peak.expected,
                seen.victim,
                snapshot.peaks.len(),
                recording.losses().iter().map(|loss| (&loss.counter, loss.count)).collect::<Vec<_>>()
            );
            continue;
        };
        cell.found += 1;
        assert!(
            peak.total_ns <= sight.peak.latency,
            "the switch comes before user space: {peak:?}, {sight:?}"
        );
        cell.sized += usize::from(agree(sight.due, peak.total_ns, quiet));
        if let Some(explanation) = &peak.explanation {
            assert!(explanation.tree.adds_up(), "{explanation:#?}");
            cell.explained += 1;
            cell.blamed += usize::from(is_cause(kind, &explanation.cause));
        }
        cell.cases +=
            &format!("\n  due {} saw {} {:?} {:?}", sight.due, peak.total_ns, peak.culprit, peak.no_evidence);
    }
    Ok(())
}

#[test]
#[ignore = "root: run by make test"]
fn what_is_injected_is_among_the_worst_at_its_size_with_the_injector_to_blame() {
    if !may_run("what_is_injected_is_among_the_worst", lacks_bpf()) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let on_rt = std::fs::read_to_string("/proc/version").is_ok_and(|version| version.contains("PREEMPT_RT"));
    let mut failures = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| !(on_rt && *kind == Kind::Softirq)) {
        for length in [Ns::from_ms(1), Ns::from_ms(3)] {
            let mut cell = Cell::default();
            for _ in 0..ATTEMPTS {
                gather(kind, CPU, length, &mut cell).unwrap_or_else(|error| panic!("{error}"));
                if cell.is_full() {
                    break;
                }
            }
            let told = format!(
                "{kind} of {length}: of {} pulses {} among the worst, {} at their size, {} explained, {} blamed",
                cell.pulses, cell.found, cell.sized, cell.explained, cell.blamed
            );
            println!("{told}");
            if !cell.is_right() {
                failures.push(told + &cell.cases);
            }
        }
    }
    assert!(failures.is_empty(), "{} cells failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
#[ignore = "root: run by make test"]
fn windows_hold_what_happened_in_them_and_nothing_is_lost_in_between() {
    if !may_run("windows_hold_what_happened_in_them", lacks_bpf()) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = CyclicThread::start(CPU, 90);
    let selection = "comm:test-cyclic".parse().unwrap();
    let settings = Settings { selection, ..Settings::on(CpuSet::from_iter([CPU])) };
    let mut recording = Recording::start(settings).unwrap_or_else(|error| panic!("{error}"));
    let (mut samples, mut maxima, mut turns) = (0, Vec::new(), 0);
    for window in 0..6 {
        let until = clock() + Ns::from_ms(250);
        while clock() < until {
            sleep(Duration::from_millis(10));
            recording.poll();
        }
        let held = recording.close_window();
        assert!(held.end.since(held.begin) >= Ns::from_ms(200), "{window}");
        let series = held.series.iter().find(|series| series.quantity == Quantity::TimerWakeup);
        let Some(series) = series else { continue };
        samples += series.histogram.count();
        let max = series.histogram.max().unwrap();
        maxima.push(max);
        let worst = held.peaks.iter().find(|worst| worst.quantity == Quantity::TimerWakeup);
        // The case is known when its thread blocks again, which may be after the window in which it is counted.
        let own = worst.filter(|worst| worst.begin >= held.begin);
        assert!(own.is_none_or(|worst| worst.total_ns <= max), "{window}: {worst:?} {max}");
        let task = held.tasks.iter().find(|task| task.thread.tid == thread.tid);
        turns += task.map_or(0, |task| task.of(Quantity::TimerWakeup).map_or(0, |s| s.histogram.count()));
    }
    let tid = thread.tid;
    let seen = thread.finish();
    sleep(Duration::from_millis(20));
    let last = recording.close_window();
    let rest = last.series.iter().find(|series| series.quantity == Quantity::TimerWakeup);
    maxima.extend(rest.and_then(|series| series.histogram.max()));
    samples += rest.map_or(0, |series| series.histogram.count());
    let task = last.tasks.iter().find(|task| task.thread.tid == tid);
    turns += task.map_or(0, |task| task.of(Quantity::TimerWakeup).map_or(0, |s| s.histogram.count()));
    let cumulative = recording.recorder().series();
    let whole = cumulative.iter().find(|series| series.quantity == Quantity::TimerWakeup).unwrap();
    eprintln!("{samples} samples and {turns} activations in windows with the maxima {maxima:?}");
    assert_eq!(samples, whole.histogram.count(), "the windows add up");
    assert!(samples > 200 && samples <= seen.len() as u64 + 2, "{samples} of {}", seen.len());
    // The first samples may be of a turn that began before it was recorded.
    assert!(turns <= samples && turns + 3 >= samples, "{turns} of {samples}");
    assert_eq!(maxima.iter().max(), whole.histogram.max().as_ref(), "exact, not a bin's edge");
    assert!(maxima.windows(2).any(|pair| pair[1] < pair[0]), "each window has its own maximum: {maxima:?}");
}

/// Of `selection`, while `doing` runs; all that is measured began to be chosen after the recording began.
fn recorded(selection: &str, doing: impl FnOnce()) -> Snapshot {
    let selection = selection.parse().unwrap();
    let cpus = Topology::read(Path::new(LIVE)).unwrap().online;
    let mut recording = Recording::start(Settings { selection, ..Settings::on(cpus) }).unwrap();
    doing();
    recording.look_again();
    sleep(Duration::from_millis(20));
    recording.snapshot()
}

/// Wake-ups by timers of each thread called `name`.
fn timer_wakeups(held: &Snapshot, name: &str) -> Vec<u64> {
    let named = held.tasks.iter().filter(|task| task.thread.comm == name);
    named.map(|task| task.of(Quantity::TimerWakeup).map_or(0, |s| s.histogram.count())).collect()
}

fn take_name(name: &std::ffi::CStr) {
    // SAFETY: a text that ends with a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn sleep_often(times: u32) {
    (0..times).for_each(|_| sleep(Duration::from_millis(2)));
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_is_measured_from_when_it_takes_a_chosen_name_until_it_gives_it_up() {
    if !may_run("a_thread_is_measured_from_when_it_takes_a_chosen_name", lacks_bpf()) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let held = recorded("comm:late-[mn]ame*", || {
        let renamed = std::thread::spawn(|| {
            take_name(c"early");
            sleep_often(10);
            take_name(c"late-name-1");
            sleep_often(20);
            let child = std::thread::spawn(|| sleep_often(5));
            child.join().unwrap();
            take_name(c"other");
            sleep_often(10);
        });
        renamed.join().unwrap();
    });
    let mut counts = timer_wakeups(&held, "late-name-1");
    counts.sort_unstable();
    eprintln!("{counts:?} {:?}", held.losses);
    // All but what this kernel may hide; what came before the name and after it is not in it.
    let near = |count: u64, all: u64| count <= all && count + 2 >= all;
    assert!(counts.len() == 2 && near(counts[0], 5) && near(counts[1], 20), "{counts:?}");
    assert_eq!(held.tasks.len(), 2, "{:?}", held.tasks);
    assert!(!held.losses.iter().any(|loss| loss.counter == "activations_before_found"), "{:?}", held.losses);
}

#[test]
#[ignore = "root: run by make test"]
fn a_program_that_lives_for_milliseconds_is_found_by_its_name_and_by_its_control_group() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount =
        mounts.lines().find(|line| line.contains(" cgroup2 ")).and_then(|line| line.split(' ').nth(1));
    let lacks = || mount.is_none().then_some("needs a mounted cgroup2");
    if !may_run("a_program_that_lives_for_milliseconds", lacks_bpf().or_else(lacks)) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let group = Path::new(mount.unwrap()).join(format!("lathunt-brief-{}", std::process::id()));
    std::fs::create_dir_all(group.join("below")).unwrap();
    let program = std::env::temp_dir().join(format!("brief-{}", std::process::id()));
    std::fs::copy("/usr/bin/sleep", &program).unwrap();
    let name = program.file_name().unwrap().to_str().unwrap().to_owned();
    let run = || {
        let enter =
            format!("echo $$ >{}/below/cgroup.procs; exec {} 0.01", group.display(), program.display());
        let status = std::process::Command::new("sh").args(["-c", &enter]).status();
        assert!(status.unwrap().success());
    };
    let by_name = recorded("comm:brief-*", || (0..3).for_each(|_| run()));
    let by_group = recorded(&format!("cgroup:{}", group.display()), || (0..3).for_each(|_| run()));
    std::fs::remove_file(&program).unwrap();
    std::fs::remove_dir(group.join("below")).unwrap();
    std::fs::remove_dir(&group).unwrap();
    for held in [by_name, by_group] {
        assert_eq!(timer_wakeups(&held, &name), [1, 1, 1], "{:?} {:?}", held.tasks, held.losses);
        assert!(
            !held.losses.iter().any(|loss| loss.counter == "activations_before_found"),
            "{:?}",
            held.losses
        );
    }
}
