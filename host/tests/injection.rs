//! The strongest test: a known disturbance is injected, and the recorder finds it, sizes it, and holds the culprit.

mod cyclic_thread;

use std::time::Duration;

use cyclic_thread::{clock, CyclicThread, PERIOD};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use lathunt_core::trace::event::{Event, Kind as What, Sym, Window};
use lathunt_host::inject::{inject, Kind, Options, Pulse, WORKER};
use lathunt_host::recorder::{self, Frozen, Recorder};
use lathunt_host::symbols::Symbols;
use lathunt_host::testing::{lacks_bpf, may_run};

const PULSES: u32 = 9;
const ATTEMPTS: usize = 4;
/// How long before the thread's expiry a pulse begins.
const AHEAD: Ns = Ns(50_000);

struct Seen {
    pulse: Pulse,
    frozen: Frozen,
    window: Window,
}

fn online() -> Vec<Cpu> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    text.trim().parse::<CpuSet>().unwrap().iter().take(2).collect()
}

/// Injects on `cpu`, aimed at expiries of a cyclic thread there, and pairs each pulse with what was frozen for it.
/// Beside them, the median latency of the thread (nearly all its wake-ups are undisturbed), and how many were late.
fn disturb(kind: Kind, cpu: Cpu, length: Ns) -> (Vec<Seen>, Ns, usize) {
    let mut options = recorder::Options::on(CpuSet::from_iter([cpu]));
    options.tids = Some(Vec::new());
    options.peaks_threshold = Some(Ns(length.0 / 2));
    let mut recorder = Recorder::start(&options).unwrap_or_else(|error| panic!("{error}"));
    let victim = CyclicThread::start(cpu, 90);
    recorder.watch(victim.tid).unwrap();
    let ahead = victim.origin.since(clock()).0 / PERIOD.0 + 100;
    let first = Mono(victim.origin.0 + ahead * PERIOD.0 - AHEAD.0);
    let request =
        Options { count: PULSES, every: Ns(40 * PERIOD.0), first: Some(first), ..Options::once(cpu, length) };
    let symbols = Symbols::read().unwrap();
    let mut frozen: Vec<(Frozen, Window)> = Vec::new();
    let report = std::thread::scope(|scope| {
        let injecting = scope.spawn(|| inject(kind, &request).unwrap_or_else(|error| panic!("{error}")));
        let mut poll = || {
            std::thread::sleep(Duration::from_millis(10));
            let new = recorder.poll();
            frozen.extend(new.into_iter().map(|f| (f.clone(), f.decode(&symbols).unwrap())));
        };
        while !injecting.is_finished() {
            poll();
        }
        poll();
        injecting.join().unwrap()
    });
    assert_eq!(report.count, PULSES);
    victim.finish();
    let caught = |pulse: &Pulse| {
        let (frozen, window) = frozen.iter().find(|(frozen, _)| {
            let begin = frozen.trigger.victim.map(|v| Mono(v.switched_in.0 - v.total.0));
            begin.is_some_and(|begin| begin >= pulse.begin && begin < pulse.end)
        })?;
        Some(Seen { pulse: *pulse, frozen: frozen.clone(), window: window.clone() })
    };
    let losses = recorder.losses();
    eprintln!("{kind} {length} on CPU {cpu}: {} frozen, losses {losses:?}", frozen.len());
    let series = recorder.series();
    let both = series.iter().find(|series| series.quantity == Quantity::TimerWakeup).unwrap();
    let seen = report.pulses.iter().filter_map(caught).collect();
    (seen, both.histogram.quantile(0.5).unwrap(), frozen.len())
}

