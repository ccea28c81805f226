//! One line: thread, CPU, time, event.

use super::missing::{is_omission, lost, perf_record};

/// Contents of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Event(EventLine<'a>),
    Lost {
        cpu: u32,
        count: Option<u64>,
    },
    /// The heading of the kernel: number of events printed, and of those overwritten.
    Heading {
        printed: u64,
        overwritten: u64,
    },
    /// The buffer of this CPU starts here, later than others.
    Started(u32),
    /// An event whose time has no decimal point: its clock does not count nanoseconds.
    Timeless,
    /// The heading of another text.
    Restart,
    /// Lines were left out here.
    Omission,
    /// Comments, headings, stacks, empty lines.
    Comment,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventLine<'a> {
    pub comm: &'a str,
    pub tid: i32,
    pub cpu: u32,
    pub at: u64,
    /// As in `common_flags`, if the line has the column: only hard interrupt and softirq.
    pub flags: Option<u8>,
    /// The columns themselves: `d.h1.`; empty without them.
    pub columns: &'a str,
    pub name: &'a str,
    pub fields: &'a str,
}

/// Parses a line; `None` if the form is unknown.
pub(crate) fn parse(line: &str) -> Option<Line<'_>> {
    let trimmed = without_place(line.trim());
    if trimmed.is_empty() || trimmed.starts_with('#') {
        let is_first = trimmed.starts_with("# tracer:");
        let said = entries(trimmed).or_else(|| started(trimmed).map(Line::Started));
        return Some(said.unwrap_or(if is_first { Line::Restart } else { Line::Comment }));
    }
    // Events first, because a thread may have the name of a heading.
    let event = usual(trimmed).or_else(|| latency(trimmed)).or_else(|| short(trimmed));
    if let Some(event) = event.or_else(|| perf_script(trimmed)).or_else(|| verbose(trimmed)) {
        return Some(Line::Event(event));
    }
    if let Some(loss) = lost(trimmed).or_else(|| perf_record(trimmed)) {
        return Some(loss);
    }
    if is_omission(trimmed) {
        return Some(Line::Omission);
    }
    if is_frame(trimmed) || trimmed.ends_with(" [SUBBUFFER START]") {
        return Some(Line::Comment);
    }
    let heading = [
        "=>",
        "cpus=",
        "CPU ",
        "version =",
        "trace-cmd",
        "Average wakeup latency:",
        "Maximum Latency:",
        "Minimum Latency:",
    ];
    if heading.iter().any(|start| trimmed.starts_with(start)) || is_of_dump(trimmed) {
        return Some(Line::Comment);
    }
    is_timeless(trimmed).then_some(Line::Timeless)
}

/// Whether an event starts here, even if its time is not in the line.
pub(crate) fn begins(line: &str) -> bool {
    let is_hex = |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = || line.split_whitespace();
    let is_verbose = || words().zip(words().skip(1)).skip(2).take(4).any(|(a, b)| is_hex(a) && is_hex(b));
    cpus_in_brackets(line).any(|(who, ..)| thread(who).is_some()) || is_verbose()
}

/// Without the place in the file that `trace-cmd report --debug` adds: ` [36598:0x20c:36]`.
fn without_place(line: &str) -> &str {
    let Some((before, place)) = line.strip_suffix(']').and_then(|line| line.rsplit_once(" [")) else {
        return line;
    };
    let mut parts = place.split(':');
    let delta = parts.next().unwrap_or_default();
    let offset = parts.next().and_then(|offset| offset.strip_prefix("0x")).unwrap_or_default();
    let is_of = |part: &str, radix| u64::from_str_radix(part, radix).is_ok();
    let is_length = parts.next().is_none_or(|length| is_of(length, 10)) && parts.next().is_none();
    if is_of(delta, 10) && is_of(offset, 16) && is_length {
        before.trim_end()
    } else {
        line
    }
}

/// The frame of a buffer printed at an oops (kernel/trace/trace.c, ftrace_dump).
fn is_of_dump(line: &str) -> bool {
    let dashes = line.len() >= 20 && line.bytes().all(|byte| byte == b'-');
    dashes || matches!(line, "Dumping ftrace buffer:" | "(ftrace buffer empty)")
}

