//! Whoever was woken as a real-time task is not late for that waking once it ran as another.

mod cyclic_thread;

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use cyclic_thread::{clock, enter, enter_first, sleep_until};
use lathunt_core::application::Task;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use lathunt_core::trace::activation::Activation;
use lathunt_host::recorder::{Options, Recorder};
use lathunt_host::recording::{Recording, Settings};
use lathunt_host::sched;
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);
/// Their threads are on the same CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Until `end`, on the clock that all of a test share.
fn spin_until(end: Mono) {
    while clock() < end {
        std::hint::spin_loop();
    }
}

/// A lock whose holder inherits the priority of who waits for it.
struct Inheriting(Box<std::cell::UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: it is a lock.
unsafe impl Sync for Inheriting {}

impl Inheriting {
    fn new() -> Inheriting {
        let lock = Inheriting(Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: attributes are made before they are used; the lock stays where it is.
        unsafe {
            let mut how: libc::pthread_mutexattr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&mut how), 0);
            assert_eq!(libc::pthread_mutexattr_setprotocol(&mut how, libc::PTHREAD_PRIO_INHERIT), 0);
            assert_eq!(libc::pthread_mutex_init(lock.0.get(), &how), 0);
        }
        lock
    }

    /// Waits for it for `length`; whether that was in vain.
    fn is_missed_for(&self, length: Ns) -> bool {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid pointer; initialized by `new`.
        unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &mut until);
            let ns = until.tv_nsec as u64 + length.0;
            until.tv_sec += (ns / 1_000_000_000) as libc::time_t;
            until.tv_nsec = (ns % 1_000_000_000) as libc::c_long;
            let missed = libc::pthread_mutex_timedlock(self.0.get(), &until) == libc::ETIMEDOUT;
            if !missed {
                assert_eq!(libc::pthread_mutex_unlock(self.0.get()), 0);
            }
            missed
        }
    }

    fn held_during(&self, what: impl FnOnce()) {
        // SAFETY: initialized by `new`; unlocked by the thread that locked it.
        unsafe {
            assert_eq!(libc::pthread_mutex_lock(self.0.get()), 0);
            what();
            assert_eq!(libc::pthread_mutex_unlock(self.0.get()), 0);
        }
    }
}

/// A thread is woken as a real-time task while another has its CPU, made ordinary before that one leaves, runs, is
/// preempted, and boosted. Its id; `None`: the machine was too busy to stage that.
fn boosted_long_after_its_waking() -> Option<Tid> {
    let lock = Inheriting::new();
    let begin = clock() + Ns::from_ms(50);
    let at = |ms: u64| begin + Ns::from_ms(ms);
    let (send, tid) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            lock.held_during(|| {
                enter(CPU, 10);
                send.send(sched::tid()).unwrap();
                sleep_until(at(20)); // woken while the other one runs
                spin_until(at(75));
                sleep_until(at(77)); // its activation ends while it is boosted
            });
        });
        scope.spawn(move || {
            enter(CPU, 50);
            for (from, to) in [(10, 40), (60, 80)] {
                sleep_until(at(from));
                spin_until(at(to));
            }
        });
        let tid = tid.recv().unwrap();
        let other = scope.spawn(move || {
            enter(Cpu(1), 60);
            sleep_until(at(30));
            let ordinary = libc::sched_param { sched_priority: 0 };
            // SAFETY: plain values, of a thread of this process.
            let made = unsafe { libc::sched_setscheduler(tid.0, libc::SCHED_OTHER, &ordinary) } == 0;
            let in_time = made && clock() < at(38);
            sleep_until(at(68));
            let still = clock() < at(72);
            lock.held_during(|| ()); // it is lent this priority, having run since 40 ms
            in_time && still
        });
        other.join().unwrap().then_some(tid)
    })
}

