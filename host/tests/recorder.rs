//! The kernel recorder on this kernel: what a FIFO thread suffers is seen, sized, and its evidence kept.

mod cyclic_thread;

use std::thread::sleep;
use std::time::Duration;

use cyclic_thread::{clock, enter, sleep_until, CyclicThread, Turns};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::trace::event::Kind;
use lathunt_host::recorder::{Frozen, Options, Recorder};
use lathunt_host::sched;
use lathunt_host::symbols::Symbols;
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);
/// Of each CPU; one is always being written.
const BUFFERS: u64 = 8;

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
fn a_wake_up_is_measured_below_what_the_thread_saw_or_said_to_be_missing() {
    if !may_run("a_wake_up_is_measured_below_what_the_thread_saw_or_said_to_be_missing", lacks_bpf()) {
        return;
    }
    let mut recorder = start(&Options { tids: Some(Vec::new()), ..options() });
    let thread = CyclicThread::start(CPU, 98);
    recorder.watch(thread.tid).unwrap();
    for _ in 0..40 {
        sleep(Duration::from_millis(25));
        recorder.poll();
    }
    let mut seen = thread.finish();
    recorder.poll();
    let series = recorder.series();
    let both = of(&series, Quantity::TimerWakeup);
    let (recorded, taken, unseen) =
        (both.histogram.count(), seen.len() as u64, lost(&recorder, "wakeups_not_seen"));
    eprintln!("{recorded} of {taken} wake-ups recorded, {unseen} times switches went unseen");
    // Two may be under way at the ends. More may only be missing where it is said, also in the series.
    assert!(recorded <= taken + 2, "{recorded} recorded of {taken}");
    assert!(recorded + 2 >= taken || unseen > 0, "{recorded} of {taken}, silently: {:?}", recorder.losses());
    assert!(both.lost >= unseen, "the series says {}, the counter {unseen}", both.lost);
    assert_eq!(of(&series, Quantity::Timer).histogram.count(), both.histogram.count());
    seen.sort_unstable();
    // The thread's own figure contains the recorder's and the way to user space.
    assert!(both.histogram.quantile(0.5).unwrap() <= seen[seen.len() / 2] + Ns(1_000));
    assert!(both.histogram.max().unwrap() <= seen[seen.len() - 1]);
    let worst_second = both.seconds.iter().map(|second| second.max_ns).max();
    assert_eq!(worst_second, both.histogram.max());
    let timer = recorder.interference().into_iter().find(|i| i.source.to_string().contains("local_timer"));
    if cfg!(target_arch = "x86_64") {
        assert!(timer.unwrap().count >= recorded);
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
        ((0..BUFFERS + 1).map(ask).collect::<Vec<_>>(), unsafe { libc::gettid() })
    });
    let (ids, tid) = asking.join().unwrap();
    let expected: Vec<_> = (1..BUFFERS).map(Some).chain([None, None]).collect();
    assert_eq!(ids, expected);
    assert_eq!(lost(&recorder, "no_flight_buffer_asked"), 2);

    let frozen = recorder.poll();
    assert_eq!(frozen.iter().map(|frozen| frozen.id).collect::<Vec<_>>(), (1..BUFFERS).collect::<Vec<_>>());
    let symbols = Symbols::read().unwrap();
    for frozen in &frozen {
        assert!(frozen.trigger.asked && frozen.trigger.victim.is_none());
        let window = frozen.decode(&symbols).unwrap();
        let left = window.events.iter().any(|event| {
            event.at == frozen.trigger.at
                && matches!(event.kind, Kind::Switch { prev, .. } if prev.tid.0 == tid)
        });
        assert!(left, "the switch that froze {} is not in it", frozen.id);
        // A switch not reported by the kernel is also missing; their number is unknown.
        let lost = window.events.iter().find(|event| matches!(event.kind, Kind::Lost { count: Some(_), .. }));
        assert_eq!(lost, None, "records of {} are missing", frozen.id);
    }
    let second = frozen[1].decode(&symbols).unwrap();
    let first = frozen[0].decode(&symbols).unwrap();
    assert_eq!(second.complete_from, first.complete_from, "a ring carries the one before it");
    assert!(recorder.freezer(CPU).freeze().is_some(), "read buffers are free again");
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_takes_another_name_is_recorded_at_that_time() {
    if !may_run("a_thread_that_takes_another_name_is_recorded_at_that_time", lacks_bpf()) {
        return;
    }
    let mut recorder = start(&options());
    let freezer = recorder.freezer(CPU);
    let renamed = std::thread::spawn(move || {
        enter(CPU, 10);
        let taken = [c"first-name", c"second"].map(|name| {
            let before = clock();
            // SAFETY: a text that ends with a NUL.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
            (name.to_str().unwrap().to_owned(), before, clock())
        });
        assert!(freezer.freeze().is_some());
        sleep(Duration::from_millis(2));
        // SAFETY: no preconditions.
        (taken, unsafe { libc::gettid() })
    });
    let (taken, tid) = renamed.join().unwrap();
    let window = recorder.poll()[0].decode(&Symbols::read().unwrap()).unwrap();
    for (name, before, after) in taken {
        let took = window.events.iter().find(|event| match event.kind {
            Kind::Rename { tid: of, comm: Some(comm) } => of.0 == tid && window.strings.get(comm) == name,
            _ => false,
        });
        assert!(took.is_some_and(|took| before <= took.at && took.at <= after), "{name}: {took:?}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn the_kernel_side_freezes_by_itself_and_counts_what_it_cannot_keep() {
    if !may_run("the_kernel_side_freezes_by_itself_and_counts_what_it_cannot_keep", lacks_bpf()) {
        return;
    }
    // Nobody else's threads: other real-time work on the machine would be late, too.
    let only = Options { tids: Some(Vec::new()), activations: true, ..options() };
    let mut recorder = start(&Options { peaks_threshold: Some(Ns(1)), ..only });
    let thread = CyclicThread::start(CPU, 90);
    recorder.watch(thread.tid).unwrap();
    // After its start 100 ms, of which the ring holds several times as much.
    sleep(Duration::from_millis(300));
    let raised = clock();
    recorder.set_threshold(CPU, Ns(u64::MAX));
    sleep(Duration::from_millis(10));
    let frozen = recorder.poll();
    assert_eq!(frozen.len() as u64, BUFFERS - 1);
    for frozen in &frozen {
        let victim = frozen.trigger.victim.expect("the kernel side asked");
        assert_eq!((victim.tid, &victim.comm[..11]), (thread.tid, &b"test-cyclic"[..]));
        assert!(victim.switched_in <= frozen.trigger.at);
    }
    assert!(lost(&recorder, "no_flight_buffer") >= 20, "{:?}", recorder.losses());
    // The worst of those for which there was no buffer waited for one.
    let waited = the_one_that_waited(&mut recorder).trigger.victim.unwrap();
    let kept = frozen.iter().filter_map(|frozen| Some(frozen.trigger.victim?.switched_in)).max().unwrap();
    let mut others = Vec::new();
    recorder.activations(|a| {
        if kept < a.switched_in && a.switched_in < raised {
            others.push(a.latency());
        }
    });
    assert!(others.len() >= 20 && others.iter().all(|&other| other <= waited.total), "{waited:?} {others:?}");
    assert_eq!(recorder.poll().len(), 0, "nothing is late any more");

    // It is no victim of what is kept later.
    recorder.set_threshold(CPU, Ns(1));
    sleep(Duration::from_millis(100));
    recorder.set_threshold(CPU, Ns(u64::MAX));
    sleep(Duration::from_millis(10));
    assert_eq!(recorder.poll().len() as u64, BUFFERS - 1);
    the_one_that_waited(&mut recorder);
    let freed = clock();
    recorder.set_threshold(CPU, Ns(1));
    sleep(Duration::from_millis(50));
    let victims: Vec<_> = recorder.poll().iter().filter_map(|frozen| frozen.trigger.victim).collect();
    assert!(
        !victims.is_empty() && victims.iter().all(|victim| victim.switched_in > freed),
        "{freed} {victims:?}"
    );
    thread.finish();
}

/// Frozen after [`Recorder::poll`] has set all buffers free. Its victim was switched in long before, and that is in it.
fn the_one_that_waited(recorder: &mut Recorder) -> Frozen {
    sleep(Duration::from_millis(10));
    let mut waited = recorder.poll();
    assert_eq!(waited.len(), 1);
    let waited = waited.remove(0);
    let victim = waited.trigger.victim.expect("the kernel side asked");
    let window = waited.decode(&Symbols::read().unwrap()).unwrap();
    let gets_it = |kind: &Kind| matches!(kind, Kind::Switch { next, .. } if next.tid == victim.tid);
    assert!(window.events.iter().any(|event| event.at == victim.switched_in && gets_it(&event.kind)));
    waited
}

/// StartDelay a hog, each of them is switched in when the one before it sleeps again: the last is the worst.
#[test]
#[ignore = "root: run by make test"]
fn of_more_victims_at_once_than_there_are_buffers_the_worst_has_its_evidence() {
    if !may_run("of_more_victims_at_once_than_there_are_buffers_the_worst_has_its_evidence", lacks_bpf()) {
        return;
    }
    const THREADS: i32 = 2 * BUFFERS as i32;
    let options = Options { peaks_threshold: Some(Ns::from_ms(1)), tids: Some(Vec::new()), ..options() };
    let mut recorder = start(&options);
    let due = clock() + Ns::from_ms(500);
    let last = std::thread::scope(|scope| {
        let (send, tids) = std::sync::mpsc::channel();
        for priority in 1..=THREADS {
            let send = send.clone();
            scope.spawn(move || {
                enter(CPU, priority);
                send.send((priority, sched::tid())).unwrap();
                sleep_until(due);
            });
        }
        let tids: Vec<_> = tids.iter().take(THREADS as usize).collect();
        assert!(tids.iter().all(|&(_, tid)| recorder.watch(tid).unwrap()));
        scope.spawn(move || {
            enter(CPU, 90);
            sleep_until(Mono(due.0 - 1_000_000));
            while clock() < due + Ns::from_ms(3) {
                std::hint::spin_loop();
            }
        });
        tids.into_iter().find(|&(priority, _)| priority == 1).unwrap().1
    });
    let mut frozen = recorder.poll();
    sleep(Duration::from_millis(20));
    frozen.extend(recorder.poll());
    let worst = frozen.iter().filter_map(|frozen| frozen.trigger.victim).max_by_key(|victim| victim.total);
    let worst = worst.unwrap();
    assert_eq!(worst.tid, last, "{worst:?}");
    assert_eq!(Some(worst.total), of(&recorder.series(), Quantity::TimerWakeup).histogram.max());
    assert!(lost(&recorder, "no_flight_buffer") > 0, "{:?}", recorder.losses());
}

#[test]
#[ignore = "root: run by make test"]
fn who_ran_on_a_cpu_that_is_not_recorded_is_not_late_when_it_comes_to_one_that_is() {
    let name = "who_ran_on_a_cpu_that_is_not_recorded_is_not_late_when_it_comes_to_one_that_is";
    let lacks =
        lacks_bpf().or(sched::affinity().is_ok_and(|cpus| cpus.len() < 2).then_some("has one CPU only"));
    if !may_run(name, lacks) {
        return;
    }
    const RUNS: Duration = Duration::from_millis(300);
    let recorder = start(&Options { tids: Some(Vec::new()), activations: true, ..options() });
    let (send, tid) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let recorder = &recorder;
        scope.spawn(move || {
            enter(Cpu(1), 0);
            recorder.watch(sched::tid()).unwrap();
            sleep(Duration::from_millis(20));
            send.send(sched::tid()).unwrap();
            let begin = std::time::Instant::now();
            while begin.elapsed() < 2 * RUNS {
                std::hint::spin_loop();
            }
            (0..5).for_each(|_| sleep(Duration::from_millis(5)));
        });
        let tid = tid.recv().unwrap();
        sleep(RUNS);
        // By another thread: it is moved as it runs, and no waking follows.
        sched::set_affinity_of(tid, &CpuSet::from_iter([CPU])).unwrap();
    });
    let series = recorder.series();
    let wakeups = &of(&series, Quantity::Wakeup).histogram;
    assert!(wakeups.count() > 0 && wakeups.max().unwrap().0 < RUNS.as_nanos() as u64, "{:?}", wakeups.max());
}

