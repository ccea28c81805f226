//! Texts as people paste them: whatever mail programs, terminals, editors, grep and web pages did to a text, the answer is
//! that of the clean text, or a doubt, or an error. Never another figure, thread or CPU, or fewer events, without a doubt.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::path::Path;

use lathunt_core::explain::answers::{Answers, TraceFacts};
use lathunt_core::explain::intervals::{find, Question, Whose};
use lathunt_core::explain::tracers::{of_source, read, Report};
use lathunt_core::trace::ftrace_text::{tidy, FtraceText};
use lathunt_core::trace::source::Source;

/// Figures of an answer without a doubt.
type Figures = (Option<(u64, String, u32, Option<String>)>, u64, u64);

#[derive(Debug, PartialEq)]
enum Answer {
    Sure(Figures),
    Doubtful,
    Refused,
}

fn of_report(report: Report) -> Answer {
    if report.is_doubtful || report.worst.is_none() {
        return Answer::Doubtful;
    }
    let worst = report.worst.map(|worst| {
        let explanation = worst.explanation;
        (explanation.total_ns.0, worst.thread.to_string(), worst.cpu.0, Some(explanation.cause))
    });
    Answer::Sure((worst, report.lines, report.count))
}

/// As `lathunt explain TEXT` answers.
fn answer(bytes: &[u8]) -> Answer {
    if let Some(report) = read(&tidy::text(bytes)) {
        return of_report(report);
    }
    let Ok(source) = FtraceText::open(bytes) else { return Answer::Refused };
    if let Some(report) = of_source(&source) {
        return of_report(report);
    }
    let found = find(&source, &Question::Wakeups, &Whose::default());
    if found.is_damaged
        || found.may_hide_worse()
        || found.unanswerable.is_some()
        || !source.info().damage.is_empty()
    {
        return Answer::Doubtful;
    }
    let worst = found.intervals.first().map(|worst| (worst.total().0, worst.comm.clone(), worst.cpu.0, None));
    Answer::Sure((worst, found.events, found.count))
}

fn texts() -> Vec<(String, String)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<_> =
        std::fs::read_dir(data.join("tracers")).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "txt"));
    files.sort();
    files.extend(
        ["ftrace_text/tracefs.txt", "trace_dat/v7_zstd.text", "perf_data/small.script"]
            .map(|file| data.join(file)),
    );
    let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
    let mut texts: Vec<_> =
        files.iter().map(|file| (name(file), std::fs::read_to_string(file).unwrap())).collect();
    texts.push(("scheduled".to_owned(), scheduled()));
    texts
}

/// Wake-ups on two CPUs, each some µs longer than the one before.
fn scheduled() -> String {
    let mut text = "# tracer: nop\n#\n".to_owned();
    for at in 0..30u32 {
        let (cpu, tid) = (at % 2, 40 + at % 2);
        let mut line = |who: &str, after: u32, what: &str| {
            let micros = 100 * at + after;
            text.push_str(&format!(
                "{who:>16}-{:<7} [00{cpu}] d..2.  1003.{micros:06}: {what}\n",
                if who == "<idle>" { 0 } else { tid }
            ));
        };
        let waking = format!("comm=control/{cpu} pid={tid} prio=19 target_cpu=00{cpu}");
        line("<idle>", 1, &format!("sched_waking: {waking}"));
        line("<idle>", 4 + at, &format!("sched_switch: prev_comm=swapper/{cpu} prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=control/{cpu} next_pid={tid} next_prio=19"));
        line(&format!("control/{cpu}"), 50, &format!("sched_switch: prev_comm=control/{cpu} prev_pid={tid} prev_prio=19 prev_state=S ==> next_comm=swapper/{cpu} next_pid=0 next_prio=120"));
    }
    text
}

fn each(text: &str, of: impl Fn(usize, &str) -> String) -> String {
    text.lines().enumerate().map(|(at, line)| of(at, line) + "\n").collect()
}

/// At blanks, as mail programs do.
fn wrapped(text: &str, width: usize, quote: &str) -> String {
    each(text, |_, line| {
        let mut rest = line;
        let mut lines = Vec::new();
        while rest.chars().count() > width {
            let indent = rest.len() - rest.trim_start().len();
            let fit = rest.char_indices().take(width + 1).filter(|(at, c)| *c == ' ' && *at > indent).last();
            let Some((at, _)) = fit else { break };
            lines.push(format!("{quote}{}", rest[..at].trim_end()));
            rest = rest[at..].trim_start();
        }
        lines.push(format!("{quote}{rest}"));
        lines.join("\n")
    })
}

