//! The functions that build a kind from the fields of its recipe, in the order that [`super::RECIPES`] lists them.

use std::num::NonZeroU32;

use super::super::{left_as, Access, Fields, Texts};
use crate::cpuset::{CpuSet, CPU_LIMIT};
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Faulted, Kind, Sym, TaskRef};
use crate::trace::flight;
use crate::trace::value::{Array, Value};

pub(super) fn function(n: &mut Texts<'_>, f: &Fields<'_, '_>, index: usize) -> Option<Sym> {
    f.bits(index).and_then(|address| n.function(address))
}

pub(super) fn text(n: &mut Texts<'_>, f: &Fields<'_, '_>, index: usize) -> Option<Sym> {
    f.text(index).map(|bytes| n.text(bytes))
}

/// The direction of a request: the kernel's text, or LTTng's bits (lttng-modules, instrumentation/events/block.h).
pub(super) fn rwbs(n: &mut Texts<'_>, f: &Fields<'_, '_>, index: usize) -> Option<Sym> {
    const LETTERS: [(u64, char); 8] =
        [(128, 'F'), (1, 'W'), (2, 'D'), (4, 'R'), (8, 'A'), (16, 'B'), (32, 'S'), (64, 'M')];
    let Some(bits) = f.bits(index) else { return text(n, f, index) };
    let letters: String =
        LETTERS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter).collect();
    Some(n.intern(&letters))
}

pub(super) fn switch(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::Switch { prev: n.task(f, 0)?, left_as: left_as(f.bits(6)?), next: n.task(f, 3)? })
}

pub(super) fn flight_switch(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let left_as = flight::left_as(f.bits(2)? & 1 != 0, f.bits(6)? as u32);
    Some(Kind::Switch { prev: n.task(f, 0)?, left_as, next: n.task(f, 3)? })
}

pub(super) fn flight_expire(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let expires = f.bits(2).filter(|&expires| expires > 0).map(Mono);
    let slack = f.int(3).and_then(|slack| NonZeroU32::new(slack.max(0).unsigned_abs()));
    Some(Kind::TimerExpireEntry { timer: f.bits(0)?, function: function(n, f, 1), expires, now: None, slack })
}

pub(super) fn flight_fault(_: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let number = |index| f.bits(index).map(|bits| bits as u32);
    let how = Faulted { read: number(2)?, written: number(3)?, copied: number(4)? };
    Some(Kind::PageFault { address: f.bits(0)?, count: number(1)?, how })
}

fn target(f: &Fields<'_, '_>, index: usize) -> Option<Cpu> {
    f.int(index).filter(|&cpu| cpu >= 0).map(|cpu| Cpu(cpu as u32))
}

/// The thread of a wake-up, whose priority may have another scale.
fn woken(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<TaskRef> {
    let [others, woken] = n.prio_bias;
    let task = n.task(f, 0)?;
    Some(TaskRef { prio: task.prio.map(|prio| Prio(prio.0.saturating_add(woken - others))), ..task })
}

pub(super) fn waking(n: &mut Texts<'_>, f: &Fields<'_, '_>, new: bool) -> Option<Kind> {
    Some(Kind::Waking { task: woken(n, f)?, target_cpu: target(f, 3), new, waker_prio: None })
}

pub(super) fn wakeup(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    // Kernels before 3.0 also record attempts to wake a thread that was awake, or in another sleep.
    if f.int(4) == Some(0) {
        return None;
    }
    Some(Kind::Wakeup { task: woken(n, f)?, target_cpu: target(f, 3) })
}

pub(super) fn migrate(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::Migrate { task: n.task(f, 0)?, from: Cpu(f.int(3)? as u32), to: Cpu(f.int(4)? as u32) })
}

pub(super) fn pi_setprio(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let (old, new) = (n.prio(f.bits(3)?), n.prio(f.bits(4)?));
    Some(Kind::PiSetprio { task: n.task(f, 0)?, old, new })
}

pub(super) fn fork(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::Fork { parent: Tid(f.int(3)?), child: n.task(f, 0)? })
}

pub(super) fn exec(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::Exec { filename: text(n, f, 1), old: Tid(f.int(0)?) })
}

pub(super) fn exit(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::TaskExit { task: n.task(f, 0)? })
}

pub(super) fn rename(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::Rename { tid: Tid(f.int(0)?), comm: text(n, f, 1) })
}

pub(super) fn irq_entry(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::IrqEntry { irq: f.int(0)? as u32, name: text(n, f, 1) })
}

pub(super) fn irq_exit(_: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::IrqExit { irq: f.int(0)? as u32 })
}

pub(super) fn hrtimer_start(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let time = |bits: u64| Ns((bits as i64).max(0) as u64);
    let (expires, soft) = (time(f.bits(2)?), f.bits(3).map(time));
    Some(Kind::HrtimerStart { timer: f.bits(0)?, function: function(n, f, 1), expires, soft })
}

pub(super) fn hrtimer_expire(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    // The event has the time at which it ran, not its due time.
    let now = f.bits(2).map(Ns);
    Some(Kind::TimerExpireEntry {
        timer: f.bits(0)?,
        function: function(n, f, 1),
        expires: None,
        now,
        slack: None,
    })
}

pub(super) fn wheel_start(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let (timer, expires) = (f.bits(0)?, f.bits(2)?);
    Some(Kind::WheelTimerStart { timer, function: function(n, f, 1), expires, now: f.bits(3) })
}

