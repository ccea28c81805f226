//! The JSON of rt-tests, always valid: text is escaped, a thread without a sample has `null` instead of `-nan`, and
//! samples beyond the histogram are counted.
//!
//! Same keys, order and layout as rt-tests, including two keys that end in a colon; the correct keys and figures that
//! rt-tests omits are added.

use std::fmt::Write;

/// Contents of the file.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The command line, words joined by a space.
    pub command: &'a str,
    /// RFC 2822.
    pub start: &'a str,
    /// RFC 2822.
    pub end: &'a str,
    /// Exit code.
    pub return_code: i32,
    /// Kernel and machine, as `uname` names them.
    pub system: System<'a>,
    /// The latencies are ns.
    pub nsecs: bool,
    /// Limit of `-b` in the unit of the output, and the thread and latency that exceeded it.
    pub threshold: Option<(u64, Option<(usize, u64)>)>,
    /// In the order of their numbers.
    pub threads: &'a [Thread],
}

/// What `uname` says.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct System<'a> {
    pub sysname: &'a str,
    pub nodename: &'a str,
    pub release: &'a str,
    pub version: &'a str,
    pub machine: &'a str,
    pub realtime: bool,
}

/// One thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Occupied rows: latency and count, ascending.
    pub rows: Vec<(u64, u64)>,
    /// Samples beyond the rows; `None` without a histogram.
    pub overflows: Option<u64>,
    /// Samples.
    pub cycles: u64,
    /// Smallest and largest latency and exact average; `None` without a sample.
    pub latencies: Option<(u64, u64, f64)>,
    /// Its CPU.
    pub cpu: i64,
    /// Memory node of that CPU; -1: not used.
    pub node: i64,
    /// Activations during a stall, without a sample.
    pub missed: u64,
    /// Priority.
    pub priority: i32,
    /// Interval, µs.
    pub interval_us: u64,
}

/// A time in RFC 2822, UTC: `Sat, 21 Nov 2026 19:08:38 +0000`.
#[must_use]
pub fn rfc2822(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // H. Hinnant, "chrono-compatible low-level date algorithms": civil_from_days
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + u64::from(month < 2);
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} +0000",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text of the file.
#[must_use]
pub fn write(report: &Report<'_>) -> String {
    let version = super::RT_TESTS_VERSION;
    let mut text = String::from("{\n  \"file_version\": 1,\n");
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "  \"{key}\": {value},");
    };
    let command = quoted(report.command);
    line("cmdline:", &command);
    line("cmdline", &command);
    line("rt_test_version:", &quoted(version));
    line("rt_test_version", &quoted(version));
    line("start_time", &quoted(report.start));
    line("end_time", &quoted(report.end));
    line("return_code", &report.return_code.to_string());
    system(&mut text, &report.system);
    if let Some((limit, hit)) = report.threshold {
        let _ = writeln!(text, "  \"breaktrace\": {limit},");
        if let Some((thread, value)) = hit {
            let _ = writeln!(text, "  \"break_thread\": {thread},\n  \"break_value\": {value},");
        }
    }
    let _ = writeln!(text, "  \"num_threads\": {},", report.threads.len());
    let _ = writeln!(text, "  \"resolution_in_ns\": {},", u8::from(report.nsecs));
    text.push_str("  \"thread\": {\n");
    for (index, thread) in report.threads.iter().enumerate() {
        let _ = writeln!(text, "    \"{index}\": {{");
        self::thread(&mut text, thread);
        text.push_str(if index + 1 == report.threads.len() { "    }\n" } else { "    },\n" });
    }
    text.push_str("  }\n}\n");
    text
}

fn system(text: &mut String, system: &System<'_>) {
    text.push_str("  \"sysinfo\": {\n");
    for (key, value) in [
        ("sysname", system.sysname),
        ("nodename", system.nodename),
        ("release", system.release),
        ("version", system.version),
        ("machine", system.machine),
    ] {
        let _ = writeln!(text, "    \"{key}\": {},", quoted(value));
    }
    let _ = write!(text, "    \"realtime\": {}\n  }},\n", u8::from(system.realtime));
}

