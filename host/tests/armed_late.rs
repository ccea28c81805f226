//! A timer armed after its expiry is late by the thread's own doing, whatever else is recorded.

mod cyclic_thread;

use cyclic_thread::{clock, enter, sleep_until};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_host::recorder::{Options, Recorder};
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);
/// How long ago the thread should have slept; longer than any stall of a virtual machine.
const AGO: u64 = 300_000_000;
const SLEEPS: u64 = 20;

#[test]
#[ignore = "root: run by make test"]
fn a_sleep_until_a_time_that_has_passed_is_late_from_the_call() {
    if !may_run("a_sleep_until_a_time_that_has_passed_is_late_from_the_call", lacks_bpf()) {
        return;
    }
    for activations in [false, true] {
        let cpus = CpuSet::from_iter([CPU]);
        let options = Options { tids: Some(Vec::new()), activations, ..Options::on(cpus) };
        let mut recorder = Recorder::start(&options).unwrap_or_else(|error| panic!("{error}"));
        let (tell, told) = std::sync::mpsc::channel();
        let (begin, begins) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            enter(CPU, 90);
            // SAFETY: no preconditions.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
            begins.recv().unwrap();
            for _ in 0..SLEEPS {
                sleep_until(Mono(clock().0 - AGO));
                sleep_until(Mono(clock().0 + 2_000_000));
            }
        });
        recorder.watch(told.recv().unwrap()).unwrap();
        begin.send(()).unwrap();
        thread.join().unwrap();
        recorder.poll();
        let series = recorder.series();
        for quantity in [Quantity::Timer, Quantity::TimerWakeup] {
            let found = series.iter().find(|series| series.quantity == quantity).unwrap();
            let (count, max) = (found.histogram.count(), found.histogram.max().unwrap());
            assert!(max < Ns(AGO), "{quantity:?}, activations {activations}: {max:?}");
            assert!(count + found.lost >= 2 * SLEEPS, "{quantity:?}: {count} recorded, {} lost", found.lost);
        }
    }
}
