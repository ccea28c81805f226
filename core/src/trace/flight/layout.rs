//! Fields of each kind of record, with their offsets.

use crate::trace::catalogue::Place;
use crate::trace::value::Element;

/// Names of the classes by kind of record, 0 unused; 8 and 9 have one for each vector instead.
pub(super) const KINDS: [(&str, &[(&str, Place)]); 28] = [
    ("", &[]),
    (
        "sched_switch",
        &[
            ("prev_pid", I32_CURRENT),
            ("prev_prio", PRIO_A),
            ("preempted", FLAG),
            ("prev_state", WORD),
            ("next_pid", I32_TID),
            ("next_prio", PRIO_B),
            ("next_comm", COMM),
        ],
    ),
    ("sched_waking", WOKEN),
    ("sched_wakeup_new", WOKEN),
    (
        "sched_migrate_task",
        &[("pid", I32_TID), ("prio", PRIO_B), ("comm", COMM), ("orig_cpu", AUX), ("dest_cpu", WORD)],
    ),
    ("sched_pi_setprio", &[("pid", I32_TID), ("comm", COMM), ("oldprio", PRIO_A), ("newprio", PRIO_B)]),
    ("irq_handler_entry", &[("irq", WORD)]),
    ("irq_handler_exit", &[("irq", WORD)]),
    ("", &[]),
    ("", &[]),
    ("softirq_entry", &[("vec", WORD)]),
    ("softirq_exit", &[("vec", WORD)]),
    ("nmi_handler", &[("delta_ns", FIRST)]),
    (
        "hrtimer_expire_entry",
        &[("hrtimer", FIRST), ("function", SECOND), ("expires", EXPIRES), ("slack", I32_TID)],
    ),
    ("hrtimer_expire_exit", &[("hrtimer", FIRST)]),
    ("cpu_idle", &[("state", WORD)]),
    ("csd_function_entry", &[("csd", FIRST), ("func", SECOND)]),
    ("csd_function_exit", &[("csd", FIRST)]),
    (
        "page_fault",
        &[("address", FIRST), ("count", COUNT), ("read", WORD), ("written", WRITTEN), ("copied", I32_TID)],
    ),
    ("", &[]),
    ("host_steal", &[("taken", FIRST), ("since", SECOND)]),
    ("sys_enter", &[("id", I32_TID), ("args[0]", FIRST), ("args[1]", SECOND), ("args[2]", EXPIRES)]),
    ("sys_exit", &[("id", I32_TID), ("ret", RESULT)]),
    ("task_rename", &[("pid", I32_TID), ("newcomm", COMM)]),
    ("csd_queue_cpu", &[("cpu", WORD), ("func", SECOND), ("csd", FIRST)]),
    ("signal_generate", &[("pid", I32_TID), ("comm", COMM), ("sig", WORD)]),
    ("signal_deliver", &[("sig", WORD)]),
    ("interrupted_call", &[("id", CALL)]),
];
const WOKEN: &[(&str, Place)] = &[("pid", I32_TID), ("prio", PRIO_B), ("comm", COMM), ("target_cpu", WORD)];
pub(super) const SWITCH: u8 = 1;
pub(super) const VECTOR_ENTRY: u8 = 8;
pub(super) const VECTOR_EXIT: u8 = 9;
/// Numbers of vectors are below this.
pub(super) const VECTORS: u32 = 16;

pub(super) const I32_CURRENT: Place = int(16, 4, true);
const I32_TID: Place = int(20, 4, true);
const PRIO_A: Place = int(24, 2, true);
const PRIO_B: Place = int(26, 2, true);
const WORD: Place = int(28, 4, false);
const CALL: Place = int(28, 4, true);
const FLAG: Place = int(13, 1, false);
const AUX: Place = int(14, 2, false);
const EXPIRES: Place = int(24, 8, false);
const FIRST: Place = int(32, 8, false);
const RESULT: Place = int(32, 8, true);
const COUNT: Place = int(40, 4, false);
const WRITTEN: Place = int(44, 4, false);
const SECOND: Place = int(40, 8, false);
pub(super) const COMM: Place =
    Place::Array { offset: 32, size: 16, element: Element { size: 1, signed: false, text: true } };

const fn int(offset: u32, size: u8, signed: bool) -> Place {
    Place::Int { offset, size, signed }
}
