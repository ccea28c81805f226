//! A realistic run for tests: deterministic, with peaks, trees, gaps, losses and a verdict.
#![allow(dead_code)] // each test uses its part

use std::collections::BTreeMap;

use lathunt_core::conditions::{Capability, Conditions, IdleState, Kernel, Knobs, Machine};
use lathunt_core::explain::{Evidence, Explanation, Kind, Segment};
use lathunt_core::histogram::{Exact, Histogram, Layout};
use lathunt_core::peak::Peak;
use lathunt_core::run::{Calibration, Loss, Run};
use lathunt_core::series::{Quantity, SecondMax, Series, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use lathunt_core::verdict::{Criterion, ModelFree, Outcome, RuleOfThumb, Verdict};

/// When the example run begins.
pub const BEGIN: Mono = Mono(1_000_000_000_000);

/// A run of one minute on `cpus` CPUs with `samples` samples on each.
pub fn run(cpus: u32, samples: u64) -> Run {
    let mut run = Run::new(conditions(cpus));
    for (quantity, typical_us) in [(Quantity::Cyclic, 4), (Quantity::Timer, 1), (Quantity::Wakeup, 2)] {
        run.series.extend((0..cpus).map(|cpu| series(quantity, cpu, samples, typical_us)));
    }
    run.calibration = (0..cpus).map(calibration).collect();
    run.peaks = (0..cpus.min(4)).flat_map(|cpu| [irqs_off(cpu), preempted(cpu), lost(cpu)]).collect();
    run.peaks.sort_by_key(|peak| std::cmp::Reverse(peak.total_ns));
    run.verdict = Some(verdict(&run));
    run
}

/// A steep body, a thin tail, one far maximum: the shape of a healthy machine with one defect.
fn series(quantity: Quantity, cpu: u32, samples: u64, typical_us: u64) -> Series {
    let layout = Layout::LATENCY;
    let worst = Ns(peak_us(cpu) * 1_000 - typical_us * 100);
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64 ^ (u64::from(cpu) << 17) ^ typical_us;
    let mut left = samples.max(200) - 1;
    for row in 0..40u64 {
        random = next(random);
        let distance = row.abs_diff(1 + typical_us);
        let share = left / (2 + distance / 3) * (60 + random % 40) / 100;
        let tail = if row > 22 { (random >> 7) % 3 } else { share };
        let count = if row < typical_us { 0 } else { tail.min(left) };
        *counts.entry(row as usize).or_default() += count;
        left -= count;
    }
    *counts.entry(1 + typical_us as usize).or_default() += left;
    *counts.entry(layout.index(worst)).or_default() += 1;
    let counts: Vec<(usize, u64)> = counts.into_iter().filter(|&(_, n)| n > 0).collect();
    let min = Ns(layout.lower(counts[0].0).0 + 300);
    let sum_ns = counts.iter().map(|&(i, n)| (layout.lower(i).0 + 500).saturating_mul(n)).sum();
    let mut histogram = Histogram::new(layout);
    histogram.add_counts(&counts, Exact { sum_ns, min, max: worst }).expect("the example fits its layout");
    let seconds = (0..60).map(|second| {
        random = next(random);
        let usual = 9_000 + typical_us * 1_500 + random % 14_000;
        SecondMax { second, max_ns: if second == 20 + cpu % 40 { worst } else { Ns(usual) } }
    });
    Series {
        thread: (quantity == Quantity::Cyclic).then(|| victim(cpu)),
        begin: Some(BEGIN),
        interval_ns: Some(Ns::from_ms(1)),
        seconds: seconds.collect(),
        missed: Some(u64::from(cpu == 1)),
        ..Series::new(quantity, Some(Cpu(cpu)), histogram)
    }
}

fn next(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 1
}

fn peak_us(cpu: u32) -> u64 {
    87 - u64::from(cpu % 40)
}

fn victim(cpu: u32) -> Thread {
    Thread { tid: Tid(4_200 + cpu as i32), comm: format!("lathunt/{cpu}"), prio: Some(Prio::from_rt(95)) }
}

fn calibration(cpu: u32) -> Calibration {
    Calibration {
        cpu: Cpu(cpu),
        kind: "preemptoff".into(),
        injected_ns: Some(Ns(500_012)),
        instrument_ns: Some(Ns(503_700)),
        recorder_ns: Some(Ns(502_300)),
        undisturbed_ns: Some(Ns(4_999)),
        passed: true,
        note: String::new(),
    }
}

fn peak(cpu: u32, at: Ns, tree: Segment, sentence: String, advice: &str, cause: &str) -> Peak {
    assert!(tree.adds_up());
    let (total_ns, unexplained_ns) = (tree.duration_ns, tree.total_unexplained());
    Peak {
        quantity: Quantity::Cyclic,
        cpu: Cpu(cpu),
        begin: BEGIN + at,
        total_ns,
        victim: victim(cpu),
        culprit: Some(cause.into()),
        explanation: Some(Explanation {
            sentence,
            advice: advice.into(),
            tree,
            total_ns,
            unexplained_ns,
            cause: cause.into(),
            limits: Vec::new(),
        }),
        no_evidence: None,
        context: None,
        during_action: false,
        counted_as: None,
    }
}

/// Interrupts off: the timer comes late; part of the lateness has no evidence.
fn irqs_off(cpu: u32) -> Peak {
    let total = Ns(peak_us(cpu) * 1_000 - 400);
    let at = Ns(20_500_000_000 + u64::from(cpu) * 1_000_000_000);
    let begin = BEGIN + at;
    let late = Ns(total.0 - 14_000);
    let mut held =
        Segment::leaf(Kind::IrqsOff, "interrupts off: kworker/u8:3/731", begin, Ns(late.0 - 2_600));
    held.thread = Some(Thread { tid: Tid(731), comm: "kworker/u8:3".into(), prio: Some(Prio(120)) });
    held.stack = ["_raw_spin_unlock_irqrestore", "virtqueue_add_sgs", "virtblk_prep_rq", "virtio_queue_rq"]
        .map(String::from)
        .to_vec();
    held.evidence = vec![Evidence {
        event: "hrtimer_expire_entry function=hrtimer_wakeup".into(),
        cpu: Cpu(cpu),
        at: begin + late,
    }];
    let timer = Segment::group(Kind::TimerLate, "timer late", begin, late, vec![held]);
    let interrupt =
        Segment::leaf(Kind::TimerInterrupt, "timer interrupt up to the waking", begin + late, Ns(3_100));
    let mut irq =
        Segment::leaf(Kind::HardIrq, "hard IRQ 25 (virtio0-req.0)", begin + late + Ns(4_000), Ns(2_400));
    irq.count = 2;
    let wait = Segment::group(
        Kind::WakeupWait,
        "waking → switched in",
        begin + late + Ns(3_100),
        Ns(9_400),
        vec![irq, Segment::leaf(Kind::Scheduler, "scheduler", begin + late + Ns(6_400), Ns(7_000))],
    );
    let mut back =
        Segment::leaf(Kind::ReturnToUser, "switch → user space", begin + late + Ns(12_500), Ns(1_500));
    back.inferred = true;
    let tree =
        Segment::group(Kind::Passage, "cyclic latency", begin, total, vec![timer, interrupt, wait, back]);
    let sentence = format!(
        "{} of {total} passed before the timer interrupt came: kworker/u8:3/731 had interrupts off in virtqueue_add_sgs.",
        Ns(late.0 - 2_600)
    );
    let advice =
        "Move virtio0-req.0 (IRQ 25) and its workers to another CPU: /proc/irq/25/smp_affinity_list.";
    peak(cpu, at, tree, sentence, advice, "interrupts off: kworker/u8:3/731")
}

/// A thread of higher priority held the CPU.
fn preempted(cpu: u32) -> Peak {
    let at = Ns(41_250_000_000 + u64::from(cpu) * 10_000_000);
    let begin = BEGIN + at;
    let hog = Segment::leaf(Kind::Thread, "thread: irq/24-eth0/388", begin + Ns(5_000), Ns(31_000));
    let wait = Segment::group(
        Kind::WakeupWait,
        "waking → switched in",
        begin + Ns(4_200),
        Ns(35_500),
        vec![hog, Segment::leaf(Kind::Scheduler, "scheduler", begin + Ns(36_000), Ns(3_700))],
    );
    let timer = Segment::unexplained(Kind::TimerLate, "timer late", begin, Ns(1_200));
    let interrupt =
        Segment::leaf(Kind::TimerInterrupt, "timer interrupt up to the waking", begin + Ns(1_200), Ns(3_000));
    let total = Ns(39_700 + u64::from(cpu) * 100);
    let tree = Segment::group(Kind::Passage, "cyclic latency", begin, total, vec![timer, interrupt, wait]);
    let sentence =
        "irq/24-eth0/388 (RT 50) held the CPU for 31.0 µs while the victim was ready to run.".into();
    peak(
        cpu,
        at,
        tree,
        sentence,
        "Give the victim a priority above RT 50, or move eth0's interrupt away.",
        "thread: irq/24-eth0/388",
    )
}

/// No evidence reached the recorder.
fn lost(cpu: u32) -> Peak {
    Peak {
        quantity: Quantity::Cyclic,
        cpu: Cpu(cpu),
        begin: BEGIN + Ns(50_000_000_000 + u64::from(cpu) * 7_000_000),
        total_ns: Ns(33_300 - u64::from(cpu) * 200),
        victim: victim(cpu),
        culprit: None,
        explanation: None,
        no_evidence: Some("the flight ring was being read out for an earlier peak".into()),
        context: None,
        during_action: false,
        counted_as: None,
    }
}

fn verdict(run: &Run) -> Verdict {
    let samples = run.of(Quantity::Cyclic).map(|series| series.histogram.count()).sum();
    let max = run.max_of(Quantity::Cyclic).expect("the example has samples");
    Verdict {
        outcome: Some(Outcome::Pass),
        deadline_ns: Some(Ns::from_us(100)),
        quantity: None,
        judged_by: None,
        failures: 0,
        reasons: vec![
            format!("no sample above the deadline of 100 µs; the largest was {max}"),
            "instrument and recorder saw the injected disturbances at their size on every CPU".into(),
            "load: stress-ng, all classes".into(),
        ],
        model_free: Some(ModelFree {
            theta: None,
            effective_samples: None,
            samples,
            level_ns: max,
            above: 0,
            confidence: 0.95,
            probability_below: 3.0 / samples as f64,
            sentence: format!(
                "{samples} samples, none above {max}: with 95 % confidence fewer than 1 in {} activations exceed it",
                samples / 3
            ),
        }),
        rule_of_thumb: Some(RuleOfThumb {
            name: "10^5 clock periods".into(),
            bound_ns: Ns(33_333),
            source: "OSADL, rule of thumb for the worst-case latency".into(),
            met: false,
        }),
        criteria: vec![
            Criterion {
                name: "long enough".into(),
                met: Some(false),
                have: "1.2e5 samples".into(),
                want: "1e9 samples".into(),
            },
            Criterion {
                name: "calibrated".into(),
                met: Some(true),
                have: "2 of 2 injected disturbances seen".into(),
                want: "each injected disturbance seen".into(),
            },
        ],
        strict: false,
    }
}

/// A loss, for tests that want one.
pub fn loss() -> Loss {
    Loss {
        counter: "ring_overwritten".into(),
        count: 12,
        meaning: "peaks that began earlier than the ring reaches are explained in part".into(),
        evidence_only: true,
    }
}

fn conditions(cpus: u32) -> Conditions {
    let text = |text: &str| Some(text.to_owned());
    Conditions {
        common_start: None,
        started: text("2026-03-01T12:00:00Z"),
        duration_s: Some(60.0),
        command: text("lathunt hunt -D 60s --deadline 100us"),
        tool: text("lathunt 0.1.0"),
        host: text("press-7"),
        machine: Machine {
            architecture: text("x86_64"),
            cpu_model: text("Example CPU @ 3.00GHz"),
            cpus_online: Some(format!("0-{}", cpus.max(2) - 1)),
            cpus_measured: Some(format!("0-{}", cpus.max(2) - 1)),
            cpu_max_hz: Some(3_000_000_000),
            memory_bytes: Some(8 << 30),
            product: text("Example Board, firmware 1.2"),
            hypervisor: text("none"),
            smt: text("off"),
        },
        kernel: Kernel {
            release: text("6.1.0-18-rt-amd64"),
            version: text("#1 SMP PREEMPT_RT Debian 6.1.76-1"),
            preemption: text("PREEMPT_RT"),
            preemption_in_force: text("full"),
            realtime: Some(true),
            command_line: text("BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet isolcpus=1 nohz_full=1"),
            hz: Some(250),
            config: BTreeMap::from([("PREEMPT_RT".to_owned(), "y".to_owned())]),
        },
        knobs: Knobs {
            clocksource: text("tsc"),
            governors: BTreeMap::from([("0-1".to_owned(), "performance".to_owned())]),
            idle_states: vec![
                IdleState { state: 0, name: "POLL".into(), exit_latency_us: Some(0), disabled: Some(false) },
                IdleState { state: 1, name: "C1".into(), exit_latency_us: Some(2), disabled: Some(false) },
                IdleState { state: 2, name: "C6".into(), exit_latency_us: Some(133), disabled: Some(true) },
            ],
            cpu_dma_latency_us: Some(2_000_000_000),
            cpu_dma_latency_held_us: None,
            cpu_dma_latency_holders: Vec::new(),
            rt_runtime_us: Some(950_000),
            rt_period_us: Some(1_000_000),
            fair_server: BTreeMap::new(),
            other: BTreeMap::new(),
        },
        during: lathunt_core::conditions::DuringMeasurement::default(),
        load: text("stress-ng: cpu, memory, fork, fsync, timers, loopback"),
        capabilities: vec![
            Capability { name: "bpf".into(), present: true, note: String::new() },
            Capability {
                name: "kernel_symbols".into(),
                present: false,
                note: "kptr_restrict is 2: stacks show addresses; sysctl kernel.kptr_restrict=1".into(),
            },
        ],
        notes: vec!["The CPU frequency could not be read: no cpufreq driver.".into()],
    }
}
