//! Events as text, one a line: `TIME_US cCPU WHAT …`. `#` begins a comment.
//!
//! | line | event |
//! |---|---|
//! | `switch A:S > B` | sched_switch; A left as `R`, `S`, `D`, `T` or `X` |
//! | `waking A`, `wakeup A`, `migrate A 0 1` | of thread A; `waking A c1` with its target, `waking A c1 90` by a thread of RT 90 |
//! | `fork A B`, `new B` | A creates B: sched_process_fork, sched_wakeup_new |
//! | `irq+ 25 virtio0`, `irq- 25` | interrupt line |
//! | `vec+ local_timer`, `vec- local_timer` | system vector |
//! | `soft+ NET_RX`, `soft- NET_RX`, `soft-raise NET_RX` | softirq |
//! | `nmi 12` | NMI that ends here and took 12 µs |
//! | `stolen 400 since 10` | the host took 400 µs of the time since 10 µs |
//! | `timer+ hrtimer_wakeup 100`, `timer-` | hrtimer callback, programmed expiry in µs (`-`: not told), now on its own clock |
//! | `wheel+ process_timeout`, `wheel-` | timer_expire_entry of the timer wheel, and its exit |
//! | `arm 900`, `arm 900 850` | hrtimer_start with its expiry in µs, and with slack from 850 on |
//! | `work+ 5 flush`, `work- 5` | workqueue_execute_start of a work item and its function, and its end |
//! | `idle+ 2`, `idle-` | cpu_idle |
//! | `csd+ function`, `csd-` | call from another CPU |
//! | `setprio A 98`, `setprio A back 98` | sched_pi_setprio: A is lent RT 98, and is nice 0 again |
//! | `offline 1`, `online 1` | cpuhp_enter: a step of CPU 1 on its way |
//! | `disk+ 50160`, `disk+ 50160 DS`, `disk- 50160` | block_rq_issue (of a read, or with these letters) and block_rq_complete of 8 sectors |
//! | `received 5 eth0` | netif_receive_skb of the packet at an address |
//! | `call 202 4096 6`, `ret 202 -4` | sys_enter with its first (up to three) arguments, sys_exit with its result |
//! | `ipis 0,70` | ipi_send_cpumask |
//! | `handler 10`, `in-call 16`, `in-call`, `in-call -2` | signal_deliver; an interrupt in a system call, in none, or at a page fault |
//! | `rename 60 tool` | task_rename |
//! | `lock+ 1 32`, `lock- 1` | contention_begin of a lock with its flags, contention_end |
//! | `fault 8192` | page_fault_user at an address |
//! | `runs A` | an event without meaning, recorded in the context of A |
//! | `machine aarch64` | whose numbers system calls have (else x86-64's) |
//! | `preemption none` | the preemption model (else `full`) |
//! | `faults 3`, `lost 12`, `lost 12 after 100`, `other name` | |
//! | `stack A user`, `stack A kernel f g` | a stack sample of thread A, innermost first; `kernel+`: interrupts came back on there, `kernel-`: they were on before |
//!
//! `100 c0 still 900` says that CPU 0 is known to have stood still from 100 to 900 µs (by another record).
//! `hides interrupts` says that the trace records none, `from arming` that no timer was armed after its expiry. A last word `^hard`, `^soft` or `^thread` is the event's level.
//!
//! A thread is `comm/tid@95` (RT 95) or `comm/tid` (nice 0); `idle` is the idle task. `current` follows the switches.

use std::collections::HashMap;

use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Event, Faulted, Kind, LeftAs, Level, Sym, TaskRef, Vector, SOFTIRQS};
use crate::trace::syscall_names::SyscallTable;
use crate::trace::window::{StackSample, Standstill, Window};

