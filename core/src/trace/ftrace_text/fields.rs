//! Parses the text after the name of an event into fields with the kernel's names.
//!
//! Most events print `name=value`; others, in the kernel or in trace-cmd's plug-ins, have a rule here.

mod forms;
mod tracers;

use std::borrow::Cow;

use super::ordered;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValue<'t> {
    Number(i64),
    Text(&'t str),
    /// A function's name where the binary record has its address.
    Function(&'t str),
}

use FieldValue::{Function, Number, Text};

/// Fields in the order of the record.
pub(super) type Fields<'t> = Vec<(Cow<'t, str>, FieldValue<'t>)>;

/// The event's name in the kernel, and its fields.
pub(super) fn parse<'a>(name: &'a str, text: &'a str) -> (Cow<'a, str>, Fields<'a>) {
    if let Some((name, fields)) = system_call(name, text) {
        return (Cow::Owned(name), fields);
    }
    let special = match name {
        "sched_switch" if text.ends_with([']', 's']) => forms::short_switch(text),
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" if text.contains(" [") => {
            forms::short_wakeup(text)
        }
        "sys_enter" => forms::sys_enter(text).or_else(|| forms::raw_sys_enter(text)),
        "sys_exit" => forms::sys_exit(text),
        "tracing_mark_write" => return (Cow::Borrowed("print"), vec![field("buf", Text(text))]),
        "print" => {
            let (_, buf) = text.split_once(": ").unwrap_or(("", text));
            Some(vec![field("buf", Text(buf))])
        }
        "workqueue_execute_start" | "workqueue_execute_end" | "workqueue_activate_work" => forms::work(text),
        "mm_filemap_fault" => forms::filemap_fault(text),
        "block_rq_issue" | "block_rq_insert" | "block_rq_complete" => forms::block_request(text),
        "contention_begin" | "contention_end" => forms::contention(text),
        "timer_start" => forms::wheel_timer(text),
        "timerlat" if text.starts_with('#') => tracers::timerlat(text),
        "timerlat" | "hwlat" => tracers::plugin(text),
        "irq_noise" | "softirq_noise" | "thread_noise" | "nmi_noise" | "sample_threshold" => {
            tracers::noise(name, text)
        }
        "function" => forms::function(text),
        "nmi_handler" | "cpuhp_enter" | "cpuhp_multi_enter" => forms::behind_colons(text),
        _ => None,
    };
    let fields = special.unwrap_or_else(|| pairs(name, text));
    (Cow::Borrowed(name), fields)
}

/// Events of single system calls, under LTTng's names: `sys_write(fd: 4, …)` and `sys_write -> 0x1f` of the kernel,
/// `sys_enter_write: fd: 0x4, …` and `sys_exit_write: 0x1f` of trace-cmd and perf.
fn system_call<'t>(name: &str, text: &'t str) -> Option<(String, Fields<'t>)> {
    let call = name.strip_prefix("sys_")?;
    let (call, enters) = match (call.strip_prefix("enter_"), call.strip_prefix("exit_")) {
        (Some(call), _) => (call, true),
        (_, Some(call)) => (call, false),
        _ if text.starts_with('(') => (call, true),
        _ if text.starts_with("->") => (call, false),
        _ => return None,
    };
    if !enters {
        let ret = text.trim_start_matches("->").trim();
        let ret = number(ret.split(' ').next().unwrap_or(ret)).unwrap_or_default();
        return Some((format!("syscall_exit_{call}"), vec![field("ret", Number(ret))]));
    }
    let inside = text.strip_prefix('(').map_or(text, |inside| inside.trim_end().trim_end_matches(')'));
    let arguments = inside.split(", ").filter_map(|argument| {
        let (name, value) = argument.split_once(':')?;
        let value = value.trim().split(' ').next().unwrap_or("");
        let is_name =
            !name.is_empty() && name.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| field(name.trim(), Number(address(value).unwrap_or_default())))
    });
    Some((format!("syscall_entry_{call}"), arguments.take(6).collect()))
}

