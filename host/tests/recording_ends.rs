//! What waits, works or sleeps just when recording ends: reading it takes milliseconds, in which it goes on.

mod cyclic_thread;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cyclic_thread::{clock, enter, enter_first, one_cpu, sleep_until};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::recording::{Recording, Settings};
use lathunt_host::sched;
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);
const TRIES: usize = 5;
/// Their threads are on the same CPUs: together, they would wait for each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn take_name(name: &std::ffi::CStr) {
    // SAFETY: the name lives through the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// A thread waits 300 ms for its CPU, while another one works, until `until`; both end then. Recording ends so much before
/// or after that. Returns the longest wait and the work that was not finished.
fn longest_wait_and_work(end_before_us: i64) -> (Option<Ns>, Option<Ns>) {
    let cpus = CpuSet::from_iter([CPU]);
    let selection = "comm:kept-*".parse().unwrap();
    let mut recording = Recording::start(Settings { selection, ..Settings::on(cpus) }).unwrap();
    let begin = clock() + Ns::from_ms(50);
    let until = begin + Ns::from_ms(310);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            take_name(c"kept-waiting");
            enter(CPU, 10);
            sleep_until(begin + Ns::from_ms(10)); // the other one has the CPU then, and for 300 ms more
        });
        scope.spawn(move || {
            take_name(c"kept-working");
            enter(CPU, 50);
            sleep_until(begin);
            while clock() < until {
                std::hint::spin_loop();
            }
        });
        enter(Cpu(1), 0);
        sleep_until(Mono((until.0 as i64 - end_before_us * 1_000) as u64));
        recording.finish();
    });
    let held = recording.snapshot();
    let of_waits = held.series.iter().find(|series| series.quantity == Quantity::Wakeup);
    let working = held.tasks.iter().find(|task| task.thread.comm == "kept-working");
    let unfinished = working.and_then(|task| task.unfinished.as_ref());
    (of_waits.and_then(|series| series.histogram.max()), unfinished.map(|unfinished| unfinished.after_ns))
}

#[test]
#[ignore = "root: run by make test"]
fn what_waits_and_what_works_just_when_recording_ends_is_in_the_figures() {
    if !may_run("what_waits_and_what_works_just_when_recording_ends", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Reading what is unfinished takes some ms, in which both threads may end.
    for end_before_us in [40_000, 15_000, 8_000, 6_000, 5_000, 4_000, 3_000, 2_000, -5_000] {
        let is_there = || {
            let (waited, worked) = longest_wait_and_work(end_before_us);
            assert!(waited > Some(Ns::from_ms(200)), "{end_before_us} us before: waited {waited:?}");
            worked > Some(Ns::from_ms(200))
        };
        let ended = end_before_us < 3_000; // perhaps before recording did
                                           // A host that takes the CPU ends recording later than asked.
        let is_in_the_figures = (0..TRIES).any(|_| is_there() || ended);
        assert!(is_in_the_figures, "{end_before_us} us before: its work is not in the figures");
    }
}

/// Blocks until `word` is not 0. True: it was woken while it was going to sleep, and kept its CPU.
fn is_woken_on_its_way(word: &AtomicU32) -> bool {
    let blocks = || {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: a valid pointer; the thread exists.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: zeroes are a valid value, too.
        unsafe { usage.assume_init() }.ru_nvcsw
    };
    let before = blocks();
    // SAFETY: the word lives through the call; no timeout.
    let woken = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, std::ptr::null::<libc::timespec>())
    };
    woken == 0 && blocks() == before
}

/// A thread is woken on its way to sleep and then sleeps for 400 ms, unless that takes more than a second to come about.
/// Recording ends 2 ms before that sleep does. Returns the longest wait for a CPU.
fn longest_wait_of_a_sleeper() -> Option<Option<Ns>> {
    let selection = "comm:woken-early".parse().unwrap();
    let mut recording =
        Recording::start(Settings { selection, ..Settings::on(sched::affinity().unwrap()) }).unwrap();
    let (word, turn, sleeps_until) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
    let give_up = clock() + Ns::from_ms(1_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            take_name(c"woken-early");
            enter(Cpu(1), 0);
            while clock() < give_up {
                word.store(0, Ordering::SeqCst);
                turn.fetch_add(1, Ordering::SeqCst);
                if is_woken_on_its_way(&word) {
                    let until = clock() + Ns::from_ms(400);
                    sleeps_until.store(until.0, Ordering::SeqCst);
                    return sleep_until(until);
                }
            }
            sleeps_until.store(1, Ordering::SeqCst);
        });
        enter(CPU, 0);
        let (mut last, mut delay) = (0, 0);
        while sleeps_until.load(Ordering::SeqCst) == 0 {
            let now = turn.load(Ordering::SeqCst);
            if now == last {
                continue;
            }
            (last, delay) = (now, (delay + 7) % 400);
            (0..delay).for_each(|_| std::hint::spin_loop());
            word.store(1, Ordering::SeqCst);
            // SAFETY: the word lives through the call.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
        }
        let until = sleeps_until.load(Ordering::SeqCst);
        sleep_until(Mono(until.saturating_sub(2_000_000)));
        recording.finish();
        (until > 1).then(|| {
            let held = recording.snapshot();
            held.series
                .iter()
                .filter(|series| series.quantity == Quantity::Wakeup)
                .filter_map(|s| s.histogram.max())
                .max()
        })
    })
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_sleeps_when_recording_ends_waits_for_no_cpu() {
    if !may_run("a_thread_that_sleeps_when_recording_ends_waits_for_no_cpu", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let found: Vec<Option<Ns>> = (0..6).filter_map(|_| longest_wait_of_a_sleeper()).collect();
    assert!(!found.is_empty(), "never woken on its way to sleep");
    assert!(found.iter().all(|&longest| longest < Some(Ns::from_ms(200))), "{found:?}");
}

/// What a thread does when recording ends, in its eleventh job: until that job ends, soon after, and it waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Work,
    Preempted,
    /// In a wait within its job.
    Blocked,
}