/// `ffffffff810c2b5e try_to_wake_up ([kernel.kallsyms])` of perf's call chains.
fn is_frame(line: &str) -> bool {
    let Some((address, rest)) = line.split_once(' ') else { return false };
    address.len() >= 4
        && address.bytes().all(|byte| byte.is_ascii_hexdigit())
        && rest.contains(" (")
        && rest.ends_with(')')
}

/// The form of `perf script` without CPUs: `COMM TID TIME: [PERIOD] SYSTEM:NAME: FIELDS`.
pub(crate) fn is_without_cpu(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(6).collect();
    let at = words.iter().position(|word| word.strip_suffix(':').is_some_and(|word| time(word).is_some()));
    let is_event = |at: usize| {
        words[at + 1..].iter().take(2).any(|word| word.ends_with(':') && word.matches(':').count() == 2)
    };
    at.is_some_and(|at| at >= 2 && words[at - 1].parse::<i32>().is_ok() && is_event(at))
}

/// `# entries-in-buffer/entries-written: 2953/417539   #P:2`
fn entries(line: &str) -> Option<Line<'_>> {
    let numbers = line.split_once("entries-in-buffer/entries-written:")?.1.trim_start();
    let (there, written) = numbers.split(char::is_whitespace).next()?.split_once('/')?;
    let printed = there.parse().ok()?;
    let overwritten = written.parse::<u64>().ok()?.checked_sub(printed)?;
    Some(Line::Heading { printed, overwritten })
}

/// `##### CPU 1 buffer started ####`
fn started(line: &str) -> Option<u32> {
    let (cpu, rest) = line.strip_prefix("##### CPU ")?.split_once(' ')?;
    rest.starts_with("buffer started").then(|| cpu.parse().ok())?
}

/// `[BUFFER:] COMM-TID [(TGID)] [CPU] [FLAGS] TIME: [(+N)] NAME: FIELDS`
fn usual(line: &str) -> Option<EventLine<'_>> {
    // The name of a thread may contain what looks like a CPU.
    cpus_in_brackets(line).find_map(|(who, cpu, rest)| {
        let (comm, tid) = thread(who)?;
        let (at, behind) = timed(rest, time)?;
        let before = &rest[..rest.len() - behind.len()];
        if before.as_bytes().windows(2).any(|pair| pair == b" [") {
            return None;
        }
        let columns = before.split_ascii_whitespace().rev().skip(1).find(|word| level(word).is_some());
        let (name, fields) = name_and_fields(behind_difference(behind));
        let (flags, columns) = (columns.and_then(level), columns.unwrap_or(""));
        Some(EventLine { comm, tid, cpu, at, flags, columns, name, fields })
    })
}

/// `COMM-TID [(TGID)]`, as printed before the CPU.
fn thread(who: &str) -> Option<(&str, i32)> {
    let mut who = who.trim_end();
    if who.ends_with(')') {
        who = who[..who.rfind('(')?].trim_end();
    }
    let (comm, tid) = who.rsplit_once('-')?;
    Some((comm_of(comm), tid.parse().ok()?))
}

/// The time, after up to two words of flags, and the rest.
fn timed<T>(text: &str, time: impl Fn(&str) -> Option<T>) -> Option<(T, &str)> {
    let mut rest = text.trim_ascii_start();
    for _ in 0..3 {
        let end = rest.bytes().position(|byte| byte.is_ascii_whitespace()).unwrap_or(rest.len());
        let (word, behind) = (&rest[..end], rest[end..].trim_ascii_start());
        if let Some(at) = word.strip_suffix(':').and_then(&time) {
            return Some((at, behind));
        }
        rest = behind;
    }
    None
}

/// The interrupt level from the columns of flags (`d.h1.`, `bBh1.13`): no other column has these letters
/// (trace_print_lat_fmt).
fn level(flags: &str) -> Option<u8> {
    let is_one = flags.len() >= 4 && flags.bytes().all(|byte| byte == b'.' || byte.is_ascii_alphanumeric());
    let is_hard = || flags.bytes().any(|letter| matches!(letter, b'h' | b'H' | b'z' | b'Z'));
    is_one.then(|| if is_hard() { 0x08 } else { u8::from(flags.contains('s')) << 4 })
}

