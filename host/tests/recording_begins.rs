//! What waits for a CPU when recording begins: nothing recorded shows its waking.

mod cyclic_thread;

use std::sync::atomic::{AtomicBool, Ordering};

use cyclic_thread::{clock, enter, sleep_until};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_host::recorder::{Options, Recorder};
use lathunt_host::sched;
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
    /// How long it took to begin the recording, and whether the wait began before that was done.
    beginning: Ns,
    is_across: bool,
}

/// A thread of `priority` waits for its CPU, which a FIFO thread has from before recording begins until 100 ms after: it was
/// woken, or else preempted. Loading the recorder begins `lead` before the wait.
fn wait_across_the_start(priority: i32, is_woken: bool, lead: Ns) -> Told {
    let (tell, told) = std::sync::mpsc::channel();
    let (ends, begin) = (AtomicBool::new(false), clock() + Ns::from_ms(50) + lead);
    let (since, came, begins, begun, mut recorder) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            enter(CPU, priority);
            // SAFETY: no preconditions.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
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
            sleep_until(begin);
            while !ends.load(Ordering::Relaxed) && clock() < begin + Ns::from_ms(3_000) {
                std::hint::spin_loop();
            }
        });
        let options = Options {
            tids: Some(vec![told.recv().unwrap()]),
            activations: true,
            ..Options::on(CpuSet::from_iter([CPU]))
        };
        enter(Cpu(1), 0);
        // SAFETY: a plain call, for this thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        sleep_until(Mono(begin.0 + 40_000_000 - lead.0));
        let begins = clock();
        let recorder = Recorder::start(&options).unwrap_or_else(|error| panic!("{error}"));
        let begun = clock();
        std::thread::sleep(std::time::Duration::from_millis(100));
        ends.store(true, Ordering::Relaxed);
        let (since, came): (Mono, Mono) = waits.join().unwrap();
        (since, came, begins, begun, recorder)
    });
    recorder.poll();
    let of_waits = recorder.series().into_iter().find(|series| series.quantity == Quantity::Wakeup).unwrap();
    Told {
        truth: came.since(since),
        longest: of_waits.histogram.max().unwrap_or_default(),
        lost: of_waits.lost,
        beginning: begun.since(begins),
        is_across: since < begun && begun < came,
    }
}

/// The same, if recording begins in the wait, and that is not so long that the kernel lets an ordinary thread run meanwhile.
/// The last recorder took `beginning` to load.
fn wait_across(priority: i32, is_woken: bool, beginning: &mut Ns) -> Told {
    let mut seen = Vec::new();
    for part in 1..16 {
        let lead = Ns(beginning.0 * (part % 11) / 10);
        let told = wait_across_the_start(priority, is_woken, lead);
        *beginning = told.beginning;
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
    let one_cpu = || sched::affinity().is_ok_and(|cpus| cpus.len() < 2).then_some("has one CPU only");
    if !may_run("a_wait_that_began_before_recording", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let mut beginning = Ns::from_ms(200);
    let woken = wait_across(10, true, &mut beginning);
    assert!(woken.longest <= woken.truth && woken.longest + TICK > woken.truth, "{woken:?}");
    let preempted = wait_across(10, false, &mut beginning);
    assert!(preempted.longest < Ns::from_ms(50) && preempted.lost == 0, "no wake-up: {preempted:?}");
    // The load balancer may have moved an ordinary thread.
    let ordinary = wait_across(0, true, &mut beginning);
    assert!(ordinary.longest + TICK > ordinary.truth || ordinary.lost > 0, "{ordinary:?}");
    let preempted = wait_across(0, false, &mut beginning);
    assert!(preempted.longest < Ns::from_ms(50) && preempted.lost == 0, "no wake-up: {preempted:?}");
}
