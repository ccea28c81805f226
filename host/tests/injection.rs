//! The strongest test: a known disturbance is injected, and the recorder finds it, sizes it, and holds the culprit.

mod cyclic_thread;

use std::time::Duration;

use cyclic_thread::{allowed, clock, CyclicThread, Turns, PERIOD};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use lathunt_core::trace::event::{Event, Kind as What, Sym};
use lathunt_core::trace::flight::Victim;
use lathunt_core::trace::window::Window;
use lathunt_host::inject::{inject, Kind, Options, Pulse, WORKER};
use lathunt_host::recorder::{self, Frozen, Recorder};
use lathunt_host::symbols::Symbols;
use lathunt_host::testing::{lacks_bpf, may_run};

/// Pulses of an attempt.
const PULSES: u32 = 9;
/// So many that only the injector delayed are judged.
const JUDGED: usize = 6;
/// On a quiet machine one does. A host that takes whole milliseconds from this guest spoils most pulses of many.
const ATTEMPTS: usize = 24;
/// How long before the thread's expiry a pulse begins.
const AHEAD: Ns = Ns(50_000);

/// A pulse that delayed the thread, and nothing else did.
struct Alone {
    /// By how much, by the thread's own clock.
    late: Ns,
    caught: Option<Caught>,
}

/// What was frozen for it.
struct Caught {
    pulse: Pulse,
    victim: Victim,
    window: Window,
}

fn online() -> Vec<Cpu> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    text.trim().parse::<CpuSet>().unwrap().iter().take(2).collect()
}

/// Injects on `cpu`, aimed at expiries of a cyclic thread there, and pairs each pulse that alone delayed it, as the
/// thread itself saw it, with what was frozen for it.
fn disturb(kind: Kind, cpu: Cpu, length: Ns) -> Vec<Alone> {
    let mut options = recorder::Options::on(CpuSet::from_iter([cpu]));
    options.tids = Some(Vec::new());
    options.peaks_threshold = Some(Ns(length.0 * 3 / 4));
    let mut recorder = Recorder::start(&options).unwrap_or_else(|error| panic!("{error}"));
    let victim = CyclicThread::start(cpu, 90);
    recorder.watch(victim.tid).unwrap();
    let ahead = victim.origin.since(clock()).0 / PERIOD.0 + 100;
    let first = Mono(victim.origin.0 + ahead * PERIOD.0 - AHEAD.0);
    let request =
        Options { count: PULSES, every: Ns(40 * PERIOD.0), first: Some(first), ..Options::once(cpu, length) };
    let symbols = Symbols::read().unwrap();
    let mut frozen: Vec<Frozen> = Vec::new();
    let report = std::thread::scope(|scope| {
        let injecting = scope.spawn(|| inject(kind, &request).unwrap_or_else(|error| panic!("{error}")));
        let mut poll = || {
            std::thread::sleep(Duration::from_millis(10));
            frozen.extend(recorder.poll());
        };
        while !injecting.is_finished() {
            poll();
        }
        poll();
        injecting.join().unwrap()
    });
    assert_eq!(report.count, PULSES);
    let origin = victim.origin;
    let turns = Turns::new(origin, &victim.finish());
    let caught = |(pulse, expiry, late)| {
        let caught = frozen.iter().find_map(|frozen| {
            let victim = frozen.trigger.victim.filter(|v| v.switched_in == expiry + v.total)?;
            Some(Caught { pulse, victim, window: frozen.decode(&symbols).unwrap() })
        });
        Alone { late, caught }
    };
    let alone = turns.alone(&report.pulses, length, Ns(2 * AHEAD.0));
    let alone: Vec<Alone> = alone.into_iter().map(caught).collect();
    let (all, losses) = (frozen.len(), recorder.losses());
    eprintln!(
        "{kind} {length} on CPU {cpu}: {} of {PULSES} alone, {all} frozen, losses {losses:?}",
        alone.len()
    );
    alone
}

/// Most pulses were caught, and the thread itself saw what was recorded: it came later by what a switch takes until user
/// space looks at its clock.
fn sized(length: Ns, alone: &[Alone]) -> Result<(), String> {
    let off = |alone: &Alone| Some(alone.late.0 as i64 - alone.caught.as_ref()?.victim.total.0 as i64);
    let mut off: Vec<i64> = alone.iter().filter_map(off).collect();
    if off.len() * 3 < alone.len() * 2 {
        return Err(format!("{} of {} caught", off.len(), alone.len()));
    }
    off.sort_unstable();
    let fits = off[0] >= 0 && off[off.len() / 2] <= allowed(length).0 as i64;
    fits.then_some(()).ok_or_else(|| format!("off by {off:?} ns"))
}