/// Without the `(+17)` of `trace-cmd report --ts-diff`.
fn behind_difference(text: &str) -> &str {
    let behind = text.strip_prefix("(+").and_then(|inside| inside.split_once(')'));
    behind.map_or(text, |(_, behind)| behind.trim_start())
}

/// The form of an event whose time is `121022741547397:`.
fn is_timeless(line: &str) -> bool {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then_some(());
    cpus_in_brackets(line).any(|(who, _, rest)| thread(who).is_some() && timed(rest, number).is_some())
}

/// The name after `BUFFER: `, which trace-cmd prints for named buffers.
fn comm_of(text: &str) -> &str {
    let end = text.as_bytes().windows(2).rposition(|pair| pair == b": ");
    end.map_or(text, |at| &text[at + 2..]).trim_ascii()
}

/// Each ` [012]`: the text before it, the CPU, and the text after.
pub(super) fn cpus_in_brackets(line: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    let brackets = line.bytes().enumerate().filter(|(_, byte)| *byte == b'[').map(|(at, _)| at);
    let apart = brackets.filter_map(|at| at.checked_sub(1)).filter(|at| line.as_bytes()[*at] == b' ');
    apart.filter_map(|at| {
        let (inside, behind) = line[at + 2..].split_once(']')?;
        let is_cpu = inside.len() >= 3 && inside.bytes().all(|byte| byte.is_ascii_digit());
        is_cpu.then_some((&line[..at], inside.parse().ok()?, behind))
    })
}

/// Seconds with six or nine digits after the point.
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
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let word_end = text.bytes().position(|byte| !is_of_word(byte)).unwrap_or(text.len());
    match text[word_end..].strip_prefix(':') {
        // `sched:sched_switch: …` of perf script.
        Some(rest) if text.starts_with(|c: char| c.is_ascii_alphabetic()) && is_name_with_colon(rest) => {
            name_and_fields(rest)
        }
        Some(fields) if word_end > 0 => (&text[..word_end], fields.trim()),
        // `sys_write(fd: 4, …)`, `sys_write -> 0x1f`: events of single system calls.
        _ if text.starts_with("sys_")
            && text[word_end..].starts_with(['(', ' '])
            && is_call(&text[word_end..]) =>
        {
            (&text[..word_end], text[word_end..].trim())
        }
        _ if text.contains(" <-") => ("function", text),
        // `sched_wakeup comm=a  pid=7`, as the tools of some vendors print it.
        _ if is_without_colon(text, word_end) => (&text[..word_end], text[word_end..].trim()),
        _ => ("text", text),
    }
}

/// Whether it starts with an event of the scheduler or of interrupts, and a field.
fn is_without_colon(text: &str, word_end: usize) -> bool {
    let is_event = ["sched_", "irq_handler_", "softirq_"].iter().any(|start| text.starts_with(start));
    is_event && text[word_end..].trim_start().split(' ').next().is_some_and(|word| word.contains('='))
}

/// Whether it is the text after the name of a system call.
fn is_call(text: &str) -> bool {
    text.starts_with('(') && text.trim_end().ends_with(')') || text.trim_start().starts_with("-> ")
}

/// `sched_switch: prev_comm=…`, directly after the colon.
fn is_name_with_colon(text: &str) -> bool {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !is_word {
        return false;
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    text[end..].starts_with(':')
}

/// `COMM-TID 0dn.h5.. 12us+: NAME: FIELDS`: CPU and flags are one word, time counts from the start of the trace.
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
    let tid = tid.trim().parse().ok()?;
    let columns = &flags[digits..];
    Some(EventLine { comm: comm.trim(), tid, cpu, at, flags: level(columns), columns, name, fields })
}

/// `COMM-TID  0d..2. TIME: NAME: FIELDS` of `trace-cmd report -l`: CPU and flags are one word.
fn short(line: &str) -> Option<EventLine<'_>> {
    // The name of a thread may contain a colon.
    line.match_indices(": ").find_map(|(colon, _)| {
        let (head, stamp) = line[..colon].rsplit_once(char::is_whitespace)?;
        let at = time(stamp)?;
        let (who, flags) = head.trim_end().rsplit_once(char::is_whitespace)?;
        let digits = flags.find(|c: char| !c.is_ascii_digit())?;
        let cpu = flags[..digits].parse().ok()?;
        let (comm, tid) = thread(who)?;
        let (name, fields) = name_and_fields(behind_difference(line[colon + 2..].trim_start()));
        let columns = &flags[digits..];
        Some(EventLine { comm, tid, cpu, at, flags: level(columns), columns, name, fields })
    })
}