/// At the width of a terminal.
fn broken(text: &str, width: usize) -> String {
    each(text, |_, line| {
        let line: Vec<char> = line.replace('\t', "        ").chars().collect();
        let parts: Vec<String> = line.chunks(width).map(|part| part.iter().collect()).collect();
        parts.join("\n")
    })
}

fn runs(text: &str, by: &str) -> String {
    each(text, |_, line| {
        let mut out = String::new();
        let mut blanks = 0;
        for c in line.chars().chain(['\n']) {
            match c {
                ' ' => blanks += 1,
                c => {
                    out.push_str(if blanks > 1 { by } else { &" "[..blanks] });
                    blanks = 0;
                    out.push(c);
                }
            }
        }
        out.trim_end_matches('\n').to_owned()
    })
}

fn with_commas(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let comma = |(at, c)| if c == '.' && at > 0 && is_digit(at - 1) && is_digit(at + 1) { ',' } else { c };
    text.char_indices().map(comma).collect()
}

/// Each way to mangle, with a number that it may use: the name, and the bytes.
fn mangled(text: &str, number: usize) -> Vec<(&'static str, Vec<u8>)> {
    let width = 70 + number % 70;
    let half = text.lines().count() / 2;
    // In the middle of a line; the rest of a function's name in a stack is not missed.
    let place = (number % 9 + 1) * text.lines().count() / 10;
    let last =
        text.lines().skip(place).find(|line| !line.trim().starts_with("=>") && line.len() > 9).unwrap();
    let cut = last.as_ptr() as usize - text.as_ptr() as usize + last.len() / 2;
    let entities = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut sorted: Vec<&str> = text.lines().collect();
    sorted.sort_unstable();
    let texts = [
        ("quoted", each(text, |_, line| format!("> > {line}"))),
        (
            "quoted, with a question in it",
            each(
                text,
                |at, line| {
                    if at == half {
                        format!("> {line}\n\nWhat is this?\n")
                    } else {
                        format!("> {line}")
                    }
                },
            ),
        ),
        ("indented", each(text, |_, line| format!("    {line}"))),
        ("in a block", format!("Hello,\n\nI see this:\n\n```\n{text}```\n\nAny ideas?\n")),
        ("in a line of fences", format!("```{text}```")),
        ("numbered by cat", each(text, |at, line| format!("{:6}\t{line}", at + 1))),
        ("numbered by grep", each(text, |at, line| format!("{}:{line}", at + 1))),
        (
            "numbered by grep, with context",
            each(text, |at, line| format!("{}{}{line}", at + 1, if at % 3 == 0 { '-' } else { ':' })),
        ),
        ("numbered by an editor", each(text, |at, line| format!("{:4} {line}", at + number))),
        ("named by grep", each(text, |_, line| format!("trace.txt:{line}"))),
        ("named and numbered by grep", each(text, |at, line| format!("a/trace.txt:{}:{line}", at + 1))),
        ("counted by uniq", each(text, |_, line| format!("      1 {line}"))),
        (
            "of a console",
            each(text, |at, line| format!("[{:5}.{:06}] {line}", 100 + at, at * 37 % 1_000_000)),
        ),
        (
            "of a journal",
            each(text, |at, line| {
                format!("Nov 29 05:{:02}:{:02} host kernel: {line}", at / 60 % 60, at % 60)
            }),
        ),
        (
            "of a journal of a program",
            each(text, |at, line| {
                format!("Nov 29 05:{:02}:{:02} host cat[1234]: {line}", at / 60 % 60, at % 60)
            }),
        ),
        (
            "of a log",
            each(text, |at, line| format!("2026-11-29T05:{:02}:{:02}.123456 {line}", at / 60 % 60, at % 60)),
        ),
        (
            "coloured",
            each(text, |_, line| {
                format!(
                    "\u{1b}[01;31m\u{1b}[K{}\u{1b}[m\u{1b}[K{}",
                    &line[..line.len().min(5)],
                    &line[line.len().min(5)..]
                )
            }),
        ),
        (
            "coloured within",
            text.replace("sched_", "\u{1b}[1msched_\u{1b}[0m").replace(" [0", " \u{1b}[1m[0"),
        ),
        ("of Windows", text.replace('\n', "\r\n")),
        ("of an old Mac", text.replace('\n', "\r")),
        ("marked", format!("\u{feff}{text}")),
        ("of a page", entities.clone()),
        ("of a page, encoded again", entities.replace('&', "&amp;")),
        ("of a page, with its blanks", entities.replace(' ', "&nbsp;")),
        ("of a page, with its line ends", text.replace('\n', "<br>\n")),
        ("of a word processor", text.replace("==>", "⇒").replace("<...>", "<…>").replace(' ', "\u{a0}")),
        (
            "bold",
            text.chars()
                .flat_map(|c| if c.is_alphanumeric() { vec![c, '\u{8}', c] } else { vec![c] })
                .collect(),
        ),
        (
            "of more",
            each(text, |at, line| if at % 24 == 23 { format!("{line}\n--More--") } else { line.to_owned() }),
        ),
        (
            "written over by more",
            each(
                text,
                |at, line| {
                    if at % 24 == 23 {
                        format!("--More--\r        \r{line}")
                    } else {
                        line.to_owned()
                    }
                },
            ),
        ),
        ("framed", each(text, |_, line| format!("| {line} |"))),
        ("with tabs for runs of blanks", runs(text, "\t")),
        ("with tabs for blanks", runs(text, " ").replace(' ', "\t")),
        ("with single blanks", each(&runs(text, " "), |_, line| line.trim().to_owned())),
        ("with double blanks", text.replace(' ', "  ")),
        ("with empty lines", text.replace('\n', "\n\n")),
        ("with blanks at the ends", each(text, |_, line| format!("{line}   "))),
        ("wrapped by mail", wrapped(text, width, "")),
        ("wrapped by mail and quoted", wrapped(text, width, "> ")),
        ("wrapped by a terminal", broken(text, width)),
        ("with decimal commas", with_commas(text)),
        ("sorted", sorted.join("\n") + "\n"),
        ("without its end", text[..cut].to_owned()),
    ];
    let mut all: Vec<_> = texts.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    let wide =
        |of: fn(u16) -> [u8; 2]| format!("\u{feff}{text}").encode_utf16().flat_map(of).collect::<Vec<u8>>();
    all.push(("UTF-16", wide(u16::to_le_bytes)));
    all.push(("UTF-16, big endian", wide(u16::to_be_bytes)));
    all.push((
        "UTF-32",
        format!("\u{feff}{text}").chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
    ));
    all
}

