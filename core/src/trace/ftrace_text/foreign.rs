//! Texts about latency that have no events, by the name of their tool.

/// Number of bytes searched.
const SEARCHED: usize = 1 << 16;

/// The tool that wrote `text`, and the step that gives events; `None` if unknown.
#[must_use]
pub fn named(text: &str) -> Option<&'static str> {
    let end = (0..=SEARCHED.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = &text[..end];
    let has = |parts: &[&str]| parts.iter().all(|part| text.contains(part));
    const RECORD: &str =
        "text of bpftrace or bcc, which has no events: `lathunt trace` or `lathunt record` records them";
    Some(match () {
        () if has(&["sch delay", "run time"]) => "the table of perf sched timehist, which does not show who woke whom: name the perf.data itself, or print it with `perf script`",
        () if has(&["Switches", "Max delay"]) => "the table of perf sched latency, which has no events: name the perf.data itself, or print it with `perf script`",
        () if has(&["Attaching ", " probe"]) || has(&["usecs", ": count", "distribution"]) => RECORD,
        () if has(&[" ms): "]) && has(&[") = "]) => "text of perf trace, which has no switches: record with `lathunt trace`, or `perf record -e 'sched:*'`",
        () if has(&["# Overhead", "Command"]) => "the table of perf report, which has no times: name the perf.data itself, or print it with `perf script`",
        () if has(&["Call Trace:"]) || has(&["Call trace:"]) => "a stack of the kernel (oops, warning, hung task), without events",
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn tables_without_events_are_named() {
        let timehist =
            "           time    cpu  task name                       wait time  sch delay   run time\n";
        assert!(named(timehist).is_some_and(|name| name.contains("perf sched timehist")));
        assert!(named("Attaching 5 probes...\n@usecs:\n").is_some_and(|name| name.contains("bpftrace")));
        assert_eq!(named("words of no tool\n"), None);
        assert_eq!(named(&"ä".repeat(1 << 16)), None);
    }
}