/// Most pulses were caught, and the median of the time from a pulse's end to the victim's arrival is at most what a
/// wake-up takes without disturbance. Other load on the machine may disturb single ones.
fn sized(kind: Kind, cpu: Cpu, length: Ns, seen: &[Seen], undisturbed: Ns) -> Result<(), String> {
    if seen.len() * 3 < PULSES as usize * 2 {
        return Err(format!("{kind} {length} on CPU {cpu}: {} caught", seen.len()));
    }
    let mut off: Vec<i64> = seen
        .iter()
        .map(|seen| {
            let victim = seen.frozen.trigger.victim.unwrap();
            victim.switched_in.0 as i64 - seen.pulse.end.0 as i64
        })
        .collect();
    off.sort_unstable();
    let median = off[off.len() / 2];
    let allowed = (length.0 as i64 / 10).max(20_000);
    let fits = (-allowed..=undisturbed.0 as i64 + allowed).contains(&median);
    let told = || format!("{kind} {length} on CPU {cpu}: undisturbed {undisturbed}, off by {off:?} ns");
    fits.then_some(()).ok_or_else(told)
}

/// In most windows `holds` finds its evidence.
fn blamed(kind: Kind, seen: &[Seen], holds: impl Fn(&Seen) -> bool) -> Result<(), String> {
    let found = seen.iter().filter(|seen| holds(seen)).count();
    let lacking = seen.iter().find(|seen| !holds(seen)).map(|seen| {
        let near = |event: &&Event| event.at >= Mono(seen.pulse.begin.0 - 200_000);
        let events: Vec<&Event> = seen.window.events.iter().filter(near).collect();
        let Window { comms, stacks, .. } = &seen.window;
        format!("{:?} {:?}\n{stacks:?}\n{comms:?}\n{events:#?}", seen.pulse, seen.frozen.trigger)
    });
    let (all, lacking) = (seen.len(), lacking.unwrap_or_default());
    let told = || format!("{kind}: evidence in {found} of {all} windows; none in {lacking}");
    (found * 3 >= all * 2).then_some(()).ok_or_else(told)
}

/// The last name of a thread: it begins with that of the thread that began it.
fn name(window: &Window, tid: Tid) -> Option<&str> {
    let named = window.events.iter().rev().find_map(|event| match event.kind {
        What::Switch { next, .. } if next.tid == tid => next.comm,
        What::Waking { task, .. } if task.tid == tid => task.comm,
        _ => None,
    });
    named.map(|sym: Sym| window.strings.get(sym)).or_else(|| window.comms.get(&tid).map(String::as_str))
}

fn is_worker(seen: &Seen, tid: Tid) -> bool {
    name(&seen.window, tid) == Some(WORKER)
}

/// Who held the CPU longest while the victim waited, and at which priority. Not simply who ran just before it: another
/// real-time thread of the machine may have slipped in between.
fn longest_holder(seen: &Seen) -> Option<(Tid, Option<Prio>)> {
    let victim = seen.frozen.trigger.victim?;
    let begin = Mono(victim.switched_in.0 - victim.total.0);
    let (mut held, mut since) = (Vec::new(), begin);
    for event in seen.window.events.iter().filter(|event| event.at >= begin && event.at <= victim.switched_in)
    {
        if let What::Switch { prev, .. } = event.kind {
            held.push((event.at.since(since), prev.tid, prev.prio));
            since = event.at;
        }
    }
    held.into_iter().max_by_key(|(time, ..)| *time).map(|(_, tid, prio)| (tid, prio))
}

fn everywhere(kind: Kind, holds: impl Fn(&Seen) -> bool) {
    if !may_run(&format!("the injected {kind} is found, sized and blamed"), lacks_bpf()) {
        return;
    }
    for cpu in online() {
        for length in [Ns::from_us(500), Ns::from_ms(2)] {
            let (mut spoilt, mut attempts) = (Vec::new(), ATTEMPTS);
            // A host that takes whole milliseconds from this guest spoils most pulses of an attempt, at times. Where far
            // more wake-ups were late than there were pulses it does: it is given some time to end.
            while spoilt.len() < attempts {
                let (seen, undisturbed, late) = disturb(kind, cpu, length);
                let fits = sized(kind, cpu, length, &seen, undisturbed);
                let Err(why) = fits.and_then(|()| blamed(kind, &seen, &holds)) else { break };
                spoilt.push(why);
                if late > 3 * PULSES as usize {
                    attempts = 2 * ATTEMPTS;
                    std::thread::sleep(Duration::from_secs(2));
                }
            }
            assert!(spoilt.len() < attempts, "{}", spoilt.join("\n"));
        }
    }
}

