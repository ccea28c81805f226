//! The intervals that a query asks for, and the explanation of the worst.

use std::process::ExitCode;

use anyhow::{anyhow, bail, Result};
use lathunt_core::explain::answers::{Answer, Answers, TraceFacts};
use lathunt_core::explain::explain_interval;
use lathunt_core::explain::intervals::{find, find_realtime_wakeups, Found, FoundInterval, Question, Whose};
use lathunt_core::explain::load::window;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::text::Options;
use lathunt_core::explain::Interval;
use lathunt_core::time::{Mono, Tid};
use lathunt_core::trace::normalize::is_text;
use lathunt_core::trace::source::Source;
use lathunt_core::trace::syscall_names::SyscallTable;

use super::exports::Drawing;
use super::nothing::{damage, leave_out_below, nothing};
use super::{answered, cores, files, names, ExplainArgs};
use crate::out;

/// What was asked for, and found.
struct Asked {
    question: Question,
    /// The question, in words.
    name: String,
    found: Found,
    /// Wake-ups of real-time threads are recorded in part, and these are not those.
    lacks_realtime: bool,
}

/// Finds, explains, draws and prints.
pub(super) fn explain(args: &ExplainArgs, source: &dyn Source) -> Result<ExitCode> {
    let mut asked = match args.asks_nothing() {
        true => obvious(source, &args.whose()),
        false => asked(args, source)?,
    };
    if asked.found.events == 0 {
        let damage = damage(source, &asked.found);
        bail!("cannot read {}: it contains no events{damage}", args.trace.display());
    }
    let has_only_halves = asked.found.has_only_halves() || asked.lacks_realtime;
    let mut answers = without_short(args, source, &mut asked);
    let found = &asked.found;
    let lacks = found.unanswerable.is_some() || !found.impossible.is_empty();
    let is_doubtful = has_only_halves || found.may_hide_worse() || found.is_damaged || lacks;
    let mut names = files::Names::new(args.maps.as_deref(), args.root.clone(), source.info())?;
    names.read_saved(&args.trace);
    let noted = files::SavedFacts::read(&args.trace);
    let mut drawing = Drawing::new(&args.exports);
    // Taken out of `found`, so that each is freed when it is answered: there may be 100,000.
    for (place, interval) in std::mem::take(&mut asked.found.intervals).into_iter().enumerate() {
        if place >= args.worst.unwrap_or(1) {
            answers.intervals.push(Answer::listed(&interval));
            continue;
        }
        let mut window = window(source, &asked.found, interval.begin, interval.end);
        noted.fill(&mut window);
        names.fill(&mut window);
        let record = Record::new(&window);
        let answer = explained(&record, &interval);
        drawing.add(&window, &record, &answer);
        answers.intervals.push(answer);
    }
    drawing.write(&args.exports, &answers)?;
    out::print(&text(args, source, &answers)?)?;
    Ok(answered(is_doubtful))
}

/// The answer before its intervals are explained; those shorter than the threshold are left out.
fn without_short(args: &ExplainArgs, source: &dyn Source, asked: &mut Asked) -> Answers {
    let below = args.threshold.and_then(|threshold| leave_out_below(&mut asked.found, threshold));
    let (info, found) = (source.info(), &asked.found);
    let facts = TraceFacts {
        path: args.trace.display().to_string(),
        format: info.format.clone(),
        clock: info.clock.name.clone(),
        events: found.events,
        lost: found.lost,
    };
    let mut answers = Answers::new(facts, asked.name.clone(), found);
    let damages = info.damage.iter().take(5).map(|damage| format!("the file is damaged at {damage}"));
    answers.limits.extend(damages);
    answers.limits.extend(info.limits.iter().cloned());
    if let Some(below) = below {
        answers.limits.push(below);
    } else if found.intervals.is_empty() {
        answers.limits.extend(names::absent(source, &args.whose()));
        answers.limits.push(nothing(found, &asked.question));
    }
    answers
}