/// A thread of the highest priority behind the kernel's stopper, which shows the same one.
#[test]
#[ignore = "root: run by make test"]
fn the_stopper_of_a_cpu_is_nobodys_equal() {
    let lacks =
        lacks_bpf().or(sched::affinity().is_ok_and(|cpus| cpus.len() < 2).then_some("has one CPU only"));
    if !may_run("the_stopper_of_a_cpu_is_nobodys_equal", lacks) {
        return;
    }
    let recorder = start(&Options { tids: Some(Vec::new()), ..options() });
    let thread = CyclicThread::start(CPU, 99);
    recorder.watch(thread.tid).unwrap();
    // Each move away from that CPU is the stopper's work.
    let end = std::time::Instant::now() + Duration::from_secs(3);
    std::thread::spawn(move || {
        while std::time::Instant::now() < end {
            enter(Cpu(1), 0);
            enter(CPU, 0);
        }
    })
    .join()
    .unwrap();
    let series = recorder.series();
    assert!(of(&series, Quantity::Wakeup).histogram.count() > 1_000);
    assert_eq!(of(&series, Quantity::SharedPrio).histogram.count(), 0);
}

/// What the thread saw of each activation minus what the recorder saw of the same one is the way back to user space.
#[test]
#[ignore = "root: run by make test"]
fn the_thread_and_the_recorder_differ_by_a_small_offset_on_each_activation() {
    if !may_run("the_thread_and_the_recorder_differ_by_a_small_offset", lacks_bpf()) {
        return;
    }
    let mut recorder = start(&Options { tids: Some(Vec::new()), activations: true, lean: true, ..options() });
    let thread = CyclicThread::start(CPU, 90);
    recorder.watch(thread.tid).unwrap();
    let (origin, tid) = (thread.origin, thread.tid);
    let mut records = Vec::new();
    for _ in 0..80 {
        sleep(Duration::from_millis(25));
        recorder.poll();
        assert_eq!(recorder.activations(|activation| records.push(*activation)), 0, "lost");
    }
    let seen = thread.finish();
    let all = seen.len();
    let mut offsets = Vec::new();
    for (expected, late) in Turns::new(origin, &seen).all {
        let same = |record: &&lathunt_core::trace::activation::Activation| {
            record.thread.tid == tid && record.timer.is_some_and(|(expires, _)| expires == expected)
        };
        if let Some(record) = records.iter().find(same) {
            assert!(record.latency() <= late, "the switch comes before user space: {record:?}, {late}");
            offsets.push(late.saturating_sub(record.latency()));
        }
    }
    offsets.sort_unstable();
    let quantile = |q: f64| offsets[(offsets.len() as f64 * q) as usize];
    eprintln!(
        "thread - recorder: {} of {all} activations, p5 {}, median {}, p95 {}",
        offsets.len(),
        quantile(0.05),
        quantile(0.5),
        quantile(0.95)
    );
    // What a host takes from this guest takes activations from both.
    assert!(all > 300 && offsets.len() * 20 >= all * 19, "{} of {all}", offsets.len());
    assert!(quantile(0.5) <= Ns::from_us(5), "{}", quantile(0.5));
}

#[test]
#[ignore = "root: run by make test"]
fn the_running_kernels_code_says_where_interrupts_come_back_on() {
    if !may_run("the_running_kernels_code_says_where_interrupts_come_back_on", lacks_bpf()) {
        return;
    }
    let symbols = Symbols::read().unwrap().with_code();
    let all = |function: &str| -> Vec<Option<bool>> {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let line = text.lines().find(|line| line.split(' ').nth(2) == Some(function)).unwrap();
        let begin = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        let (begin, end) = symbols.bounds(begin).unwrap();
        (begin..end).map(|address| symbols.enabled_there(address)).collect()
    };
    if cfg!(not(target_arch = "x86_64")) {
        assert!(all("_raw_spin_unlock_irqrestore").iter().all(Option::is_none));
        return;
    }
    let unlock = all("_raw_spin_unlock_irqrestore");
    assert!(unlock.contains(&Some(true)) && unlock[0].is_none(), "{unlock:?}");
    // It turns nothing on or off.
    let plain = all("strcmp");
    assert!(plain.contains(&Some(false)) && !plain.contains(&Some(true)), "{plain:?}");
    assert_eq!(Symbols::read().unwrap().enabled_there(0xffff_ffff_8100_0000), None, "without the code");
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
