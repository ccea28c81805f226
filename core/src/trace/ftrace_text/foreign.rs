//! Texts about latency that have no events, by the name of their tool.

use super::line::cpus_in_brackets;

/// Number of bytes searched.
const SEARCHED: usize = 1 << 16;

/// The tool that wrote `text`, and the step that gives events; `None` if unknown.
#[must_use]
pub fn named(text: &str) -> Option<String> {
    let end = (0..=SEARCHED.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = &text[..end];
    const RECORD: &str =
        "text of bpftrace or bcc, which has no events: `lathunt trace` or `lathunt record` records them";
    const PERF: &str = "name the perf.data itself, or print it with `perf script`";
    let table = |what: &str| Some(format!("{what}: {PERF}"));
    let all = |parts: &[&str]| parts.iter().all(|part| text.contains(part));
    match () {
        () if all(&["sch delay", "run time"]) => {
            table("the table of perf sched timehist, which does not show who woke whom")
        }
        () if all(&["Runtime ms", "delay ms"]) => table("the table of perf sched latency, which has no events"),
        () if is_map(text) => {
            table("the table of perf sched map, which has no wake-ups: it shows only which thread each CPU ran")
        }
        () if all(&["# Overhead", "Command"]) => table("the table of perf report, which has no times"),
        () if all(&["Percent", "Disassembly of section"]) => table("text of perf annotate, which has no times"),
        () if all(&["contended", "total wait"]) => table("the table of perf lock, which has no events"),
        () if all(&["Performance counter stats for"]) => {
            Some("the counters of perf stat, which have no events: record with `lathunt trace`, or `perf record -e 'sched:*'`".to_owned())
        }
        () if all(&["Attaching ", " probe"]) || all(&["usecs", ": count", "distribution"]) || is_histogram(text) => {
            Some(RECORD.to_owned())
        }
        () if all(&[" ms): "]) && all(&[") = "]) => Some("text of perf trace, which has no switches: record with `lathunt trace`, or `perf record -e 'sched:*'`".to_owned()),
        () if all(&["# event histogram"]) || all(&["# trigger info:", "Totals:"]) => {
            Some("a histogram of the kernel's events (hist trigger), which has no single events: `lathunt import` reads its latencies; record events with `lathunt trace`".to_owned())
        }
        () if all(&["Function", "Hit", "Time", "Avg"]) => {
            Some("the function profile of ftrace (trace_stat), which has no single calls: record the function_graph tracer, and paste /sys/kernel/tracing/trace".to_owned())
        }
        () if all(&["Depth", "Size", "Location"]) => {
            Some("the deepest stack of the stack tracer, which has no times".to_owned())
        }
        () if all(&["{ cpu_id = "]) || all(&["] (+", "}, {"]) => {
            Some("text of babeltrace, which prints LTTng's traces: name the directory of the trace itself".to_owned())
        }
        () if all(&["Local timer interrupts"]) || all(&["IPI0:"]) => {
            Some("counts of interrupts (/proc/interrupts), which have no times: record the interrupts with `lathunt trace`".to_owned())
        }
        () if all(&["runnable tasks:", "switches"]) || all(&["cfs_rq[", ".nr_running"]) => {
            Some("the state of the scheduler (/proc/sched_debug), which has no events: record them with `lathunt trace`".to_owned())
        }
        () if all(&["PID", "COMMAND", "%CPU"]) => {
            Some("the table of top or ps, which has no events: record them with `lathunt trace`".to_owned())
        }
        () if all(&["Call Trace:"]) || all(&["Call trace:"]) => {
            Some("a stack of the kernel (oops, warning, hung task), without events".to_owned())
        }
        () if is_of_strace(text) => {
            Some("text of strace, which has no switches: record with `lathunt trace`, which has system calls, too (--events full)".to_owned())
        }
        () if all(&["entries: ", "overrun: ", "read events: "]) => {
            Some("the statistics of a buffer (trace-cmd report --stat, per_cpu/cpu*/stats), which have no events: name the trace.dat itself, or print it with `trace-cmd report` alone".to_owned())
        }
        () if is_profile(text) => {
            Some("the sums of trace-cmd report --profile, which have no single events: name the trace.dat itself, or print it with `trace-cmd report` alone".to_owned())
        }
        () if all(&["# tracer: sched_switch"]) => Some(OLD_SWITCHES.to_owned()),
        () if text.trim_start().starts_with("cpus=") => {
            Some("a text of trace-cmd report without an event: was the recording empty or filtered, or printed with --profile? Name the trace.dat itself".to_owned())
        }
        () => None,
    }
}

/// `  *A0   995.347121 secs A0 => migration/0:18` of perf sched map.
fn is_map(text: &str) -> bool {
    let is_row =
        |line: &&str| line.contains(" secs") && line.split_whitespace().any(|word| word.starts_with('*'));
    text.lines().filter(is_row).take(2).count() == 2
}

/// `[4, 8)   12 |@@@@   |` of bpftrace.
fn is_histogram(text: &str) -> bool {
    let is_row = |line: &&str| line.starts_with('[') && line.contains(") ") && line.trim_end().ends_with('|');
    text.lines().filter(is_row).take(2).count() == 2
}

/// `task: sleep-4055`, and below it `  Event: sched_switch:S (1) Total: 50101874 …`.
fn is_profile(text: &str) -> bool {
    let starts = |part: &str| text.lines().any(|line| line.starts_with(part));
    (starts("task: ") || starts("group: ")) && starts("  Event: ")
}

/// Of the tracer sched_switch, which the events replaced.
pub(super) const OLD_SWITCHES: &str = "text of the tracer sched_switch of old kernels (`3997:120:R ==> [001] 4055:120:R`), which has no events: record sched_switch and sched_wakeup instead (`echo 1 > events/sched/enable`, `echo nop > current_tracer`)";

/// `bash-3997  [001]   240.132284:   3997:120:R ==> [001]  4055:120:R sleep`; `+` for `==>` at a waking.
pub(super) fn is_context_switch(line: &str) -> bool {
    let Some((head, tasks)) = line.split_once(": ") else { return false };
    let Some((from, to)) = tasks.split_once(" ==> ").or_else(|| tasks.split_once(" + ")) else {
        return false;
    };
    let to = to.trim_start();
    let to = to.strip_prefix('[').and_then(|to| to.split_once(']')).map_or(to, |(_, to)| to);
    let end = to.match_indices(':').nth(1).map_or(0, |(at, _)| at + 2);
    cpus_in_brackets(head).next().is_some() && is_task(from) && to.get(..end).is_some_and(is_task)
}

/// `  3997: 94:R`: thread, priority, state.
fn is_task(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_state = |text: &str| text.len() == 1 && !is_number(text);
    matches!(parts[..], [tid, prio, state] if is_number(tid) && is_number(prio) && is_state(state))
}

/// `clock_nanosleep(CLOCK_MONOTONIC, …) = 0`
fn is_of_strace(text: &str) -> bool {
    let is_call = |line: &&str| {
        let Some((head, _)) = line.split_once('(') else { return false };
        let name = head.split_whitespace().next_back().unwrap_or_default();
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        is_name && line.contains(") = ")
    };
    text.lines().filter(is_call).take(3).count() == 3
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn tables_without_events_are_named() {
        let tables = [
            (
                "           time    cpu  task name                       wait time  sch delay   run time\n",
                "perf sched timehist",
            ),
            (
                "  Task   |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    | Max delay start |\n",
                "perf sched latency",
            ),
            (
                "  Task   |   Runtime ms  | Switches | Average delay ms | Maximum delay ms | Maximum delay at |\n",
                "perf sched latency",
            ),
            ("Attaching 5 probes...\n@usecs:\n", "bpftrace"),
            ("@usecs:\n[4, 8)   12 |@@@@    |\n[8, 16)   1 |@       |\n", "bpftrace"),
            (
                "  *A0     995.347121 secs A0 => migration/0:18\n   A0 *B0  995.347149 secs B0 => a:9\n",
                "perf sched map",
            ),
            ("# event histogram\n#\n# trigger info: hist:keys=pid\n", "hist trigger"),
            ("  Function      Hit    Time            Avg             s^2\n", "function profile"),
            (
                "[10:11:12.123456789] (+0.000001) a sched_switch: { cpu_id = 1 }, { prev_tid = 1 }\n",
                "babeltrace",
            ),
            ("           CPU0       CPU1\nLOC:   12   13   Local timer interrupts\n", "/proc/interrupts"),
            (&"1.0 read(3, \"\", 4) = 0\n".repeat(3), "strace"),
            ("cpus=2\n", "trace-cmd report"),
            (
                "cpus=1\n\nKernel buffer statistics:\n\nCPU: 0\nentries: 0\noverrun: 0\ncommit overrun: 0\nread events: 5199\n",
                "trace-cmd report --stat",
            ),
            (
                "cpus=2\n\ntask: sleep-4055\n  Event: sched_switch:S (1) Total: 50101874 Avg: 50101874\n",
                "trace-cmd report --profile",
            ),
            (
                "# tracer: sched_switch\n#\n    bash-3997  [01]   240.132281:   3997:120:R   +  4055:120:R\n    bash-3997  [01]   240.132284:   3997:120:R ==>  4055:120:R\n",
                "the tracer sched_switch of old kernels",
            ),
        ];
        for (text, name) in tables {
            assert!(named(text).is_some_and(|named| named.contains(name)), "{name}: {:?}", named(text));
        }
        assert_eq!(named("words of no tool\n"), None);
        assert_eq!(named(&"ä".repeat(1 << 16)), None);
    }
}