#[test]
#[ignore = "root: run by make test"]
fn interrupts_off_show_as_a_late_timer_in_the_context_of_who_held_them() {
    everywhere(Kind::Irqoff, |seen| {
        seen.window.events.iter().any(|event| match event.kind {
            What::TimerExpireEntry { expires: Some(expires), .. } => {
                event.at.since(expires).0 + 2 * AHEAD.0 >= seen.pulse.length().0
                    && event.current.is_some_and(|tid| is_worker(seen, tid))
            }
            _ => false,
        })
    });
}

#[test]
#[ignore = "root: run by make test"]
fn preemption_off_shows_as_a_thread_that_is_left_only_at_the_end() {
    everywhere(Kind::Preemptoff, |seen| {
        longest_holder(seen).is_some_and(|(tid, _)| is_worker(seen, tid))
            && seen.window.stacks.iter().any(|stack| {
                stack.at == seen.frozen.trigger.victim.unwrap().switched_in && !stack.frames.is_empty()
            })
    });
}

#[test]
#[ignore = "root: run by make test"]
fn a_long_softirq_shows_between_its_entry_and_exit() {
    if std::fs::read_to_string("/proc/version").is_ok_and(|version| version.contains("PREEMPT_RT")) {
        eprintln!("SKIPPED softirq windows: softirqs are threads on PREEMPT_RT");
        return;
    }
    everywhere(Kind::Softirq, |seen| {
        let at = |wanted: fn(&What) -> bool| {
            let inside =
                |event: &&Event| event.at >= Mono(seen.pulse.begin.0 - 100_000) && wanted(&event.kind);
            seen.window.events.iter().find(inside).map(|event| event.at)
        };
        let entry = at(|kind| matches!(kind, What::SoftirqEntry { vec: 3 }));
        let exit = at(|kind| matches!(kind, What::SoftirqExit { vec: 3 }));
        entry.zip(exit).is_some_and(|(entry, exit)| exit.since(entry) >= seen.pulse.length())
    });
}

#[test]
#[ignore = "root: run by make test"]
fn a_hog_shows_as_a_thread_of_higher_priority() {
    everywhere(Kind::Thread, |seen| {
        longest_holder(seen)
            .is_some_and(|(tid, prio)| is_worker(seen, tid) && prio == Some(Prio::from_rt(98)))
    });
}

#[test]
#[ignore = "root: run by make test"]
fn page_faults_show_with_their_number() {
    everywhere(Kind::Pagefault, |seen| {
        seen.window.events.iter().any(|event| {
            matches!(event.kind, What::PageFault { count, .. } if count >= 16)
                && event.current.is_some_and(|tid| is_worker(seen, tid))
        })
    });
}

#[test]
#[ignore = "root: run by make test"]
fn every_kind_holds_for_as_long_as_it_says() {
    if !may_run("every_kind_holds_for_as_long_as_it_says", lacks_bpf()) {
        return;
    }
    let cpu = online()[0];
    for kind in Kind::ALL {
        let request = Options { count: 5, every: Ns::from_ms(5), ..Options::once(cpu, Ns::from_us(300)) };
        let report = inject(kind, &request).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.pulses.len(), 5, "{kind}");
        assert!(report.min_ns.unwrap() >= Ns::from_us(300), "{kind}: {report:?}");
        let gaps = report.pulses.windows(2).all(|pair| pair[1].begin >= pair[0].end);
        assert!(gaps, "{kind}: pulses overlap");
    }
}