#[test]
#[ignore = "root: run by make test"]
fn who_ran_as_an_ordinary_task_is_not_late_for_an_older_waking_when_it_is_boosted() {
    let lacks =
        lacks_bpf().or(sched::affinity().is_ok_and(|cpus| cpus.len() < 2).then_some("has one CPU only"));
    if !may_run("who_ran_as_an_ordinary_task_is_not_late_for_an_older_waking", lacks) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut recorder =
        Recorder::start(&Options { activations: true, ..Options::on(CpuSet::from_iter([CPU])) }).unwrap();
    let tid = (0..20).find_map(|_| boosted_long_after_its_waking()).expect("staged once");
    sleep(Duration::from_millis(20));
    recorder.poll();
    let mut late = Vec::new();
    recorder.activations(|activation| {
        if activation.thread.tid == tid && activation.latency() > Ns::from_ms(15) {
            late.push(*activation);
        }
    });
    // It waited as a real-time task until it got the CPU as an ordinary one, and not until it had the priority lent to it.
    let is_ordinary = |activation: &Activation| activation.thread.prio == Prio(120);
    assert!(late.len() <= 1 && late.iter().all(is_ordinary), "{late:?}");
}

/// How a thread loses the priority that it was lent.
#[derive(Clone, Copy, Debug)]
enum Loses {
    /// While it is preempted: the thread that lent it gives up.
    Preempted,
    /// By unlocking, which another thread waited for that preempts it then.
    Unlocking,
}

/// An ordinary thread is woken with a priority lent to it, loses that, works on and sleeps for 500 ms, in which recording ends.
/// `None`: the machine was too busy to stage that.
fn of_who_lost_its_priority(loses: Loses) -> Option<Task> {
    let mut recording = Recording::start(Settings::on(CpuSet::from_iter([CPU, Cpu(1)]))).unwrap();
    let lock = Inheriting::new();
    let begin = clock() + Ns::from_ms(50);
    let at = |ms: u64| begin + Ns::from_ms(ms);
    let (send, tid) = std::sync::mpsc::channel();
    let tid = std::thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            enter(CPU, 0);
            send.send(sched::tid()).unwrap();
            sleep_until(begin);
            lock.held_during(|| {
                sleep_until(at(30));
                spin_until(at(60));
            });
            spin_until(at(100));
            sleep_until(at(700));
        });
        let tid = tid.recv().unwrap();
        if let Loses::Preempted = loses {
            scope.spawn(move || {
                enter(CPU, 50);
                sleep_until(at(40));
                spin_until(at(70));
            });
        }
        let lends = scope.spawn(move || {
            enter(Cpu(1), 20);
            sleep_until(at(20));
            match loses {
                Loses::Preempted => lock.is_missed_for(Ns::from_ms(35)) && clock() < at(65),
                Loses::Unlocking => {
                    enter(CPU, 20);
                    let in_time = clock() < at(28);
                    lock.held_during(|| spin_until(at(80)));
                    in_time
                }
            }
        });
        enter_first(Cpu(1));
        sleep_until(at(600));
        recording.finish();
        lends.join().unwrap().then_some(tid)
    })?;
    let tasks = recording.snapshot().tasks;
    tasks.iter().find(|task| task.thread.tid == tid).cloned()
}

#[test]
#[ignore = "root: run by make test"]
fn the_activation_of_who_lost_a_lent_priority_ends_when_it_blocks() {
    let lacks =
        lacks_bpf().or(sched::affinity().is_ok_and(|cpus| cpus.len() < 2).then_some("has one CPU only"));
    if !may_run("the_activation_of_who_lost_a_lent_priority_ends_when_it_blocks", lacks) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for loses in [Loses::Preempted, Loses::Unlocking] {
        let staged = (0..5).find_map(|_| of_who_lost_its_priority(loses));
        let Task { unfinished, outside_ns, series, .. } = staged.unwrap_or_else(|| panic!("never staged"));
        assert_eq!(unfinished, None, "{loses:?}");
        let response = series.iter().find(|series| series.quantity == Quantity::Response);
        let longest = response.and_then(|series| series.histogram.max()).max(outside_ns);
        assert!(
            longest > Some(Ns::from_ms(25)) && longest < Some(Ns::from_ms(150)),
            "{loses:?}: {longest:?}"
        );
    }
}