/// `COMM TID[/TID] [CPU] TIME: [PERIOD] [SYSTEM:]NAME: FIELDS` of `perf script`; `-F` may leave out the name.
fn perf_script(line: &str) -> Option<EventLine<'_>> {
    cpus_in_brackets(line).find_map(|(who, cpu, rest)| {
        let (comm, tid) = who.trim().rsplit_once(char::is_whitespace).unwrap_or(("", who.trim()));
        let tid = tid.rsplit_once('/').map_or(tid, |(_, tid)| tid).parse().ok()?;
        let (at, behind) = timed(rest, time).filter(|(_, behind)| !behind.starts_with("PERF_RECORD_"))?;
        let without_period = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        let behind = if without_period.starts_with(' ') { without_period.trim_start() } else { behind };
        let (name, fields) = name_and_fields(behind);
        let comm = comm.trim();
        Some(EventLine { comm, tid, cpu, at, flags: None, columns: "", name, fields })
    })
}

/// `COMM TID CPU FLAGS DEPTH [INDEX] [TIME] MS (+MS): WHAT` of the option `verbose`: flags are a number there.
fn verbose(line: &str) -> Option<EventLine<'_>> {
    let (head, behind) = line.split_once("ms): ")?;
    let (head, _) = head.rsplit_once("(+")?;
    let (head, millis) = head.trim_end().strip_suffix("ms")?.rsplit_once(' ')?;
    let (head, stamp) = head.trim_end().strip_suffix(']')?.rsplit_once('[')?;
    stamp.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    let mut words: Vec<&str> = head.split_whitespace().collect();
    // Older kernels print the number of the entry as well.
    if words.len() >= 6 && words[words.len() - 1].len() == 8 && words[words.len() - 2].len() == 8 {
        words.pop();
    }
    let [.., tid, cpu, flags, depth] = words[..] else { return None };
    let comm = head[..head.find(&format!(" {tid} "))?].trim();
    // `(T1/#32) dmesg` of the oldest kernels: kind and number of the entry.
    let comm =
        comm.strip_prefix("(T").and_then(|rest| rest.split_once(") ")).map_or(comm, |(_, comm)| comm.trim());
    let (whole, part) = millis.split_once('.')?;
    let at = whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(part.parse::<u64>().ok()?.checked_mul(1000)?)?;
    let flags = flags.parse::<u64>().ok();
    let level = flags.map(|flags| (flags & 0x58) as u8);
    let is_preemptible = depth.bytes().all(|byte| byte == b'0');
    let columns = flags.map_or("", |flags| columns_of(flags, is_preemptible));
    let (name, fields) = name_and_fields(behind.trim_start());
    Some(EventLine {
        comm,
        tid: tid.parse().ok()?,
        cpu: cpu.parse().ok()?,
        at,
        flags: level,
        columns,
        name,
        fields,
    })
}

/// The columns of the flags of `verbose`, as they would be printed without that option, as far as known (TRACE_FLAG_*,
/// include/linux/trace_events.h).
pub(crate) fn columns_of(flags: u64, is_preemptible: bool) -> &'static str {
    let is_off = flags & 0x01 != 0;
    match (is_off, flags & 0x58, is_preemptible) {
        (false, 0, true) => "....",
        (false, 0, false) => "...1",
        (true, 0, true) => "d...",
        (true, 0, false) => "d..1",
        (false, 0x10, true) => "..s.",
        (false, 0x10, false) => "..s1",
        (true, 0x10, true) => "d.s.",
        (true, 0x10, false) => "d.s1",
        (_, level, true) if level & 0x40 == 0 => "d.h.",
        (_, level, false) if level & 0x40 == 0 => "d.h1",
        (.., true) => "d.Z.",
        (.., false) => "d.Z1",
    }
}

#[cfg(test)]
mod tests;
