//! A thread whose timeout counts in ticks (SO_RCVTIMEO) is late since the time that it asked for, to within the ticks that the kernel
//! rounds that time up to.

mod cyclic_thread;

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use cyclic_thread::{clock, enter, one_cpu};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::activation::{Activation, Via};
use lathunt_host::inject::{inject, Kind, Options};
use lathunt_host::recorder::{self, Recorder};
use lathunt_host::sched;
use lathunt_host::testing::{lacks_bpf, may_run};

/// Where the thread is, and its test.
const CPUS: [Cpu; 2] = [Cpu(1), Cpu(0)];
/// Interrupts are off for so long, several times.
const OFF: Ns = Ns::from_ms(40);
/// How far the clock may be read from a waking.
const NEAR: Ns = Ns::from_us(300);
/// Tries: a host that takes the CPU spoils the thread's view of its own waits.
const TRIES: usize = 4;

/// A wait: when it was to end at the latest, as the thread knows it before and after the call, and when it ended.
struct Waited {
    asked: [Mono; 2],
    ended: Mono,
}

fn waits(timeouts: &[Ns], tell: impl FnOnce(Tid), go: impl FnOnce()) -> Vec<Waited> {
    enter(CPUS[0], 80);
    let (socket, _peer) = UnixDatagram::pair().unwrap();
    tell(sched::tid());
    go();
    let wait = |&timeout: &Ns| {
        socket.set_read_timeout(Some(Duration::from_nanos(timeout.0))).unwrap();
        let before = clock();
        socket.recv(&mut [0]).unwrap_err();
        let ended = clock();
        Waited { asked: [before + timeout, before + NEAR + timeout], ended }
    };
    timeouts.iter().map(wait).collect()
}

/// The waits of a thread, and its activations after them. `off`: interrupts are off now and then.
fn recorded(timeouts: &[Ns], off: bool) -> Vec<(Waited, Activation)> {
    let options = recorder::Options {
        tids: Some(Vec::new()),
        activations: true,
        ..recorder::Options::on(CpuSet::from_iter(CPUS))
    };
    let mut recorder = Recorder::start(&options).unwrap_or_else(|error| panic!("{error}"));
    let waited = std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, goes) = std::sync::mpsc::channel::<()>();
        let waits =
            scope.spawn(move || waits(timeouts, |tid| tell.send(tid).unwrap(), || goes.recv().unwrap()));
        recorder.watch(told.recv().unwrap()).unwrap();
        go.send(()).unwrap();
        if off {
            let off = Options { count: 8, every: Ns::from_ms(150), ..Options::once(CPUS[0], OFF) };
            inject(Kind::Irqoff, &off).unwrap_or_else(|error| panic!("{error}"));
        }
        waits.join().unwrap()
    });
    std::thread::sleep(Duration::from_millis(20));
    recorder.poll();
    let mut activations = Vec::new();
    assert_eq!(recorder.activations(|a| activations.push(*a)), 0, "lost");
    let found = waited.into_iter().filter_map(|one| {
        let woken = activations.iter().rev().find(|a| a.switched_in <= one.ended)?;
        (one.ended.since(woken.switched_in) < NEAR && woken.via != Via::Thread).then_some((one, *woken))
    });
    found.collect()
}

/// What is wrong with a wait as recorded, if anything is.
fn wrong(waited: &Waited, a: &Activation) -> Option<String> {
    let Some((due, entry)) = a.timer.filter(|_| a.rounded > Ns::ZERO) else {
        return Some(format!("no timer in {a:?}"));
    };
    let [earliest, latest] = waited.asked;
    let within = due + NEAR >= earliest && due.0 <= latest.0 + a.rounded.0;
    let handled = due <= entry && entry <= a.waking;
    (!within || !handled).then(|| format!("asked for {earliest} to {latest}, ended {}: {a:?}", waited.ended))
}

#[test]
#[ignore = "root: run by make test"]
fn a_timeout_in_ticks_is_due_at_most_its_rounding_after_the_time_that_was_asked_for() {
    let what = "a_timeout_in_ticks_is_due_at_most_its_rounding_after_the_time_that_was_asked_for";
    if !may_run(what, lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let timeouts: Vec<Ns> = (0..60).map(|nth| Ns::from_us(3_000 + 700 * nth)).collect();
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let found = recorded(&timeouts, false);
        let wrong: Vec<String> = found.iter().filter_map(|(waited, a)| wrong(waited, a)).collect();
        if found.len() >= timeouts.len() / 2 && wrong.is_empty() {
            assert!(
                found.iter().all(|(_, a)| a.is_timeout() && a.slack == Ns::ZERO),
                "short ones share no run"
            );
            return;
        }
        all.push((found.len(), wrong));
    }
    panic!("{all:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_timeout_in_ticks_that_cannot_be_served_is_late_by_that_time() {
    if !may_run("a_timeout_in_ticks_that_cannot_be_served_is_late_by_that_time", lacks_bpf().or_else(one_cpu))
    {
        return;
    }
    let timeouts = [Ns::from_ms(20); 60];
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let found = recorded(&timeouts, true);
        // As the thread saw it, and as it was recorded.
        let late = |(waited, a): &(Waited, Activation)| {
            (waited.ended.since(waited.asked[0]), a.latency(), a.rounded)
        };
        let late: Vec<_> = found.iter().map(late).filter(|(seen, ..)| *seen >= Ns::from_ms(20)).collect();
        let is_near = |&(seen, latency, rounded): &(Ns, Ns, Ns)| {
            latency <= seen + NEAR && latency + rounded + NEAR >= seen
        };
        if late.len() >= 3 && late.iter().all(is_near) {
            return;
        }
        all.push(late);
    }
    panic!("{all:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_long_timeout_in_ticks_counts_from_the_time_that_was_asked_for_and_its_wheel_is_named() {
    let what = "a_long_timeout_in_ticks_counts_from_the_time_that_was_asked_for";
    if !may_run(what, lacks_bpf().or_else(one_cpu)) {
        return;
    }
    // The first 63 ticks have a run each; after that, eight share one.
    let timeouts: Vec<Ns> = (0..8).map(|nth| Ns::from_ms(700 + 13 * nth)).collect();
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let found = recorded(&timeouts, false);
        let wrong: Vec<String> = found.iter().filter_map(|(waited, a)| wrong(waited, a)).collect();
        let most = found.iter().map(|(_, a)| a.slack).max();
        let named =
            found.iter().all(|(_, a)| a.slack <= a.latency() && a.slack.0 % (a.rounded.0 / 2).max(1) == 0);
        if found.len() >= timeouts.len() / 2 && wrong.is_empty() && named && most > Some(Ns::ZERO) {
            return;
        }
        all.push((found.len(), most, wrong));
    }
    panic!("{all:?}");
}