pub(super) fn cpu_idle(_: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(match f.bits(0)? as u32 {
        u32::MAX => Kind::IdleExit,
        state => Kind::IdleEnter { state },
    })
}

/// The states of a CPU are numbered (include/linux/cpuhotplug.h), online is the highest: going offline decreases them.
pub(super) fn hotplug(_: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::Hotplug { cpu: Cpu(f.int(0)? as u32), down: f.int(1)? < f.int(2)? })
}

/// The CPUs of a mask, whose words have the lowest CPU first; `None` beyond the kernel's limit.
fn cpus_in(mask: &Array<'_>) -> Option<CpuSet> {
    let bits = u32::from(mask.element.size) * 8;
    let mut cpus = Vec::new();
    for (place, word) in (0..mask.len()).filter_map(|place| Some((place, mask.get(place)?.bits()?))) {
        let first = u32::try_from(place).ok()?.checked_mul(bits)?;
        cpus.extend((0..bits.min(64)).filter(|bit| word >> bit & 1 == 1).map(|bit| Cpu(first + bit)));
    }
    cpus.iter().all(|cpu| cpu.0 < CPU_LIMIT).then(|| cpus.into_iter().collect())
}

pub(super) fn ipi_send_mask(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let targets: CpuSet = match f.value(0) {
        Some(Value::Array(mask)) => cpus_in(&mask)?,
        // Traces as text have the list; one CPU alone is a number there.
        Some(Value::Text(list)) => std::str::from_utf8(list).ok()?.parse().ok()?,
        _ => [Cpu(u32::try_from(f.bits(0)?).ok()?)].into_iter().collect(),
    };
    let targets = n.intern(&CpuSet::to_string(&targets));
    Some(Kind::IpiSendMask { targets, callback: function(n, f, 1) })
}

/// The arguments of a system call, in the fields after the first one; 0 for an argument without a field.
fn arguments(f: &Fields<'_, '_>) -> [u64; 6] {
    std::array::from_fn(|index| f.bits(index + 1).unwrap_or(0))
}

pub(super) fn sys_enter(_: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::SysEnter { id: f.int(0)?, args: arguments(f) })
}

pub(super) fn sys_enter_named(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    match f.recipe.fields[0] {
        Access::None => Some(Kind::SysEnter { id: f.recipe.syscall, args: arguments(f) }),
        _ => sys_enter(n, f),
    }
}

pub(super) fn sys_exit_named(_: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::SysExit { id: f.int(0).unwrap_or(f.recipe.syscall), ret: f.bits(1)? as i64 })
}

pub(super) fn work_queue(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    Some(Kind::WorkQueue { work: f.bits(0)?, function: function(n, f, 1), target_cpu: target(f, 2) })
}

pub(super) fn filemap_fault(_: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    // The event counts pages of the recording machine; all architectures traced so far print `index << 12`.
    Some(Kind::FilemapFault { dev: f.int(0)? as u32, ino: f.bits(1)?, offset: f.bits(2)? << 12 })
}

pub(super) fn signal_generate(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let (code, result) = (f.int(4).unwrap_or(0), f.int(5).unwrap_or(0));
    Some(Kind::SignalGenerate { sig: f.int(3)?, task: n.task(f, 0)?, code, result })
}

pub(super) fn marker(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let text = f.text(0)?;
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    Some(Kind::Marker { text: n.text(text) })
}

pub(super) fn printk(n: &mut Texts<'_>, f: &Fields<'_, '_>) -> Option<Kind> {
    let format = n.source.info().printk_formats.get(&f.bits(0)?)?.clone();
    Some(Kind::Marker { text: n.intern(&format) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::bytes::Order;
    use crate::trace::ftrace_text::FtraceText;
    use crate::trace::item::{Item, Span};
    use crate::trace::normalize::Normalizer;
    use crate::trace::source::Source;
    use crate::trace::value::Element;

    #[test]
    fn masks_of_more_than_64_cpus_have_all_of_them() {
        let words = [1u64 << 63, 0b101, 0].map(u64::to_be_bytes).concat();
        let element = Element { size: 8, signed: false, text: false };
        let mask = |bytes| Array { bytes, element, order: Order::Big };
        assert_eq!(cpus_in(&mask(&words)).unwrap().to_string(), "63-64,66");
        assert_eq!(cpus_in(&mask(&[0xff; 2048])), None, "more than the kernel has");
        // A machine of 32 bits.
        let words = [2u32, 1].map(u32::to_le_bytes).concat();
        let mask = Array { bytes: &words, element: Element { size: 4, ..element }, order: Order::Little };
        assert_eq!(cpus_in(&mask).unwrap().to_string(), "1,32");
    }

    #[test]
    fn text_has_the_list_of_the_cpus() {
        let sent = |list: &str| {
            let text = format!("x-7 [001] d.... 1.000001: ipi_send_cpumask: cpumask={list} callsite=a+0x1/0x2 callback=b+0x0/0x2\n");
            let source = FtraceText::open(text.as_bytes()).unwrap();
            let mut normalizer = Normalizer::new(&source);
            let mut walk = source.events(Span::ALL);
            let Some(Item::Event(record)) = walk.next() else { panic!("no event") };
            match normalizer.event(&record).kind {
                Kind::IpiSendMask { targets, .. } => normalizer.strings().get(targets).to_owned(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([sent("0,65-70"), sent("3"), sent("0-1")], ["0,65-70", "3", "0-1"]);
    }
}