fn field<'t>(name: &'t str, value: FieldValue<'t>) -> (Cow<'t, str>, FieldValue<'t>) {
    (Cow::Borrowed(name), value)
}

/// The argument of this number of a system call.
fn argument(index: usize, value: u64) -> (Cow<'static, str>, FieldValue<'static>) {
    const NAMES: [&str; 6] = ["args[0]", "args[1]", "args[2]", "args[3]", "args[4]", "args[5]"];
    let name = NAMES.get(index).map_or_else(|| format!("args[{index}]").into(), |name| (*name).into());
    (name, Number(value as i64))
}

/// `a=1 b=x y c=0x3`: a value reaches up to the next name.
fn pairs<'t>(event: &str, text: &'t str) -> Fields<'t> {
    let mut names: Vec<(usize, usize, usize)> = Vec::with_capacity(8);
    let bytes = text.as_bytes();
    for equals in (0..bytes.len()).filter(|at| bytes[*at] == b'=') {
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let begin = bytes[..equals].iter().rposition(|byte| !is_of_name(byte)).map_or(0, |at| at + 1);
        let apart = begin == 0 || matches!(bytes[begin - 1], b' ' | b'[' | b'(');
        if begin < equals && apart {
            names.push((begin, equals, equals + 1));
        }
    }
    ordered::drop_names(event, text, &mut names);
    let ends = names.iter().skip(1).map(|&(begin, ..)| begin).chain([text.len()]);
    let mut fields = Vec::with_capacity(names.len());
    for (&(begin, equals, value), end) in names.iter().zip(ends) {
        let name = kernel_name(event, &text[begin..equals]);
        fields.push(field(name, value_of(name, without_marks(&text[value..end]))));
    }
    fields
}

/// A value without what the kernel prints between it and the next name.
fn without_marks(text: &str) -> &str {
    let mut value = text.trim_ascii();
    while let Some(shorter) = value.strip_suffix("==>") {
        value = shorter;
    }
    value.trim_end_matches(['[', '(']).trim_ascii_end().trim_end_matches(',')
}

/// Names that the printed text has otherwise than the record.
fn kernel_name<'a>(event: &str, name: &'a str) -> &'a str {
    match (event, name) {
        ("sched_process_fork", "comm") => "parent_comm",
        ("sched_process_fork", "pid") => "parent_pid",
        ("workqueue_queue_work", "struct") => "work",
        ("net_dev_queue" | "netif_receive_skb", "dev") => "name",
        _ => name,
    }
}

fn value_of<'t>(name: &str, text: &'t str) -> FieldValue<'t> {
    let first = text.split(' ').next().unwrap_or("");
    match name {
        "prev_state" => Number(state(first)),
        "function" | "func" | "callback" | "callsite" => function_of(first),
        "comm" | "prev_comm" | "next_comm" | "parent_comm" | "child_comm" | "filename" | "name"
        | "workqueue" => Text(text),
        "hrtimer" | "timer" | "work" | "csd" | "skbaddr" | "address" | "ip" | "sa_handler" | "sa_flags" => {
            address(first).map_or_else(|| Text(text), Number)
        }
        _ => match number(first) {
            // `3 [action=x]` is a number with an explanation, `3 blind mice` is a text.
            Some(number)
                if first.len() == text.len() || text[first.len()..].trim_start().starts_with(['[', '(']) =>
            {
                Number(number)
            }
            _ => Text(text),
        },
    }
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(|number| number as i64),
        None => text.parse().ok().or_else(|| text.parse::<u64>().ok().map(|number| number as i64)),
    }
}

/// A pointer: hexadecimal with or without 0x; `(nil)` is 0.
fn address(text: &str) -> Option<i64> {
    match text {
        "(nil)" | "(null)" => Some(0),
        _ => u64::from_str_radix(text.trim_start_matches("0x"), 16).ok().map(|number| number as i64),
    }
}

