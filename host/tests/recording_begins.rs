//! What threads do when recording begins: nothing recorded shows the waking of one that waits for a CPU, nor the release of a job
//! in progress.

mod cyclic_thread;

use std::io::{pipe, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cyclic_thread::{clock, enter, enter_first, one_cpu, sleep_until};
use lathunt_core::application::Deadlines;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::run::Loss;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_host::recorder::{Options, Recorder};
use lathunt_host::recording::{Recording, Selection, Settings};
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);
/// The kernel's clock of a run queue is as old as its last tick.
const TICK: Ns = Ns::from_ms(11);
/// Beyond this, the kernel lets ordinary threads run beside real-time ones.
const LONGEST: Ns = Ns::from_ms(800);

/// What was told of the wait, and what it was.
#[derive(Debug)]
struct Told {
    truth: Ns,
    longest: Ns,
    lost: u64,
    /// Whether the wait began before recording had.
    is_across: bool,
}

/// Number of BPF programs of this process: what grows while a recorder is loaded.
fn programs() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_program = |file: &std::path::PathBuf| file.to_string_lossy() == "anon_inode:bpf-prog";
    open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).filter(is_program).count()
}

/// A thread of `priority` waits for its CPU, which a FIFO thread has from before recording begins until 100 ms after: it was
/// woken, or else preempted. The wait begins once the recorder has loaded `from` programs, however long that takes.
fn wait_across_the_start(priority: i32, is_woken: bool, from: usize) -> Told {
    const EVERY: Ns = Ns::from_ms(1);
    let (tell, told) = std::sync::mpsc::channel();
    let (ends, begin, has_begun) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    let when = || Some(Mono(begin.load(Ordering::Acquire))).filter(|begin| begin.0 > 0);
    let (since, came, begun, mut recorder) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            enter(CPU, priority);
            // SAFETY: no preconditions.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
            let begin = loop {
                sleep_until(clock() + EVERY);
                if let Some(begin) = when() {
                    break begin;
                }
            };
            if is_woken {
                sleep_until(begin + Ns::from_ms(20));
                return (begin + Ns::from_ms(20), clock());
            }
            let mut last = clock();
            loop {
                let now = clock();
                if now.since(last) > Ns::from_ms(50) || now > begin + Ns::from_ms(3_000) {
                    return (last, now);
                }
                last = now;
            }
        });
        scope.spawn(|| {
            enter(CPU, 50);
            while programs() < from && !has_begun.load(Ordering::Relaxed) {
                sleep_until(clock() + EVERY);
            }
            let from = clock() + Ns::from_ms(10);
            begin.store(from.0, Ordering::Release);
            sleep_until(from);
            while !ends.load(Ordering::Relaxed) && clock() < from + Ns::from_ms(3_000) {
                std::hint::spin_loop();
            }
        });
        let options = recorded(told.recv().unwrap());
        enter_first(Cpu(1));
        let recorder = Recorder::start(&options).unwrap_or_else(|error| panic!("{error}"));
        let begun = clock();
        has_begun.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100));
        ends.store(true, Ordering::Relaxed);
        let (since, came): (Mono, Mono) = waits.join().unwrap();
        (since, came, begun, recorder)
    });
    recorder.poll();
    let of_waits = recorder.series().into_iter().find(|series| series.quantity == Quantity::Wakeup).unwrap();
    Told {
        truth: came.since(since),
        longest: of_waits.histogram.max().unwrap_or_default(),
        lost: of_waits.lost,
        is_across: since < begun && begun < came,
    }
}

fn recorded(tid: Tid) -> Options {
    Options { tids: Some(vec![tid]), activations: true, ..Options::on(CpuSet::from_iter([CPU])) }
}