fn thread(text: &mut String, thread: &Thread) {
    text.push_str("      \"histogram\": {");
    for (at, (latency, count)) in thread.rows.iter().enumerate() {
        let separator = if at == 0 { "\n" } else { ",\n" };
        let _ = write!(text, "{separator}        \"{latency}\": {count}");
    }
    if !thread.rows.is_empty() {
        text.push('\n');
    }
    text.push_str("      },\n");
    if let Some(overflows) = thread.overflows {
        let _ = writeln!(text, "      \"histogram_overflows\": {overflows},");
    }
    let _ = writeln!(text, "      \"cycles\": {},", thread.cycles);
    let _ = match thread.latencies {
        Some((min, max, avg)) => {
            write!(text, "      \"min\": {min},\n      \"max\": {max},\n      \"avg\": {avg:.2},\n")
        }
        None => write!(text, "      \"min\": null,\n      \"max\": null,\n      \"avg\": null,\n"),
    };
    let Thread { missed, priority, interval_us, cpu, node, .. } = thread;
    let _ = writeln!(text, "      \"missed\": {missed},");
    let _ = writeln!(text, "      \"priority\": {priority},\n      \"interval\": {interval_us},");
    let _ = writeln!(text, "      \"cpu\": {cpu},\n      \"node\": {node}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: System<'static> = System {
        sysname: "Linux",
        nodename: "a\"b",
        release: "6.18",
        version: "#1",
        machine: "x86_64",
        realtime: false,
    };

    fn report<'a>(command: &'a str, threads: &'a [Thread]) -> Report<'a> {
        let time = "Sat, 21 Nov 2026 19:08:38 +0000";
        Report {
            command,
            start: time,
            end: time,
            return_code: 0,
            system: SYSTEM,
            nsecs: false,
            threshold: None,
            threads,
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(rfc2822(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc2822(951_782_400), "Tue, 29 Feb 2000 00:00:00 +0000");
        assert_eq!(rfc2822(1_795_288_118), "Sat, 21 Nov 2026 19:08:38 +0000");
        assert_eq!(rfc2822(4_102_444_799), "Thu, 31 Dec 2099 23:59:59 +0000");
    }

    #[test]
    fn hostile_words_and_empty_threads_leave_it_valid() {
        let threads = [Thread::default(), Thread { rows: vec![(3, 1)], ..Thread::default() }];
        for command in ["cyclictest --json=\"a\\b\"\n\t\u{1}x", "\u{fffd}\u{2028}"] {
            let text = write(&report(command, &threads));
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["cmdline:"], command);
            assert_eq!(value["cmdline"], command);
            assert_eq!(value["sysinfo"]["nodename"], "a\"b");
            assert!(value["thread"]["0"]["avg"].is_null());
            assert!(!text.contains("nan"));
        }
    }

    #[test]
    fn the_lines_of_rt_tests_are_there_in_their_order() {
        let recorded = include_str!("../../tests/golden/cyclictest/ct_overflow.json");
        let thread = |rows, cycles, latencies, cpu, overflows| Thread {
            rows,
            cycles,
            latencies: Some(latencies),
            cpu,
            node: -1,
            overflows: Some(overflows),
            ..Thread::default()
        };
        let threads = [
            thread(vec![(5, 64)], 500, (5, 26, 7.85), 0, 436),
            thread(vec![(5, 7)], 78, (5, 53_392, 690.78), 1, 71),
        ];
        let mut report = report("cyclictest -q -S -p90 -i 500 -l 500 -h 6 --json=ct_overflow.json", &threads);
        report.system = System { nodename: "vm", release: "6.18.44-fc-v657", ..SYSTEM };
        report.system.version = "#1 SMP PREEMPT_DYNAMIC @0";
        (report.start, report.end) = ("Sat, 21 Nov 2026 19:18:13 +0000", "Sat, 21 Nov 2026 19:18:13 +0000");
        let ours = write(&report);
        let mut lines = ours.lines();
        for line in recorded.lines() {
            assert!(lines.any(|ours| ours == line), "not there, or out of order: {line}\n{ours}");
        }
    }
}