/// The window that `text` notes; its record is complete from 0 on.
pub fn window(text: &str) -> Window {
    let mut window = Window { preemption: Some("full".into()), ..Window::default() };
    window.idle_states = HashMap::from([(0, "POLL".into()), (1, "C1".into()), (2, "C2".into())]);
    let mut current: HashMap<Cpu, Tid> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap().split_whitespace().collect();
        let [time, cpu, what, rest @ ..] = words.as_slice() else { continue };
        let at = Mono(us(time).0);
        let cpu = Cpu(cpu.strip_prefix('c').unwrap().parse().unwrap());
        if *what == "still" {
            window.standstills.push(Standstill { cpu, begin: at, end: Mono(us(rest[0]).0) });
            continue;
        }
        window.complete_from.insert(cpu, Mono(0));
        if *what == "stack" {
            window.stacks.push(StackSample {
                at,
                cpu,
                tid: task(&mut window.strings.clone(), rest[0]).tid,
                frames: rest[2..].iter().map(|&frame| frame.into()).collect(),
                in_user: Some(rest[1] == "user"),
                enabled_there: match rest[1] {
                    "kernel+" => Some(true),
                    "kernel-" => Some(false),
                    _ => None,
                },
            });
            continue;
        }
        if *what == "stopped" {
            window.stopped.push((at, Mono(us(rest[0]).0)));
            continue;
        }
        if *what == "from" {
            window.from_arming = true;
            continue;
        }
        if *what == "preemption" {
            window.preemption = Some(rest[0].into());
            continue;
        }
        if *what == "machine" {
            window.syscalls = SyscallTable::of_machine(rest[0]);
            continue;
        }
        if *what == "runs" {
            current.insert(cpu, task(&mut window.strings, rest[0]).tid);
        }
        if *what == "hides" {
            window.hides_interrupts = true;
            continue;
        }
        let (level, rest) = match rest {
            [rest @ .., "^hard"] => (Level::Hard, rest),
            [rest @ .., "^soft"] => (Level::Softirq, rest),
            [rest @ .., "^thread"] => (Level::Thread, rest),
            _ => (Level::Unsaid, rest),
        };
        let kind = kind(&mut window, what, rest);
        window.events.push(Event { at, cpu, current: current.get(&cpu).copied(), level, kind });
        if let Kind::Hotplug { .. } = kind {
            window.hotplug.extend(window.events.last());
        }
        if let Kind::Switch { next, .. } = kind {
            current.insert(cpu, next.tid);
        }
    }
    window
}

fn us(text: &str) -> Ns {
    Ns((text.parse::<f64>().unwrap() * 1e3).round() as u64)
}

fn task(strings: &mut crate::trace::event::Strings, text: &str) -> TaskRef {
    if text == "idle" {
        return TaskRef { tid: Tid::IDLE, prio: Some(Prio(120)), comm: Some(strings.intern("swapper")) };
    }
    let (name, prio) = text.split_once('@').unwrap_or((text, ""));
    let (comm, tid) = name.rsplit_once('/').unwrap();
    let prio = prio.parse().map_or(Prio(120), Prio::from_rt);
    TaskRef { tid: Tid(tid.parse().unwrap()), prio: Some(prio), comm: Some(strings.intern(comm)) }
}

fn vector(name: &str) -> Vector {
    [
        Vector::LocalTimer,
        Vector::Reschedule,
        Vector::CallFunction,
        Vector::CallFunctionSingle,
        Vector::IrqWork,
    ]
    .into_iter()
    .find(|vector| vector.name() == name)
    .unwrap()
}

fn softirq(name: &str) -> u8 {
    SOFTIRQS.iter().position(|&known| known == name).unwrap() as u8
}