/// Evidence takes time to explain.
fn without_evidence() -> Settings {
    Settings { threshold: Ns::from_ms(10_000), ..Settings::on(CpuSet::from_iter([CPU, Cpu(1)])) }
}

/// Length of that job so far, when recording ends; and the activations that are missing in its thread.
fn of_job_across_the_end(at: At, end_before: Ns) -> (Option<Ns>, u64) {
    const JOBS: u64 = 10;
    let selection = "comm:ends-soon".parse().unwrap();
    let mut recording = Recording::start(Settings { selection, ..without_evidence() }).unwrap();
    let begin = clock() + Ns::from_ms(50);
    let until = begin + Ns::from_ms(20 * JOBS + 150);
    let (mut answers, mut answer) = std::io::pipe().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            take_name(c"ends-soon");
            enter(CPU, 10);
            (0..JOBS).for_each(|job| sleep_until(begin + Ns::from_ms(20 * job)));
            sleep_until(begin + Ns::from_ms(20 * JOBS));
            match at {
                At::Blocked => answers.read_exact(&mut [0]).unwrap(),
                At::Work | At::Preempted => {
                    while clock() < until {
                        std::hint::spin_loop();
                    }
                }
            }
            (1..10).for_each(|job| sleep_until(until + Ns::from_ms(job)));
        });
        if at == At::Preempted {
            scope.spawn(move || {
                enter(CPU, 50);
                sleep_until(begin + Ns::from_ms(20 * JOBS + 30));
                while clock() < until {
                    std::hint::spin_loop();
                }
            });
        }
        let answers_in_time = scope.spawn(move || {
            enter(Cpu(1), 20);
            sleep_until(until);
            let _ = answer.write_all(&[0]); // a thread that works has ended, if the host gave it no CPU
        });
        enter_first(Cpu(1));
        sleep_until(Mono(until.0 - end_before.0));
        recording.finish();
        answers_in_time.join().unwrap();
    });
    let tasks = recording.snapshot().tasks;
    let task = tasks.iter().find(|task| task.thread.comm == "ends-soon").unwrap();
    (task.unfinished.as_ref().map(|unfinished| unfinished.after_ns), task.not_recorded)
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_blocks_soon_after_recording_has_ended_lacks_nothing() {
    if !may_run("a_thread_that_blocks_soon_after_recording_has_ended", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for at in [At::Work, At::Preempted, At::Blocked] {
        // Reading what is unfinished takes some ms; a host that takes the CPU ends recording after the job.
        let told = [9_000, 7_000, 5_000, 4_000, 3_000, 2_000, 1_500, 1_000, 500]
            .map(|end_before_us| of_job_across_the_end(at, Ns::from_us(end_before_us)));
        assert!(told.iter().any(|(length, _)| *length > Some(Ns::from_ms(100))), "{at:?}: {told:?}");
        let is_whole = |length: Option<Ns>| length.is_none_or(|length| length > Ns::from_ms(100));
        assert!(told.iter().all(|(length, _)| is_whole(*length)), "{at:?}: {told:?}");
        // The kernel may have hidden one of its switches, at any time of the recording.
        let lacking = told.iter().filter(|(_, lacks)| *lacks > 0).count();
        assert!(lacking <= 2 && told.iter().all(|(_, lacks)| *lacks <= 1), "{at:?}: {told:?}");
    }
}

/// A measured thread forks others while recording ends, which takes 20 ms, as one waits for a CPU.
#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_is_forked_after_the_end_is_not_measured() {
    if !may_run("a_thread_that_is_forked_after_the_end", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let selection = "comm:kept-*".parse().unwrap();
    let mut recording = Recording::start(Settings { selection, ..without_evidence() }).unwrap();
    let begin = clock() + Ns::from_ms(50);
    let until = begin + Ns::from_ms(600);
    let (born, births) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            take_name(c"kept-waiting");
            enter(CPU, 10);
            sleep_until(begin + Ns::from_ms(10));
        });
        scope.spawn(move || {
            take_name(c"kept-working");
            enter(CPU, 50);
            sleep_until(begin);
            while clock() < until {
                std::hint::spin_loop();
            }
        });
        scope.spawn(move || {
            take_name(c"kept-forking");
            enter(Cpu(1), 20);
            sleep_until(begin + Ns::from_ms(80));
            while clock() < begin + Ns::from_ms(500) {
                sleep_until(clock() + Ns::from_ms(5));
                let born = born.clone();
                std::thread::spawn(move || {
                    born.send((sched::tid(), clock())).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(700));
                });
            }
        });
        enter_first(Cpu(1));
        sleep_until(begin + Ns::from_ms(100));
        recording.finish();
    });
    let tasks = recording.snapshot().tasks;
    let working = tasks.iter().find(|task| task.thread.comm == "kept-working").unwrap();
    let end = working.unfinished.as_ref().map(|last| last.since + last.after_ns).unwrap();
    assert!(end < until, "recording ended late");
    let is_told = |tid| tasks.iter().any(|task| task.thread.tid == tid);
    let births: Vec<_> = births.iter().collect();
    let (before, after): (Vec<_>, Vec<_>) = births.iter().partition(|(_, at)| *at <= end);
    assert!(before.iter().any(|&&(tid, _)| is_told(tid)) && !after.is_empty(), "{births:?}");
    assert!(!after.iter().any(|&&(tid, _)| is_told(tid)), "{end:?}: {births:?}");
}