/// In most windows `holds` finds its evidence.
fn blamed(alone: &[Alone], holds: impl Fn(&Caught) -> bool) -> Result<(), String> {
    let all: Vec<&Caught> = alone.iter().filter_map(|alone| alone.caught.as_ref()).collect();
    let lacking: Vec<&&Caught> = all.iter().filter(|caught| !holds(caught)).collect();
    let told = lacking.first().map(|caught| {
        let near = |event: &&Event| event.at >= Mono(caught.pulse.begin.0 - 200_000);
        let events: Vec<&Event> = caught.window.events.iter().filter(near).collect();
        let Window { comms, stacks, .. } = &caught.window;
        format!("{:?} {:?}\n{stacks:?}\n{comms:?}\n{events:#?}", caught.pulse, caught.victim)
    });
    let told = || format!("no evidence in {} of {} windows: {told:?}", lacking.len(), all.len());
    (lacking.len() * 3 <= all.len()).then_some(()).ok_or_else(told)
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

fn is_worker(caught: &Caught, tid: Tid) -> bool {
    name(&caught.window, tid) == Some(WORKER)
}

/// Who held the CPU longest while the victim waited, and at which priority. Not simply who ran just before it: another
/// real-time thread of the machine may have slipped in between.
fn longest_holder(caught: &Caught) -> Option<(Tid, Option<Prio>)> {
    let victim = &caught.victim;
    let begin = Mono(victim.switched_in.0 - victim.total.0);
    let (mut held, mut since) = (Vec::new(), begin);
    for event in
        caught.window.events.iter().filter(|event| event.at >= begin && event.at <= victim.switched_in)
    {
        if let What::Switch { prev, .. } = event.kind {
            held.push((event.at.since(since), prev.tid, prev.prio));
            since = event.at;
        }
    }
    held.into_iter().max_by_key(|(time, ..)| *time).map(|(_, tid, prio)| (tid, prio))
}

fn everywhere(kind: Kind, holds: impl Fn(&Caught) -> bool) {
    if !may_run(&format!("the injected {kind} is found, sized and blamed"), lacks_bpf()) {
        return;
    }
    for cpu in online() {
        for length in [Ns::from_us(500), Ns::from_ms(2)] {
            let mut alone = Vec::new();
            for _ in 0..ATTEMPTS {
                alone.extend(disturb(kind, cpu, length));
                if alone.len() >= JUDGED {
                    break;
                }
            }
            let here = format!("{kind} {length} on CPU {cpu}");
            assert!(
                alone.len() >= JUDGED,
                "{here}: {} pulses delayed the thread as long as they were",
                alone.len()
            );
            let judged = sized(length, &alone).and_then(|()| blamed(&alone, &holds));
            judged.unwrap_or_else(|why| panic!("{here}: {why}"));
        }
    }
}

#[test]
#[ignore = "root: run by make test"]
fn interrupts_off_show_as_a_late_timer_in_the_context_of_who_held_them() {
    everywhere(Kind::Irqoff, |caught| {
        caught.window.events.iter().any(|event| match event.kind {
            What::TimerExpireEntry { expires: Some(expires), .. } => {
                event.at.since(expires).0 + 2 * AHEAD.0 >= caught.pulse.length().0
                    && event.current.is_some_and(|tid| is_worker(caught, tid))
            }
            _ => false,
        })
    });
}

#[test]
#[ignore = "root: run by make test"]
fn preemption_off_shows_as_a_thread_that_is_left_only_at_the_end() {
    everywhere(Kind::Preemptoff, |caught| {
        longest_holder(caught).is_some_and(|(tid, _)| is_worker(caught, tid))
            && caught
                .window
                .stacks
                .iter()
                .any(|stack| stack.at == caught.victim.switched_in && !stack.frames.is_empty())
    });
}

#[test]
#[ignore = "root: run by make test"]
fn a_long_softirq_shows_between_its_entry_and_exit() {
    if std::fs::read_to_string("/proc/version").is_ok_and(|version| version.contains("PREEMPT_RT")) {
        eprintln!("SKIPPED softirq windows: softirqs are threads on PREEMPT_RT");
        return;
    }
    everywhere(Kind::Softirq, |caught| {
        let at = |wanted: fn(&What) -> bool| {
            let inside =
                |event: &&Event| event.at >= Mono(caught.pulse.begin.0 - 100_000) && wanted(&event.kind);
            caught.window.events.iter().find(inside).map(|event| event.at)
        };
        let entry = at(|kind| matches!(kind, What::SoftirqEntry { vec: 3 }));
        let exit = at(|kind| matches!(kind, What::SoftirqExit { vec: 3 }));
        entry.zip(exit).is_some_and(|(entry, exit)| exit.since(entry) >= caught.pulse.length())
    });
}

#[test]
#[ignore = "root: run by make test"]
fn a_hog_shows_as_a_thread_of_higher_priority() {
    everywhere(Kind::Thread, |caught| {
        longest_holder(caught)
            .is_some_and(|(tid, prio)| is_worker(caught, tid) && prio == Some(Prio::from_rt(98)))
    });
}

#[test]
#[ignore = "root: run by make test"]
fn page_faults_show_with_their_number() {
    everywhere(Kind::Pagefault, |caught| {
        caught.window.events.iter().any(|event| {
            matches!(event.kind, What::PageFault { count, .. } if count >= 16)
                && event.current.is_some_and(|tid| is_worker(caught, tid))
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