/// The same, if recording begins in the wait, and that is not so long that the kernel lets an ordinary thread run meanwhile.
/// `all`: number of programs of a recorder; attaching them takes longest on a slow machine, and no time on a fast one.
fn wait_across(priority: i32, is_woken: bool, all: usize) -> Told {
    let mut seen = Vec::new();
    for part in 0..22 {
        let told = wait_across_the_start(priority, is_woken, all - all * (part % 11) / 10);
        if told.is_across && told.truth < LONGEST {
            return told;
        }
        seen.push(told);
    }
    panic!("recording takes too long to begin: {seen:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_wait_that_began_before_recording_is_in_the_figures_or_a_loss() {
    if !may_run("a_wait_that_began_before_recording", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    // SAFETY: no preconditions.
    let recorder = Recorder::start(&recorded(Tid(unsafe { libc::gettid() })));
    let all = programs();
    drop(recorder.unwrap_or_else(|error| panic!("{error}")));
    let woken = wait_across(10, true, all);
    assert!(woken.longest <= woken.truth && woken.longest + TICK > woken.truth, "{woken:?}");
    let preempted = wait_across(10, false, all);
    assert!(preempted.longest < Ns::from_ms(50) && preempted.lost == 0, "no wake-up: {preempted:?}");
    // The load balancer may have moved an ordinary thread.
    let ordinary = wait_across(0, true, all);
    assert!(ordinary.longest + TICK > ordinary.truth || ordinary.lost > 0, "{ordinary:?}");
    let preempted = wait_across(0, false, all);
    assert!(preempted.longest < Ns::from_ms(50) && preempted.lost == 0, "no wake-up: {preempted:?}");
}

/// What a thread does when recording begins, after its first jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Work,
    Preempted,
    /// In a wait within its job.
    Sleep,
    /// In its main wait.
    Rest,
}

/// Jobs before and after the one in which recording begins.
const JOBS: u64 = 10;
const NAME: &str = "named-by-other";

/// What was told of a thread whose job lasts until 100 ms after recording began, and the least and most that it was.
#[derive(Debug)]
struct OfJob {
    told: Option<Ns>,
    least: Ns,
    most: Ns,
    activations: u64,
    losses: Vec<Loss>,
}

/// A request to a thread that does not wait yet is queued, and its job is part of the one before.
fn until_asleep(tid: Tid) {
    let sleeps = || std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap().contains(") S ");
    while !sleeps() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// By which its thread is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Id,
    /// That another thread gives it, while recorded.
    Name,
}

/// `None`: recording took too long to begin. A thread of `priority` waits for requests in one pipe, and in its long job, if it has one, for an answer in another.
fn job_across_the_start(at: At, priority: i32, by: By) -> Option<OfJob> {
    let (mut requests, mut request) = pipe().unwrap();
    let (mut answers, mut answer) = pipe().unwrap();
    let main_wait = format!("read {}", requests.as_raw_fd());
    let (tell, told) = std::sync::mpsc::channel();
    let (finish, finishes) = std::sync::mpsc::channel();
    let (ends, latest) = (AtomicBool::new(false), clock() + Ns::from_ms(5_000));
    let spin = || {
        while !ends.load(Ordering::Relaxed) && clock() < latest {
            std::hint::spin_loop();
        }
    };
    let mut ask = |tid, jobs| {
        for _ in 0..jobs {
            until_asleep(tid);
            request.write_all(&[0]).unwrap();
            finishes.recv().unwrap();
        }
    };
    std::thread::scope(|scope| {
        let serves = scope.spawn(|| {
            enter(CPU, priority);
            // SAFETY: no preconditions.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
            let mut serve = |jobs| {
                for _ in 0..jobs {
                    requests.read_exact(&mut [0]).unwrap();
                    finish.send(()).unwrap();
                }
            };
            serve(JOBS);
            if at != At::Rest {
                serve(1);
            }
            match at {
                At::Work | At::Preempted => spin(),
                At::Sleep => answers.read_exact(&mut [0]).unwrap(),
                At::Rest => {}
            }
            let finished = clock();
            finish.send(()).unwrap();
            serve(JOBS);
            finished
        });
        enter_first(Cpu(1));
        let tid = told.recv().unwrap();
        ask(tid, JOBS + u64::from(at != At::Rest));
        if at == At::Preempted {
            scope.spawn(|| {
                enter(CPU, 50);
                spin();
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        let mut begins = clock();
        let settings = Settings {
            selection: match by {
                By::Id => Selection::Pids(vec![tid.0]),
                By::Name => Selection::Comm(vec![NAME.to_owned()]),
            },
            activation: Some(main_wait),
            ..Settings::on(CpuSet::from_iter([CPU]))
        };
        let mut recording = Recording::start(settings).unwrap_or_else(|error| panic!("{error}"));
        if by == By::Name {
            begins = clock();
            std::fs::write(format!("/proc/self/task/{tid}/comm"), NAME).unwrap();
        }
        let begun = clock();
        std::thread::sleep(Duration::from_millis(100));
        ends.store(true, Ordering::Relaxed);
        answer.write_all(&[0]).unwrap();
        finishes.recv().unwrap();
        ask(tid, JOBS);
        let finished: Mono = serves.join().unwrap();
        recording.finish();
        let snapshot = recording.snapshot();
        let tasks = &snapshot.tasks;
        let task = tasks.iter().find(|task| task.thread.tid == tid).unwrap_or_else(|| panic!("{tasks:?}"));
        let job = OfJob {
            told: task.outside_ns,
            least: finished.since(begun),
            most: finished.since(begins),
            activations: task.activations,
            losses: snapshot.losses,
        };
        (finished < latest).then_some(job)
    })
}

/// The same, when the kernel hid no switch.
fn seen_across_the_start(at: At, priority: i32, by: By) -> OfJob {
    let mut seen = (0..8).filter_map(|_| job_across_the_start(at, priority, by));
    seen.find(|job| job.losses.is_empty()).expect("each recording lost something, or took too long to begin")
}

#[test]
#[ignore = "root: run by make test"]
fn the_rest_of_a_job_that_began_before_recording_is_outside_the_response_times() {
    if !may_run("the_rest_of_a_job_that_began_before_recording", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let cases = [
        (At::Work, 10, By::Id),
        (At::Preempted, 10, By::Id),
        (At::Sleep, 10, By::Id),
        (At::Sleep, 0, By::Id),
        (At::Preempted, 0, By::Id),
        (At::Work, 10, By::Name),
        (At::Preempted, 10, By::Name),
    ];
    for (at, priority, by) in cases {
        let job = seen_across_the_start(at, priority, by);
        let told = job.told.unwrap_or_default();
        let case = format!("{at:?}, priority {priority}, by {by:?}: {job:?}");
        assert!((job.least..=job.most + Ns::from_ms(1)).contains(&told), "{case}");
        assert_eq!(job.activations, JOBS - 1, "its last job has no next wait; {case}");
    }
    for priority in [10, 0] {
        let rest = seen_across_the_start(At::Rest, priority, By::Id);
        assert!(rest.told.unwrap_or_default() < Ns::from_ms(100), "it had nothing to do: {rest:?}");
        assert_eq!(rest.activations, JOBS - 1, "its first job counts: {rest:?}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_sleeps_throughout_is_named_with_its_place() {
    if !may_run("a_thread_that_sleeps_throughout", lacks_bpf()) {
        return;
    }
    let (mut requests, mut request) = pipe().unwrap();
    let place = format!("in read {}", requests.as_raw_fd());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: no preconditions.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
            requests.read_exact(&mut [0]).unwrap();
        });
        let tid = told.recv().unwrap();
        until_asleep(tid);
        let settings =
            Settings { selection: Selection::Pids(vec![tid.0]), ..Settings::on(CpuSet::from_iter([CPU])) };
        let mut recording = Recording::start(settings).unwrap_or_else(|error| panic!("{error}"));
        recording.finish();
        request.write_all(&[0]).unwrap();
        let named = |note: &String| note.contains(&place) && note.contains(&format!("/{tid} "));
        assert!(recording.notes().iter().any(named), "{:?}", recording.notes());
    });
}

/// A thread that makes itself real-time while the system is recorded; its first job takes 30 ms of its period of 5 ms. Response
/// times counted, late jobs, and losses.
fn first_job_late() -> (u64, u64, Vec<Loss>) {
    const PERIOD: Ns = Ns::from_ms(5);
    enter_first(Cpu(1));
    let deadlines = Deadlines::of_all(Some(Ns::from_ms(10)));
    let settings = Settings { deadlines, ..Settings::on(CpuSet::from_iter([CPU])) };
    let mut recording = Recording::start(settings).unwrap_or_else(|error| panic!("{error}"));
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let works = scope.spawn(move || {
            enter(CPU, 10);
            let mut next = clock();
            for job in 0..JOBS {
                next = next + PERIOD;
                sleep_until(next);
                while job == 0 && clock() < next + Ns::from_ms(30) {
                    std::hint::spin_loop();
                }
                next = next.max(clock());
            }
            ended.recv().unwrap();
            // SAFETY: no preconditions.
            Tid(unsafe { libc::gettid() })
        });
        std::thread::sleep(Duration::from_millis(200));
        recording.finish();
        ends.send(()).unwrap();
        let (tid, snapshot) = (works.join().unwrap(), recording.snapshot());
        let task = snapshot.tasks.iter().find(|task| task.thread.tid == tid).unwrap();
        let jobs = task.of(Quantity::Response).map_or(0, |series| series.histogram.count());
        (jobs, task.misses, snapshot.losses)
    })
}

#[test]
#[ignore = "root: run by make test"]
fn the_first_job_of_a_thread_that_makes_itself_real_time_counts() {
    if !may_run("the_first_job_of_a_thread_that_makes_itself_real_time", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let mut seen = (0..8).map(|_| first_job_late());
    let whole = seen.find(|(_, _, losses)| losses.is_empty()).expect("each recording lost something");
    // The last job ends in another wait.
    assert_eq!((whole.0, whole.1), (JOBS - 1, 1));
}