fn kind(window: &mut Window, what: &str, rest: &[&str]) -> Kind {
    let number = |place: usize| rest.get(place).and_then(|text| text.parse::<u64>().ok());
    let irq = number(0).unwrap_or(0) as u32;
    let strings = &mut window.strings;
    let name = |strings: &mut crate::trace::event::Strings, place: usize| -> Option<Sym> {
        rest.get(place).map(|text| strings.intern(text))
    };
    match what {
        "switch" => {
            let state = rest[0].rsplit_once(':').filter(|(_, state)| state.len() == 1);
            let (prev, state) = state.unwrap_or((rest[0], "R"));
            let left_as = match state {
                "R" => LeftAs::Runnable,
                "S" => LeftAs::Blocked(1),
                "D" => LeftAs::Blocked(2),
                "T" => LeftAs::Blocked(4),
                _ => LeftAs::Dead,
            };
            Kind::Switch { prev: task(strings, prev), left_as, next: task(strings, rest[2]) }
        }
        "waking" | "new" => {
            let target = rest.get(1).map(|cpu| Cpu(cpu[1..].parse().unwrap()));
            let waker_prio = rest.get(2).map(|prio| Prio::from_rt(prio.parse().unwrap()));
            Kind::Waking { task: task(strings, rest[0]), target_cpu: target, new: what == "new", waker_prio }
        }
        "fork" => Kind::Fork { parent: task(strings, rest[0]).tid, child: task(strings, rest[1]) },
        "wakeup" => {
            let target = rest.get(1).map(|cpu| Cpu(cpu[1..].parse().unwrap()));
            Kind::Wakeup { task: task(strings, rest[0]), target_cpu: target }
        }
        "migrate" => Kind::Migrate {
            task: task(strings, rest[0]),
            from: Cpu(number(1).unwrap() as u32),
            to: Cpu(number(2).unwrap() as u32),
        },
        "irq+" => Kind::IrqEntry { irq, name: name(strings, 1) },
        "irq-" => Kind::IrqExit { irq },
        "vec+" => Kind::VectorEntry(vector(rest[0])),
        "vec-" => Kind::VectorExit(vector(rest[0])),
        "soft+" => Kind::SoftirqEntry { vec: softirq(rest[0]) },
        "offline" | "online" => Kind::Hotplug { cpu: Cpu(irq), down: what == "offline" },
        "soft-raise" => Kind::SoftirqRaise { vec: softirq(rest[0]) },
        "soft-" => Kind::SoftirqExit { vec: softirq(rest[0]) },
        "nmi" => Kind::Nmi { duration: us(rest[0]) },
        "stolen" => Kind::HostSteal { taken: us(rest[0]), since: Mono(us(rest[2]).0) },
        "timer+" => Kind::TimerExpireEntry {
            timer: 7,
            function: name(strings, 0),
            expires: number(1).map(|us| Mono(us * 1_000)),
            slack: None,
            now: number(2).map(|us| Ns(us * 1_000)),
        },
        "wheel+" => Kind::WheelExpireEntry { timer: 8, function: name(strings, 0) },
        "wheel-" => Kind::WheelExpireExit { timer: 8 },
        "arm" => Kind::HrtimerStart {
            timer: 7,
            function: None,
            expires: us(rest[0]),
            soft: number(1).map(|us| Ns(us * 1_000)),
        },
        "timer-" => Kind::TimerExpireExit { timer: 7 },
        "work+" => Kind::WorkStart { work: number(0).unwrap(), function: name(strings, 1) },
        "work-" => Kind::WorkEnd { work: number(0).unwrap(), function: None },
        "idle+" => Kind::IdleEnter { state: irq },
        "idle-" => Kind::IdleExit,
        "handler" => Kind::SignalDeliver { sig: number(0).unwrap() as i32, code: 0 },
        "in-call" => Kind::found_in(rest.first().map_or(-1, |call| call.parse().unwrap())),
        "csd+" => Kind::CsdEntry { function: name(strings, 0), csd: 1 },
        "csd-" => Kind::CsdExit { csd: 1 },
        "disk+" => {
            let sector = number(0).unwrap();
            let rwbs = rest.get(1).copied().unwrap_or("R");
            Kind::BlockIssue { dev: 254 << 20, sector, nr_sector: 8, rwbs: Some(strings.intern(rwbs)) }
        }
        "disk-write+" => {
            let sector = number(0).unwrap();
            Kind::BlockIssue { dev: 254 << 20, sector, nr_sector: 8, rwbs: Some(strings.intern("WS")) }
        }
        "received" => Kind::NetReceive { skb: number(0).unwrap(), device: name(strings, 1), len: 60 },
        "ipis" => Kind::IpiSendMask { targets: strings.intern(rest[0]), callback: None },
        "rename" => Kind::Rename { tid: Tid(irq as i32), comm: name(strings, 1) },
        "lock+" => Kind::ContentionBegin { lock: number(0).unwrap(), flags: number(1).unwrap() as u32 },
        "lock-" => Kind::ContentionEnd { lock: number(0).unwrap(), ret: 0 },
        "marker" => Kind::Marker { text: strings.intern(rest[0]) },
        "signal" => {
            let (sig, result) = (number(1).unwrap() as i32, number(2).unwrap_or(0) as i32);
            Kind::SignalGenerate { sig, task: task(strings, rest[0]), code: 0, result }
        }
        "delivered" => Kind::SignalDeliver { sig: irq as i32, code: 0 },
        "disk-" => Kind::BlockComplete { dev: 254 << 20, sector: number(0).unwrap(), nr_sector: 8, error: 0 },
        "call" => {
            let arg = |place| number(place).unwrap_or(0);
            let args = [arg(1), arg(2), arg(3), 0, 0, 0];
            Kind::SysEnter { id: irq as i32, args }
        }
        "ret" => {
            let ret = rest.get(1).map_or(0, |ret| ret.parse().unwrap());
            Kind::SysExit { id: irq as i32, ret }
        }
        "fault" => Kind::UserFault { address: number(0).unwrap(), ip: 0, error_code: 4 },
        "faults" => Kind::PageFault { address: 0, count: irq, how: Faulted::default() },
        "lost" => Kind::Lost { count: number(0), after: number(2).map(|us| Mono(us * 1_000)) },
        "setprio" => {
            let back = rest[1] == "back";
            let lent = Prio::from_rt(number(1 + usize::from(back)).unwrap() as i32);
            let (old, new) = if back { (lent, Prio(120)) } else { (Prio(120), lent) };
            Kind::PiSetprio { task: task(strings, rest[0]), old, new }
        }
        "runs" => Kind::Other { name: strings.intern("event") },
        "other" => Kind::Other { name: strings.intern(rest[0]) },
        unknown => panic!("no such event: {unknown}"),
    }
}