/// Ways that need no doubt: nothing is missing.
const WHOLE: [&str; 20] = [
    "quoted",
    "indented",
    "in a block",
    "numbered by cat",
    "numbered by grep",
    "numbered by grep, with context",
    "named by grep",
    "named and numbered by grep",
    "counted by uniq",
    "of a console",
    "of a journal",
    "of a journal of a program",
    "of Windows",
    "marked",
    "bold",
    "of more",
    "with tabs for runs of blanks",
    "with blanks at the ends",
    "UTF-16",
    "UTF-32",
];

#[test]
fn a_mangled_text_gives_the_same_answer_or_a_doubt() {
    let mut wrong = Vec::new();
    for (file, text) in texts() {
        let clean = answer(text.as_bytes());
        assert_ne!(clean, Answer::Refused, "{file}");
        for number in [2, 58] {
            for (way, bytes) in mangled(&text, number) {
                let got = answer(&bytes);
                let is_right = got == clean
                    || got == Answer::Doubtful && !WHOLE.contains(&way)
                    || got == Answer::Refused && !WHOLE.contains(&way);
                if !is_right {
                    wrong.push(format!("{file}, {way} ({number}): {got:?}, not {clean:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Most wrapped texts are read, not only doubted.
#[test]
fn wrapped_texts_are_joined() {
    let (mut all, mut same) = (0, 0);
    for (_, text) in texts() {
        let clean = answer(text.as_bytes());
        for width in [72, 80, 100] {
            for bytes in [wrapped(&text, width, ""), wrapped(&text, width, "> "), broken(&text, width)] {
                all += 1;
                same += u32::from(answer(bytes.as_bytes()) == clean);
            }
        }
    }
    assert!(same * 10 >= all * 8, "{same} of {all}");
}

/// The buffers of a recorder cannot keep the time between two recordings.
#[test]
fn a_gap_between_two_recordings_in_a_text_is_not_a_loss_of_the_recorder() {
    let limits = |text: &str| {
        let source = FtraceText::open(text.as_bytes()).unwrap();
        let found = find(&source, &Question::Wakeups, &Whose::default());
        assert!(found.lost_uncounted + found.lost > 0);
        let answers = Answers::new(TraceFacts::default(), String::new(), &found);
        [answers.limits, source.info().limits.clone()].concat().join("; ")
    };
    let second = scheduled().replace(" 1003.", " 1004.");
    let two = limits(&(scheduled() + &second));
    assert!(two.contains("another recording follows") && !two.contains("enlarge"), "{two}");
    let lost =
        limits(&(scheduled() + "CPU:0 [LOST 5 EVENTS]\n" + second.trim_start_matches("# tracer: nop\n")));
    assert!(lost.contains("the recorder lost 5 events: enlarge its buffers"), "{lost}");
}
