//! One line: who, where, when, what.

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Event(EventLine<'a>),
    Lost {
        cpu: u32,
        count: Option<u64>,
    },
    /// Comments, headings, stacks, empty lines.
    Comment,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventLine<'a> {
    pub comm: &'a str,
    pub tid: i32,
    pub cpu: u32,
    pub at: u64,
    pub name: &'a str,
    pub fields: &'a str,
}

/// `None` for a line of no known form.
pub(super) fn parse(line: &str) -> Option<Line<'_>> {
    let trimmed = line.trim();
    let heading = ["#", "=>", "cpus=", "CPU ", "version =", "trace-cmd"];
    if trimmed.is_empty() || heading.iter().any(|start| trimmed.starts_with(start)) {
        return Some(Line::Comment);
    }
    lost(trimmed).or_else(|| usual(trimmed).or_else(|| latency(trimmed)).map(Line::Event))
}

/// `CPU:1 [LOST 5 EVENTS]` of the kernel, `CPU:1 [5 EVENTS DROPPED]` and `CPU:1 [EVENTS DROPPED]` of trace-cmd.
fn lost(line: &str) -> Option<Line<'_>> {
    let inside = line.strip_suffix(']')?;
    let (head, inside) = inside.rsplit_once('[')?;
    if !(inside.contains("EVENTS") && (inside.contains("LOST") || inside.contains("DROPPED"))) {
        return None;
    }
    let (_, cpu) = head.rsplit_once("CPU:")?;
    let count = inside.split(' ').find_map(|word| word.parse().ok());
    Some(Line::Lost { cpu: cpu.trim().parse().ok()?, count })
}

/// `[BUFFER:] COMM-TID [(TGID)] [CPU] [FLAGS] TIME: NAME: FIELDS`
fn usual(line: &str) -> Option<EventLine<'_>> {
    let (at_bracket, cpu, rest) = cpu_in_brackets(line)?;
    let mut who = line[..at_bracket].trim_end();
    if who.ends_with(')') {
        who = who[..who.rfind('(')?].trim_end();
    }
    let (comm, tid) = who.rsplit_once('-')?;
    let mut rest = rest.trim_start();
    for _ in 0..3 {
        let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if let Some(at) = word.strip_suffix(':').and_then(time) {
            let (name, fields) = name_and_fields(behind.trim_start());
            return Some(EventLine { comm: comm_of(comm), tid: tid.parse().ok()?, cpu, at, name, fields });
        }
        rest = behind.trim_start();
    }
    None
}

/// The name behind `BUFFER: `, which trace-cmd prints for named buffers.
fn comm_of(text: &str) -> &str {
    text.rsplit_once(": ").map_or(text, |(_, comm)| comm).trim()
}

/// Finds ` [012]`; gives where it begins, the CPU, and what is behind.
fn cpu_in_brackets(line: &str) -> Option<(usize, u32, &str)> {
    for (at, _) in line.match_indices(" [") {
        let (inside, behind) = line[at + 2..].split_once(']')?;
        if inside.len() >= 3 && inside.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some((at, inside.parse().ok()?, behind));
        }
    }
    None
}

/// Seconds with six or nine digits behind the point.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let scale = match fraction.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    let ns = fraction.parse::<u64>().ok()?.checked_mul(scale)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// `sched_switch: prev_comm=…`; lines of tracers have no name: `#1 context irq …`, `function <-parent`.
fn name_and_fields(text: &str) -> (&str, &str) {
    if text.starts_with('#') {
        return ("timerlat", text);
    }
    let word_end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    match text[word_end..].strip_prefix(':') {
        Some(fields) if word_end > 0 => (&text[..word_end], fields.trim()),
        _ if text.contains(" <-") => ("function", text),
        _ => ("text", text),
    }
}

/// `COMM-TID  0dn.h5..  12us+: NAME: FIELDS`: CPU and flags are one word, time counts from the begin of the trace.
fn latency(line: &str) -> Option<EventLine<'_>> {
    let at = line.match_indices("us").find_map(|(at, _)| {
        let digits = line[..at].rsplit(char::is_whitespace).next()?;
        let mark = line[at + 2..].trim_start_matches(['+', '!', '#', '*', '@', '$', ' ']).starts_with(':');
        (mark && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(at)
    })?;
    let mut words = line[..at].split_whitespace().rev();
    let micros: u64 = words.next()?.parse().ok()?;
    let flags = words.next()?;
    let digits = flags.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let cpu = flags.get(..digits)?.parse().ok()?;
    let who = line[..line.find(flags)?].trim_end();
    let (comm, tid) = who.rsplit_once('-')?;
    let behind = line[at..].split_once(':')?.1.trim_start();
    let (name, fields) = name_and_fields(behind);
    let at = micros.checked_mul(1000)?;
    Some(EventLine { comm: comm.trim(), tid: tid.trim().parse().ok()?, cpu, at, name, fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> EventLine<'_> {
        match parse(line) {
            Some(Line::Event(event)) => event,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn all_columns_that_kernels_and_tools_print_are_understood() {
        let forms = [
            "          <idle>-0     [001]  3469.824588: softirq_entry:   vec=9 [action=RCU]",
            "fx7:       <idle>-0     [001]  3469.824588000: softirq_entry:   vec=9 [action=RCU]",
            "          <idle>-0       [001] d.h1.  3469.824588: softirq_entry: vec=9 [action=RCU]",
            "          <idle>-0       [001] d..h.13  3469.824588: softirq_entry: vec=9 [action=RCU]",
            "          <idle>-0       (-----) [001] d.h1.  3469.824588: softirq_entry: vec=9 [action=RCU]",
        ];
        for form in forms {
            let expected = EventLine {
                comm: "<idle>",
                tid: 0,
                cpu: 1,
                at: 3_469_824_588_000,
                name: "softirq_entry",
                fields: "vec=9 [action=RCU]",
            };
            assert_eq!(event(form), expected, "{form}");
        }
    }

    #[test]
    fn names_with_spaces_and_dashes_keep_them() {
        let line = event("   opt cgu.00-x-7375  [000] d..2. 1.000002: sched_switch: a ==> b");
        assert_eq!((line.comm, line.tid), ("opt cgu.00-x", 7375));
    }

    #[test]
    fn the_latency_format_counts_from_its_beginning() {
        let line = event("cyclicte-332       0dn.h5..    1us#: sched_waking: comm=x pid=5");
        assert_eq!(
            (line.comm, line.tid, line.cpu, line.at, line.name),
            ("cyclicte", 332, 0, 1000, "sched_waking")
        );
        let line = event("  <idle>-0         1d..1. 3723us : __schedule <-schedule");
        assert_eq!((line.cpu, line.at, line.name), (1, 3_723_000, "function"));
    }

    #[test]
    fn losses_comments_and_stacks_are_told_apart() {
        assert_eq!(parse("CPU:1 [LOST 512 EVENTS]"), Some(Line::Lost { cpu: 1, count: Some(512) }));
        assert_eq!(parse("fxl: CPU:0 [145 EVENTS DROPPED]"), Some(Line::Lost { cpu: 0, count: Some(145) }));
        assert_eq!(parse("CPU:3 [EVENTS DROPPED]"), Some(Line::Lost { cpu: 3, count: None }));
        for comment in ["# tracer: nop", " => __schedule", "", "cpus=2", "##### CPU 1 buffer started ####"] {
            assert_eq!(parse(comment), Some(Line::Comment), "{comment}");
        }
        assert_eq!(parse("hello world"), None);
    }
}