/// `tick_nohz_handler/0x0`, `generic_exec_single+0x2a/0x80`.
fn function_of(text: &str) -> FieldValue<'_> {
    let name = text.split(['+', '/']).next().unwrap_or(text);
    match text.strip_prefix("0x").and_then(|_| number(text)) {
        Some(address) => Number(address),
        None if name.is_empty() => Number(0),
        None => Function(name),
    }
}

/// Letters of `prev_state` (TASK_STATE_TO_CHAR_STR) as the kernel's bits; `+` is "preempted". Raw texts have the bits.
fn state(text: &str) -> i64 {
    if let Some(bits) = number(text) {
        return bits;
    }
    text.chars().fold(0, |bits, letter| {
        bits | match letter {
            'S' => 1,
            'D' => 2,
            'T' => 4,
            't' => 8,
            'X' => 0x10,
            'Z' => 0x20,
            'P' => 0x40,
            'I' | 'W' => 0x80,
            '+' => 0x100,
            _ => 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'t>(event: &'t str, text: &'t str, name: &str) -> Option<FieldValue<'t>> {
        parse(event, text).1.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    #[test]
    fn values_with_spaces_reach_up_to_the_next_name() {
        let text = "prev_comm=opt cgu.00 prev_pid=5 prev_prio=120 prev_state=R+ ==> next_comm=a=b next_pid=6 next_prio=9";
        assert_eq!(value("sched_switch", text, "prev_comm"), Some(Text("opt cgu.00")));
        assert_eq!(value("sched_switch", text, "prev_state"), Some(Number(0x100)));
        assert_eq!(value("sched_switch", text, "next_prio"), Some(Number(9)));
        assert_eq!(value("softirq_raise", "vec=9 [action=RCU]", "vec"), Some(Number(9)));
        // The option `fields` of the kernel, and `trace-cmd report -R`.
        let text =
            "prev_comm=a b prev_pid=0x227 (551) prev_state=0x100 (256) next_comm=swapper/1 next_pid=0x0 (0)";
        assert_eq!(value("sched_switch", text, "prev_pid"), Some(Number(551)));
        assert_eq!(value("sched_switch", text, "prev_state"), Some(Number(256)));
        assert_eq!(value("sched_switch", text, "prev_comm"), Some(Text("a b")));
        let text = "func=sched_ttwu_pending, csd=0xffff888100000000";
        assert_eq!(value("csd_function_entry", text, "func"), Some(Function("sched_ttwu_pending")));
        assert_eq!(value("csd_function_entry", text, "csd"), Some(Number(0xffff_8881_0000_0000_u64 as i64)));
    }

    #[test]
    fn forms_without_names_have_their_rules() {
        assert_eq!(value("sys_enter", "NR 600 (7, ff, 0, 0, 0, 0)", "args[1]"), Some(Number(255)));
        assert_eq!(value("sys_exit", "NR 600 = -38", "ret"), Some(Number(-38)));
        let raw = "id=600 args=ARRAY[07, 00, 00, 00, 00, 00, 00, 00, ff, 01, 00, 00, 00, 00, 00, 00]";
        assert_eq!(value("sys_enter", raw, "args[1]"), Some(Number(0x1ff)));
        assert_eq!(value("sys_enter", raw, "id"), Some(Number(600)));
        let text = "d==> e [1]:7 [120] S ==> a ==> b:8 [49]";
        assert_eq!(value("sched_switch", text, "prev_comm"), Some(Text("d==> e [1]")));
        assert_eq!(value("sched_switch", text, "next_comm"), Some(Text("a ==> b")));
        assert_eq!(value("sched_switch", text, "next_prio"), Some(Number(49)));
        let text = format!("{text} Latency: 5.350 usecs");
        assert_eq!(value("sched_switch", &text, "next_comm"), Some(Text("a ==> b")));
        let old = "task a b:7 [120] (S) ==> task c:8 [49]";
        assert_eq!(value("sched_switch", old, "prev_comm"), Some(Text("a b")));
        assert_eq!(value("sched_switch", old, "prev_state"), Some(Number(1)));
        assert_eq!(value("sched_switch", old, "next_comm"), Some(Text("task c")));
        let old = "task a b:7 [49] success=1 [002]";
        assert_eq!(value("sched_wakeup", old, "comm"), Some(Text("a b")));
        assert_eq!(value("sched_wakeup", old, "target_cpu"), Some(Number(2)));
        let text = "work struct 0xffff888100000010: function flush_to_ldisc";
        assert_eq!(value("workqueue_execute_start", text, "function"), Some(Function("flush_to_ldisc")));
        let text = "254,0 RA 16384 () 25526272 + 32 none,0,0 [trace-cmd]";
        assert_eq!(value("block_rq_issue", text, "sector"), Some(Number(25_526_272)));
        assert_eq!(value("contention_begin", "0xffff (flags=SPIN|WRITE)", "flags"), Some(Number(5)));
        assert_eq!(value("mm_filemap_fault", "dev=254:0 ino=3c4d7 ofs=8192", "index"), Some(Number(2)));
    }

    #[test]
    fn fields_behind_colons_are_read() {
        let text = "perf_event_nmi_handler() delta_ns: 4900000 handled: 1";
        assert_eq!(value("nmi_handler", text, "delta_ns"), Some(Number(4_900_000)));
        assert_eq!(value("nmi_handler", text, "handled"), Some(Number(1)));
        let text = "cpu: 0001 target: 237 step: 238 (smpboot_park_threads)";
        let of = |name| value("cpuhp_enter", text, name);
        assert_eq!(["cpu", "target", "idx"].map(of), [1, 237, 238].map(|number| Some(Number(number))));
        // `trace-cmd report -R`
        assert_eq!(value("cpuhp_enter", "cpu=1 target=237 idx=238", "idx"), Some(Number(238)));
    }

    #[test]
    fn what_a_thread_is_called_overrides_no_field() {
        for comm in ["pid=7", "prev_pid=9", "comm=a pid=1", "a [1]"] {
            let text = format!("{comm}:77 [19] CPU:001");
            assert_eq!(value("sched_waking", &text, "pid"), Some(Number(77)), "{comm}");
            assert_eq!(value("sched_waking", &text, "comm"), Some(Text(comm)), "{comm}");
            let text = format!("{comm}:77 [19] S ==> {comm}:78 [120]");
            assert_eq!(value("sched_switch", &text, "prev_pid"), Some(Number(77)), "{comm}");
            assert_eq!(value("sched_switch", &text, "next_pid"), Some(Number(78)), "{comm}");
        }
        let text = "comm=a:1 [2] CPU:3 pid=77 prio=120 target_cpu=001";
        assert_eq!(value("sched_waking", text, "pid"), Some(Number(77)));
        let text = "comm=x pid=1 pid=77 prio=120 target_cpu=000";
        assert_eq!(value("sched_waking", text, "pid"), Some(Number(77)));
        assert_eq!(value("sched_waking", text, "comm"), Some(Text("x pid=1")));
        let text = "prev_comm=a prev_pid=1 prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=b prev_pid=2 next_pid=6 next_prio=9";
        assert_eq!(value("sched_switch", text, "prev_pid"), Some(Number(5)));
        assert_eq!(value("sched_switch", text, "next_pid"), Some(Number(6)));
        assert_eq!(value("sched_switch", text, "next_comm"), Some(Text("b prev_pid=2")));
        let text = "comm=a n=3 pid=7 prio=9 orig_cpu=0 dest_cpu=1";
        assert_eq!(value("sched_migrate_task", text, "comm"), Some(Text("a n=3")));
        let text = "comm=a pid=7 prio=9 success=1 target_cpu=001";
        assert_eq!(value("sched_wakeup", text, "target_cpu"), Some(Number(1)));
    }
}
