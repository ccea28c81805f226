//! The cyclic instrument on a real CPU: sizes, counts, ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::instrument::cyclic::{Clock, Cyclic, Hooks, OnPeak, Options, ThreadResult, Wait};
use lathunt_host::sched::{self, Policy};
use lathunt_host::testing::{lacks_root, may_run};

fn any_cpu() -> Cpu {
    sched::affinity().unwrap().iter().last().unwrap()
}

/// Without rights: the ordinary policy, unlocked.
fn modest() -> Options {
    let mut options = Options::on([any_cpu()]);
    options.policy = Policy::Other;
    options.lock_memory = false;
    options.threads[0].interval = Ns::from_us(500);
    options
}

fn run_to_the_end(options: Options) -> Vec<ThreadResult> {
    let cyclic = Cyclic::start(options, Vec::new()).unwrap();
    while cyclic.is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    cyclic.finish()
}

#[test]
fn samples_plus_missed_ones_are_the_periods_that_passed() {
    let mut options = modest();
    options.duration = Some(Ns::from_ms(200));
    let result = run_to_the_end(options).remove(0);
    assert_eq!(result.error, None);
    let periods = result.series.histogram.count() + result.series.missed.unwrap();
    assert!(
        (400..=402).contains(&periods) || result.series.histogram.max() > Some(Ns::from_us(500)),
        "{periods}"
    );
    assert_eq!(result.series.replayed.unwrap().count(), periods);
    assert_eq!(result.worst[0].latency, result.series.histogram.max().unwrap());
    assert!(result.worst.windows(2).all(|pair| pair[0].latency >= pair[1].latency));
    assert_eq!(result.worst[0].woken.since(result.worst[0].expected), result.worst[0].latency);
    assert_eq!(result.series.seconds.iter().map(|s| s.max_ns).max(), result.series.histogram.max());
    assert!(result.worst.iter().all(|worst| worst.cpu == any_cpu()), "the last CPU, where it is bound");
}

#[test]
fn every_way_to_wait_measures_and_ends_after_its_loops() {
    let posix = |absolute| Wait::PosixTimer { absolute };
    for wait in [Wait::Absolute, Wait::Relative, Wait::Nanosleep, posix(true), posix(false)] {
        for clock in [Clock::Monotonic, Clock::Realtime] {
            let mut options = modest();
            (options.wait, options.clock, options.loops) = (wait, clock, Some(20));
            let result = run_to_the_end(options).remove(0);
            assert_eq!(result.series.histogram.count(), 20, "{wait:?} {clock:?}");
            assert!(result.series.histogram.min() < Some(Ns::from_ms(100)), "{wait:?} {clock:?}");
        }
    }
}

#[test]
fn a_long_sleep_ends_at_once_when_it_is_stopped() {
    for wait in [Wait::Absolute, Wait::Relative, Wait::Nanosleep, Wait::PosixTimer { absolute: true }] {
        let mut options = modest();
        options.wait = wait;
        options.threads[0].interval = Ns::from_ms(3_600_000);
        let cyclic = Cyclic::start(options, Vec::new()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let asked = Instant::now();
        let result = cyclic.finish().remove(0);
        assert!(asked.elapsed() < Duration::from_millis(500), "{wait:?}: {:?}", asked.elapsed());
        assert_eq!(result.series.histogram.count(), 0);
        assert_eq!(result.last, None);
    }
}

#[test]
fn a_snapshot_while_it_runs_is_consistent_and_grows() {
    let mut options = modest();
    options.threads[0].interval = Ns::from_us(100);
    let cyclic = Cyclic::start(options, Vec::new()).unwrap();
    let mut last = 0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
        let snapshot = cyclic.snapshot().remove(0);
        // a run file with it must read back: bins, count and extremes agree
        let text = serde_json::to_string(&snapshot.series).unwrap();
        let read: lathunt_core::series::Series = serde_json::from_str(&text).unwrap();
        assert_eq!(read, snapshot.series);
        assert!(snapshot.series.histogram.count() >= last);
        last = snapshot.series.histogram.count();
    }
    assert!(last > 0);
    assert!(cyclic.quantile(0, 0.999) <= cyclic.live(0).max);
}

struct Numbering(Arc<AtomicU64>);

impl OnPeak for Numbering {
    fn peak(&mut self, expected: Mono, woken: Mono, latency: Ns) -> Option<u64> {
        assert_eq!(woken.since(expected), latency);
        Some(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn broke(&mut self, _: Ns) {
        self.0.fetch_add(1_000_000, Ordering::Relaxed);
    }
}

#[test]
fn the_hook_is_called_for_each_new_peak_and_once_for_the_break() {
    let calls = Arc::new(AtomicU64::new(0));
    let mut options = modest();
    (options.peaks, options.break_at) = (4, Some(Ns(1)));
    options.duration = Some(Ns::from_ms(2_000));
    let hooks = Hooks { peak: Some(Box::new(Numbering(Arc::clone(&calls)))), sample: None };
    let cyclic = Cyclic::start(options, vec![hooks]).unwrap();
    while cyclic.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let result = cyclic.finish().remove(0);
    assert_eq!(calls.load(Ordering::Relaxed), 1_000_001, "one peak and one break");
    assert_eq!(result.worst[0].freeze, Some(0));
    assert_eq!(result.broke, result.series.histogram.max());
}

#[test]
fn impossible_settings_are_refused_before_anything_runs() {
    let mut options = modest();
    options.threads[0].interval = Ns::ZERO;
    assert!(Cyclic::start(options, Vec::new()).err().unwrap().to_string().contains("interval of 0"));
    let mut options = modest();
    options.threads[0].cpu = Some(Cpu(8_191));
    assert!(Cyclic::start(options, Vec::new()).err().unwrap().to_string().contains("CPU 8191"));
}

#[test]
#[ignore = "root: run by make test"]
fn a_stall_is_measured_at_its_size_and_its_missed_activations_are_counted() {
    if !may_run("a_stall_is_measured_at_its_size_and_its_missed_activations_are_counted", lacks_root()) {
        return;
    }
    let cpu = any_cpu();
    let mut options = Options::on([cpu]);
    options.threads[0].interval = Ns::from_us(200);
    options.threads[0].priority = 80;
    let cyclic = Cyclic::start(options, Vec::new()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let before = cyclic.live(0);
    let length = Duration::from_millis(20);
    let hog = std::thread::spawn(move || {
        sched::pin(cpu).unwrap();
        sched::set_policy(Policy::Fifo, 90).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < length {}
    });
    hog.join().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let result = cyclic.finish().remove(0);
    let max = result.series.histogram.max().unwrap();
    assert!(max >= Ns::from_us(19_800), "{max} of 20 ms");
    let missed = result.series.missed.unwrap() - before.missed;
    assert!(missed >= 98, "{missed} of about 99");
    let replayed = result.series.replayed.unwrap();
    // without the replay one sample saw the stall; with it every activation inside did
    assert!(replayed.count_from(Ns::from_ms(10)) >= 49, "{}", replayed.count_from(Ns::from_ms(10)));
    assert!(result.series.histogram.count_from(Ns::from_ms(10)) >= 1);
}