fn text(args: &ExplainArgs, source: &dyn Source, answers: &Answers) -> Result<String> {
    if args.json {
        return Ok(serde_json::to_string_pretty(answers)? + "\n");
    }
    let answer = answers.to_text(Options { evidence: args.evidence, stacks: true });
    // Without a query on a whole recording, show its summary first.
    Ok(match args.asks_nothing() && args.trace.is_dir() {
        true => format!("{}\n{answer}", cores::by_all(source).to_text()),
        false => answer,
    })
}

/// The answer to the query.
fn asked(args: &ExplainArgs, source: &dyn Source) -> Result<Asked> {
    let (question, name) = question(args, source)?;
    let found = find(source, &question, &args.whose());
    Ok(Asked { question, name, found, lacks_realtime: false })
}

/// Default answer: the sample that hit cyclictest's threshold, else the worst wake-up of a real-time thread, else of any
/// thread.
fn obvious(source: &dyn Source, whose: &Whose) -> Asked {
    let asked = |question, name: &str, found, lacks_realtime| Asked {
        question,
        name: name.to_owned(),
        found,
        lacks_realtime,
    };
    let has_texts = source.catalogue().classes().iter().any(is_text);
    let found = has_texts.then(|| find(source, &Question::Threshold, whose));
    if let Some(found) = found.filter(|found| !found.intervals.is_empty()) {
        let name = "over cyclictest's threshold, from expiry to report";
        return asked(Question::Threshold, name, found, false);
    }
    let found = find_realtime_wakeups(source, whose);
    if !found.intervals.is_empty() {
        let name = "of real-time threads from waking to switched in (no query given: --help lists them)";
        return asked(Question::Wakeups, name, found, false);
    }
    let lacks_realtime = found.has_only_halves();
    let name = match lacks_realtime {
        true => "from waking to switched in (no query given, and no complete wake-up of a real-time thread is recorded)",
        false => "from waking to switched in (no query given, and no real-time thread was woken)",
    };
    asked(Question::Wakeups, name, find(source, &Question::Wakeups, whose), lacks_realtime)
}

/// The query and its name.
fn question(args: &ExplainArgs, source: &dyn Source) -> Result<(Question, String)> {
    if let Some([from, to]) = args.between.as_deref() {
        let by = args.pair.as_ref().map_or("by thread".to_owned(), |field| format!("by {field}"));
        let question = Question::Between { from: from.clone(), to: to.clone(), pair: args.pair.clone() };
        return Ok((question, format!("from {from} to {to}, paired {by}")));
    }
    if let Some(name) = &args.syscall {
        let table = SyscallTable::of_machine(&source.info().machine);
        let number = name.parse().ok().or_else(|| table.number(name));
        let number =
            number.ok_or_else(|| anyhow!("'{name}' is not a system call; give its name or number"))?;
        let called = table.name(number).map_or_else(|| format!("sys {number}"), str::to_owned);
        return Ok((Question::Syscall(number), format!("in {called}")));
    }
    if let Some([irq, tid]) = args.irq_to_thread.as_deref() {
        let line = u32::try_from(*irq).map_err(|_| anyhow!("{irq} is not an interrupt line"))?;
        return Ok((Question::IrqToThread(line, Tid(*tid)), format!("from IRQ {irq} to thread {tid}")));
    }
    if let Some(time) = &args.at {
        return Ok((Question::At(moment(time)?), format!("at {time}")));
    }
    Ok((Question::Wakeups, "from waking to switched in".to_owned()))
}

/// A time as printed in traces: seconds with up to nine decimals, exactly.
fn moment(text: &str) -> Result<Mono> {
    let wrong = || anyhow!("'{text}' is not a time: write seconds as the trace does, such as 5402.670061712");
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 9 || !decimals.chars().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let nanos: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
    seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nanos)).map(Mono).ok_or_else(wrong)
}

fn explained(record: &Record, interval: &FoundInterval) -> Answer {
    let FoundInterval { tid, cpu, begin, end, .. } = *interval;
    Answer::explained(interval, explain_interval(record, &Interval { tid, cpu, begin, end }))
}
