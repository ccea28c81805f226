//! The kernel recorder on this kernel: what a FIFO thread suffers is seen, sized, and its evidence kept.

mod cyclic_thread;

use std::thread::sleep;
use std::time::Duration;

use cyclic_thread::{enter, CyclicThread};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Ns};
use lathunt_core::trace::event::Kind;
use lathunt_host::recorder::{Options, Recorder};
use lathunt_host::symbols::Symbols;
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);

fn options() -> Options {
    Options::on(CpuSet::from_iter([CPU]))
}

fn start(options: &Options) -> Recorder {
    Recorder::start(options).unwrap_or_else(|error| panic!("{error}"))
}

fn of(series: &[Series], quantity: Quantity) -> &Series {
    series.iter().find(|series| series.quantity == quantity).unwrap()
}

fn lost(recorder: &Recorder, counter: &str) -> u64 {
    recorder.losses().iter().find(|loss| loss.counter == counter).map_or(0, |loss| loss.count)
}

#[test]
#[ignore = "root: run by make test"]
fn every_wake_up_of_a_fifo_thread_is_measured_once_and_below_what_the_thread_saw() {
    if !may_run("every_wake_up_of_a_fifo_thread_is_measured_once", lacks_bpf()) {
        return;
    }
    let mut recorder = start(&Options { tids: Some(Vec::new()), ..options() });
    let thread = CyclicThread::start(CPU, 90);
    recorder.watch(thread.tid).unwrap();
    for _ in 0..40 {
        sleep(Duration::from_millis(25));
        recorder.poll();
    }
    let mut seen = thread.finish();
    let series = recorder.series();
    let both = of(&series, Quantity::TimerWakeup);
    eprintln!(
        "{:?} late {} {:?}",
        series.iter().map(|s| s.histogram.count()).collect::<Vec<_>>(),
        seen.iter().filter(|l| l.0 > 900_000).count(),
        recorder.losses()
    );
    let off = both.histogram.count().abs_diff(seen.len() as u64);
    assert!(off <= 2, "recorder {}, thread {}", both.histogram.count(), seen.len());
    assert_eq!(both.lost, 0);
    assert_eq!(of(&series, Quantity::Timer).histogram.count(), both.histogram.count());
    seen.sort_unstable();
    // The thread's own figure contains the recorder's and the way to user space.
    assert!(both.histogram.min().unwrap() <= seen[0]);
    assert!(both.histogram.quantile(0.5).unwrap() <= seen[seen.len() / 2] + Ns(1_000));
    assert!(both.histogram.max().unwrap() <= seen[seen.len() - 1]);
    let worst_second = both.seconds.iter().map(|second| second.max_ns).max();
    assert_eq!(worst_second, both.histogram.max());
    let timer = recorder.interference().into_iter().find(|i| i.source.to_string().contains("local_timer"));
    if cfg!(target_arch = "x86_64") {
        assert!(timer.unwrap().count >= seen.len() as u64);
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_freeze_holds_the_switch_back_and_exhausted_buffers_are_counted() {
    if !may_run("a_freeze_holds_the_switch_back_and_exhausted_buffers_are_counted", lacks_bpf()) {
        return;
    }
    let mut recorder = start(&options());
    let freezer = recorder.freezer(CPU);
    let asking = std::thread::spawn(move || {
        enter(CPU, 10);
        let ask = |_| {
            let id = freezer.freeze();
            sleep(Duration::from_millis(2)); // the switch that freezes
            id
        };
        // SAFETY: no preconditions.
        ((0..5).map(ask).collect::<Vec<_>>(), unsafe { libc::gettid() })
    });
    let (ids, tid) = asking.join().unwrap();
    assert_eq!(ids, [Some(1), Some(2), Some(3), None, None]);
    assert_eq!(lost(&recorder, "no_flight_buffer_asked"), 2);

    let frozen = recorder.poll();
    assert_eq!(frozen.iter().map(|frozen| frozen.id).collect::<Vec<_>>(), [1, 2, 3]);
    let symbols = Symbols::read().unwrap();
    for frozen in &frozen {
        assert!(frozen.trigger.asked && frozen.trigger.victim.is_none());
        let window = frozen.decode(&symbols).unwrap();
        let left = window.events.iter().any(|event| {
            event.at == frozen.trigger.at
                && matches!(event.kind, Kind::Switch { prev, .. } if prev.tid.0 == tid)
        });
        assert!(left, "the switch that froze {} is not in it", frozen.id);
        assert!(!window.events.iter().any(|event| matches!(event.kind, Kind::Lost { .. })));
    }
    let second = frozen[1].decode(&symbols).unwrap();
    let first = frozen[0].decode(&symbols).unwrap();
    assert_eq!(second.complete_from, first.complete_from, "a ring carries the one before it");
    assert!(recorder.freezer(CPU).freeze().is_some(), "read buffers are free again");
}

#[test]
#[ignore = "root: run by make test"]
fn the_kernel_side_freezes_by_itself_and_counts_what_it_cannot_keep() {
    if !may_run("the_kernel_side_freezes_by_itself_and_counts_what_it_cannot_keep", lacks_bpf()) {
        return;
    }
    let mut recorder = start(&Options { peaks_threshold: Some(Ns(1)), ..options() });
    let thread = CyclicThread::start(CPU, 90);
    sleep(Duration::from_millis(100));
    recorder.set_threshold(CPU, Ns(u64::MAX));
    sleep(Duration::from_millis(10));
    let frozen = recorder.poll();
    assert_eq!(frozen.len(), 3);
    for frozen in &frozen {
        let victim = frozen.trigger.victim.expect("the kernel side asked");
        assert_eq!((victim.tid, &victim.comm[..11]), (thread.tid, &b"test-cyclic"[..]));
        assert!(victim.switched_in <= frozen.trigger.at);
    }
    assert!(lost(&recorder, "no_flight_buffer") >= 20, "{:?}", recorder.losses());
    assert_eq!(recorder.poll().len(), 0, "nothing is late any more");
    thread.finish();
}

#[test]
fn a_cpu_that_does_not_exist_is_named() {
    if !may_run("a_cpu_that_does_not_exist_is_named", lacks_bpf()) {
        return;
    }
    let options = Options::on(CpuSet::from_iter([Cpu(8_000)]));
    let error = Recorder::start(&options).err().expect("there is no CPU 8000").to_string();
    assert!(error.contains("CPU 8000"), "{error}");
}
