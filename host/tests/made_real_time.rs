//! Threads that become real-time, or stop being so, by what another thread does: none of their jobs is left out.

mod cyclic_thread;

use std::io::{pipe, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cyclic_thread::{clock, enter, enter_first, one_cpu, sleep_until};
use lathunt_core::application::Task;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_host::recording::{Recording, Settings};
use lathunt_host::sched;
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);
/// Length of the first job; the others are short.
const LONG: Ns = Ns::from_ms(200);
const JOBS: u64 = 10;
/// Their threads are on the same CPU.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn recording() -> Recording {
    Recording::start(Settings::on(CpuSet::from_iter([CPU]))).unwrap_or_else(|error| panic!("{error}"))
}

fn task_of(mut recording: Recording, tid: Tid) -> Task {
    recording.finish();
    let tasks = recording.snapshot().tasks;
    let found = tasks.iter().find(|task| task.thread.tid == tid).cloned();
    found.unwrap_or_else(|| panic!("{tid} is not among {tasks:?}"))
}

fn make_real_time(tid: Tid) {
    let param = libc::sched_param { sched_priority: 10 };
    // SAFETY: plain values, of a thread of this process.
    assert_eq!(unsafe { libc::sched_setscheduler(tid.0, libc::SCHED_FIFO, &param) }, 0);
}

fn until_asleep(tid: Tid) {
    let sleeps = || std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap().contains(") S ");
    while !sleeps() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn spin_until(end: Mono) {
    while clock() < end {
        std::hint::spin_loop();
    }
}

/// Another thread makes it real-time while it waits for a request.
fn served_after_it_was_made_real_time() -> Task {
    let (mut requests, mut request) = pipe().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let (finish, finishes) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            enter(CPU, 0);
            tell.send(sched::tid()).unwrap();
            for job in 0..JOBS {
                requests.read_exact(&mut [0]).unwrap();
                if job == 0 {
                    spin_until(clock() + LONG);
                }
                finish.send(()).unwrap();
            }
        });
        enter_first(Cpu(1));
        let tid = told.recv().unwrap();
        until_asleep(tid);
        let recording = recording();
        make_real_time(tid);
        for _ in 0..JOBS {
            until_asleep(tid);
            request.write_all(&[0]).unwrap();
            finishes.recv().unwrap();
        }
        task_of(recording, tid)
    })
}

/// The same, while it sleeps until an absolute time.
fn woken_by_a_timer_after_it_was_made_real_time() -> Task {
    let (tell, told) = std::sync::mpsc::channel();
    let begin = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| {
            enter(CPU, 0);
            tell.send(sched::tid()).unwrap();
            while begin.load(Ordering::Acquire) == 0 {
                sleep_until(clock() + Ns::from_ms(1));
            }
            let begin = Mono(begin.load(Ordering::Acquire));
            sleep_until(begin);
            spin_until(begin + LONG);
            for job in 1..=JOBS {
                sleep_until(begin + LONG + Ns::from_ms(20 * job));
            }
        });
        enter_first(Cpu(1));
        let tid = told.recv().unwrap();
        let recording = recording();
        begin.store((clock() + Ns::from_ms(60)).0, Ordering::Release);
        std::thread::sleep(Duration::from_millis(20));
        until_asleep(tid);
        make_real_time(tid);
        ends.join().unwrap();
        task_of(recording, tid)
    })
}

#[test]
#[ignore = "root: run by make test"]
fn the_first_job_of_a_thread_that_another_one_makes_real_time_in_its_wait_is_measured() {
    let what = "the_first_job_of_a_thread_that_another_one_makes_real_time_in_its_wait_is_measured";
    if !may_run(what, lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for staged in [served_after_it_was_made_real_time, woken_by_a_timer_after_it_was_made_real_time] {
        let task = staged();
        let longest = task.of(Quantity::Response).and_then(|series| series.histogram.max());
        // The kernel may have hidden one of its switches.
        let least = LONG.saturating_sub(Ns::from_ms(1)); // its timer was armed with the slack of an ordinary thread
        assert!(longest > Some(least) || task.not_recorded > 0, "{longest:?}, {:?}", task.outside_ns);
        assert!(longest < Some(LONG + Ns::from_ms(50)), "{longest:?}");
        assert!(task.outside_ns < Some(Ns::from_ms(5)), "{:?}", task.outside_ns);
    }
}

/// Another thread makes it real-time while it runs, for [`LONG`] from then on; `preempted`: it loses the CPU meanwhile.
fn at_work_when_it_was_made_real_time(preempted: bool) -> Task {
    let (mut requests, mut request) = pipe().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let end = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            enter(CPU, 0);
            tell.send(sched::tid()).unwrap();
            while clock().0 < end.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            for _ in 0..JOBS {
                requests.read_exact(&mut [0]).unwrap();
            }
        });
        enter_first(Cpu(1));
        let tid = told.recv().unwrap();
        let recording = recording();
        std::thread::sleep(Duration::from_millis(20));
        make_real_time(tid);
        end.store((clock() + LONG).0, Ordering::Release);
        if preempted {
            std::thread::sleep(Duration::from_millis(20));
            let above = scope.spawn(|| {
                enter(CPU, 20);
                spin_until(clock() + Ns::from_ms(1));
            });
            above.join().unwrap();
        }
        for _ in 0..JOBS {
            until_asleep(tid);
            request.write_all(&[0]).unwrap();
        }
        task_of(recording, tid)
    })
}

#[test]
#[ignore = "root: run by make test"]
fn the_work_of_a_thread_that_becomes_real_time_while_it_runs_is_in_its_figures() {
    let what = "the_work_of_a_thread_that_becomes_real_time_while_it_runs_is_in_its_figures";
    if !may_run(what, lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for preempted in [false, true] {
        // A host that takes the CPU, or a kernel that hides a switch, spoils one.
        let outside = || at_work_when_it_was_made_real_time(preempted).outside_ns;
        let seen: Vec<_> = (0..3)
            .map(|_| outside())
            .take_while(|of| *of < Some(LONG.saturating_sub(Ns::from_ms(2))))
            .collect();
        assert!(seen.len() < 3, "preempted: {preempted}: {seen:?}");
    }
}
