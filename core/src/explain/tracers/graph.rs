//! `function_graph`: the longest call, and its callees. From text, and from events of a recording (`funcgraph_*`).

use std::collections::{HashMap, HashSet};

use super::critical::percent;
use super::{explanation, stack, Finding, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::printable;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::catalogue::FieldRef;
use crate::trace::item::{Item, Span};
use crate::trace::source::Source;

/// Maximum number of callees kept per call.
const MOST_INSIDE: usize = 200;
/// Maximum nesting; beyond it, only the time is kept.
const DEEPEST: usize = 64;
/// Number of levels shown.
const SHOWN: usize = 8;

/// A call that returned.
#[derive(Clone, Debug, Default)]
struct Call {
    /// Empty if it was entered before the trace, and the text does not name it.
    name: String,
    length: Ns,
    inside: Vec<Call>,
    /// Its return, if the text has it.
    end: Option<Mono>,
    who: Option<Thread>,
    cpu: Cpu,
    /// Its task was not always on the CPU: it slept, or other tasks ran.
    away: bool,
    /// Blanks before it in the text: those of its closing brace.
    indent: Option<usize>,
}

/// Open calls by task, and the longest that returned.
#[derive(Default)]
struct Calls {
    open: HashMap<(u32, i32), Vec<Call>>,
    /// The longest during which the task always had the CPU, and the longest of the others.
    longest: Option<Call>,
    longest_away: Option<Call>,
    /// The task of each CPU.
    current: HashMap<u32, Thread>,
    /// Tasks that were switched in: the calls they return from may have started before.
    arrived: HashSet<i32>,
    count: u64,
    lines: u64,
    unmatched: u64,
    /// Calls without a time.
    unmeasured: u64,
}

impl Calls {
    /// `who` runs on `cpu` from here.
    fn switch(&mut self, cpu: u32, who: &Thread) {
        let tid = who.tid.0;
        let before = self.current.get(&cpu).map(|before| before.tid.0);
        if before == Some(tid) {
            return;
        }
        if let Some(before) = before {
            self.open.entry(key(cpu, before)).or_default().iter_mut().for_each(|call| call.away = true);
            self.arrived.insert(tid);
        }
        self.current.insert(cpu, who.clone());
    }

    fn key(&self, cpu: u32) -> (u32, i32) {
        key(cpu, self.current.get(&cpu).map_or(0, |who| who.tid.0))
    }

    fn enter(&mut self, cpu: u32, name: &str, indent: Option<usize>) {
        let open = self.open.entry(self.key(cpu)).or_default();
        if open.len() < DEEPEST {
            open.push(Call { name: name.to_owned(), indent, ..Call::default() });
        }
    }

    /// Whether the call on top is the one whose brace closes at `indent`: lines may be left out of the text. Calls that
    /// are deeper have no end in it.
    fn closes(&mut self, key: (u32, i32), indent: usize) -> bool {
        let open = self.open.entry(key).or_default();
        while open.last().is_some_and(|call| call.indent.is_some_and(|depth| depth > indent)) {
            let inside = open.pop().map_or(Vec::new(), |call| call.inside);
            match open.last_mut() {
                Some(outer) => outer.inside.extend(inside.into_iter().take(MOST_INSIDE)),
                None => return false,
            }
        }
        open.last().is_some_and(|call| call.indent.is_none_or(|depth| depth == indent))
    }

    /// The call on top returned, or a leaf call with this name.
    fn leave(&mut self, cpu: u32, leaf: Option<&str>, closed: Option<&str>, length: Ns, end: Option<Mono>) {
        self.leave_at(cpu, leaf, (closed, None), length, end);
    }

    fn leave_at(
        &mut self,
        cpu: u32,
        leaf: Option<&str>,
        (closed, indent): (Option<&str>, Option<usize>),
        length: Ns,
        end: Option<Mono>,
    ) {
        self.count += 1;
        let key = self.key(cpu);
        let is_closed = indent.is_none_or(|indent| self.closes(key, indent));
        let who = self.current.get(&cpu).cloned();
        let has_arrived = who.as_ref().is_some_and(|who| self.arrived.contains(&who.tid.0));
        let open = self.open.entry(key).or_default();
        let mut call = match leaf {
            Some(name) => Call { name: name.to_owned(), ..Call::default() },
            None => open.pop_if(|_| is_closed).unwrap_or_else(|| {
                self.unmatched += 1;
                Call { name: closed.unwrap_or("").to_owned(), away: has_arrived, ..Call::default() }
            }),
        };
        call.away |= ["schedule", "__schedule"].iter().any(|name| call.name.starts_with(name));
        (call.length, call.end, call.who, call.cpu) = (length, end, who, Cpu(cpu));
        match open.last_mut() {
            Some(outer) => {
                outer.away |= call.away;
                if outer.inside.len() < MOST_INSIDE {
                    outer.inside.push(call);
                }
            }
            None => self.keep(call),
        }
    }

    fn keep(&mut self, call: Call) {
        let longest = if call.away { &mut self.longest_away } else { &mut self.longest };
        if longest.as_ref().is_none_or(|longest| longest.length < call.length) {
            *longest = Some(call);
        }
    }

    fn report(mut self, format: String, mut limits: Vec<String>) -> Report {
        // Calls inside one that never returned in the trace, or slept, count by themselves.
        let open: Vec<Call> =
            self.open.drain().flat_map(|(_, open)| open).flat_map(|call| call.inside).collect();
        open.into_iter().for_each(|call| self.keep(call));
        let mut inside = self.longest_away.clone().map_or(Vec::new(), |call| call.inside);
        while let Some(call) = inside.pop() {
            if call.away {
                inside.extend(call.inside);
            } else {
                self.keep(call);
            }
        }
        if let Some(away) = self.longest_away.as_ref().filter(|_| self.longest.is_some()) {
            let (name, length) = (shown(&away.name), away.length);
            limits.push(format!("calls in which the task slept or lost the CPU are not counted: the longest of them is {name}, {length}"));
        }
        let worst = self.longest.or(self.longest_away);
        if worst.is_none() && self.unmeasured > 0 {
            limits.push(
                "the durations of the calls are not in the text: echo 1 > options/funcgraph-duration"
                    .to_owned(),
            );
        } else if worst.is_none() {
            limits.push("no function returned in the trace: no duration is recorded".to_owned());
        }
        let worst = worst.map(|call| finding(&call));
        let question = "longest call in the function graph".to_owned();
        Report { format, question, lines: self.lines, count: self.count, worst, limits, is_doubtful: false }
    }
}

/// Calls belong to a task on any CPU; to a CPU if the text does not name the task.
fn key(cpu: u32, tid: i32) -> (u32, i32) {
    if tid > 0 {
        (u32::MAX, tid)
    } else {
        (cpu, 0)
    }
}

fn shown(name: &str) -> String {
    match name {
        "" => "a function entered before the trace".to_owned(),
        name => format!("{name}()"),
    }
}

fn finding(call: &Call) -> Finding {
    let begin = Mono(call.end.map_or(0, |end| end.0.saturating_sub(call.length.0)));
    let total = call.length;
    let tree = node(call, begin, 0);
    let named = call.who.as_ref().filter(|who| !matches!(who.comm.as_str(), "" | "<unknown>"));
    let who =
        named.cloned().unwrap_or_else(|| Thread { comm: format!("CPU {}", call.cpu), ..Thread::default() });
    let by = named.map_or(String::new(), |who| format!(" in {who}"));
    let mut sentence =
        format!("the longest call: {} took {total} on CPU {}{by}", shown(&call.name), call.cpu);
    if call.away {
        sentence.push_str(", in which its task slept or lost the CPU");
    }
    let mut inside: Vec<&Call> = call.inside.iter().collect();
    inside.sort_by_key(|call| std::cmp::Reverse(call.length));
    for call in inside.iter().take(3).filter(|call| call.length.0 * 20 >= total.0) {
        sentence.push_str(&format!(
            "; within it {}() {} ({})",
            call.name,
            call.length,
            percent(call.length, total)
        ));
    }
    let advice = "function tracing itself adds to every call; a wakeup tracer or scheduler events would show whether a thread waited for this one".to_owned();
    let told = (sentence, format!("function: {}", shown(&call.name)), advice);
    Finding { thread: who, cpu: call.cpu, begin, explanation: explanation(tree, told, Vec::new()) }
}

/// The call with its callees; without them if they took longer than the call.
fn node(call: &Call, begin: Mono, depth: usize) -> Segment {
    let inside: Ns = call.inside.iter().map(|call| call.length).sum();
    let name = shown(&call.name);
    if call.inside.is_empty() || inside > call.length || depth >= SHOWN {
        return Segment::leaf(Kind::Running, name, begin, call.length);
    }
    let mut at = begin;
    let mut parts = Vec::new();
    for call in &call.inside {
        parts.push(node(call, at, depth + 1));
        at = at + call.length;
    }
    let own = call.length.saturating_sub(inside);
    if own > Ns::ZERO {
        parts.push(Segment::leaf(Kind::Running, format!("{} itself", call.name), begin, own));
    }
    Segment::group(Kind::Running, name, begin, call.length, parts)
}

/// Whether it is a text of the tracer without a heading: several lines such as ` 1)   8.986 us    |    }`.
pub(super) fn is_bare(text: &str) -> bool {
    let is_line = |line: &&str| {
        let Some((head, code)) = line.rsplit_once('|') else { return false };
        let (code, head) = (code.trim(), head.trim_start_matches(['>', ' ']));
        let is_call = code.ends_with([';', '{']) || code.starts_with('}');
        let number = head.split_once(')').map_or("", |(number, _)| number);
        is_call && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.lines().filter(is_line).take(2).count() == 2
}

/// The text of the tracer, or of `trace-cmd report`.
pub(super) fn read(text: &str, heading: &Heading) -> Report {
    let mut calls = Calls::default();
    let has_cpus = text.lines().take(100).any(|line| line.starts_with('#') && line.contains("CPU"));
    for line in text.lines() {
        take(&mut calls, line);
    }
    let mut limits: Vec<String> =
        heading.missing(calls.lines).filter(|text| text.contains("overwritten")).into_iter().collect();
    if calls.lines == 0 && !has_cpus {
        limits.push("the CPUs of the calls are not in the text: echo 1 > options/funcgraph-cpu".to_owned());
    }
    calls.report(format!("text of the function_graph tracer{}", heading.on()), limits)
}

/// ` 1) + 31.336 us   |        }`, and ` 0)   rcuc/0-19    =>    sh-1091` between them.
fn take(calls: &mut Calls, line: &str) {
    if let Some((cpu, from, to)) = switched(line) {
        // The task had no name before.
        if let (false, Some(open)) = (calls.current.contains_key(&cpu), calls.open.remove(&key(cpu, 0))) {
            calls.open.insert(key(cpu, from.tid.0), open);
        }
        calls.switch(cpu, &from);
        return calls.switch(cpu, &to);
    }
    let Some((head, code)) = line.rsplit_once('|') else { return };
    let indent = Some(code.len() - code.trim_start().len());
    let code = code.trim();
    let Some(cpu) = cpu_of(head) else { return };
    if let Some(who) = head.split('|').find_map(|column| thread(column.rsplit(')').next()?)) {
        calls.switch(cpu, &who);
    }
    let (code, comment) = match code.split_once("/*") {
        Some((code, comment)) => (code.trim(), Some(stack::name(comment.trim_end_matches("*/").trim()))),
        None => (code, None),
    };
    calls.lines += 1;
    let length = duration(head);
    let name = |code: &str| printable::line(stack::name(code)).into_owned();
    match (code, length) {
        (code, _) if code.ends_with('{') => calls.enter(cpu, &name(code), indent),
        (code, Some(length)) if code.starts_with('}') => {
            let closed = comment.map(|name| printable::line(name).into_owned());
            calls.leave_at(cpu, None, (closed.as_deref(), indent), length, None);
        }
        (code, Some(length)) if code.ends_with(';') => {
            calls.leave(cpu, Some(&name(code)), None, length, None)
        }
        (code, None) if code.starts_with('}') || code.ends_with(';') => calls.unmeasured += 1,
        _ => {}
    }
}

/// ` 0)   rcuc/0-19    =>    sh-1091    `
fn switched(line: &str) -> Option<(u32, Thread, Thread)> {
    let (cpu, rest) = line.split_once(')')?;
    let (from, to) = rest.split_once("=>")?;
    Some((cpu.trim().parse().ok()?, thread(from)?, thread(to)?))
}

/// `ksoftir-14`
fn thread(text: &str) -> Option<Thread> {
    let (comm, tid) = text.trim().rsplit_once('-')?;
    let tid = tid.parse().ok().filter(|tid| *tid >= 0)?;
    let is_name = !comm.is_empty() && !comm.contains(" us");
    is_name.then(|| Thread { tid: Tid(tid), comm: printable::line(comm).into_owned(), prio: None })
}

/// The CPU before `)`, also after a time stamp.
fn cpu_of(head: &str) -> Option<u32> {
    head.split(')').next()?.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The number before ` us`.
fn duration(head: &str) -> Option<Ns> {
    let (before, _) = head.rsplit_once(" us")?;
    let number: f64 = before.split_whitespace().next_back()?.parse().ok()?;
    (number.is_finite() && (0.0..1e15).contains(&number)).then(|| Ns((number * 1000.0).round() as u64))
}

/// The longest call in a recording with events of this tracer; `None` without such events.
#[must_use]
pub fn of_source(source: &dyn Source) -> Option<Report> {
    let classes = source.catalogue().classes();
    let of = |name: &str| classes.iter().position(|class| class.name == name);
    let exit = of("funcgraph_exit")?;
    let entry = of("funcgraph_entry");
    let func = classes[exit].field("func")?;
    let times = (classes[exit].field("calltime"), classes[exit].field("rettime"));
    let entered = entry.and_then(|entry| classes[entry].field("func"));
    let pid_of = |class: usize| classes[class].field("common_pid");
    let mut calls = Calls::default();
    let symbols = source.symbols();
    let named = |address: u64| {
        symbols
            .resolve(address)
            .map_or_else(|| format!("{address:#x}"), |(name, _)| stack::name(name).to_owned())
    };
    let mut walk = source.events(Span::ALL);
    let mut begun: HashMap<(u32, i32), Vec<Mono>> = HashMap::new();
    while let Some(item) = walk.next() {
        let Item::Event(record) = item else { continue };
        let class = record.class as usize;
        if class != exit && Some(class) != entry {
            continue;
        }
        calls.lines += 1;
        let number = |field: Option<FieldRef>| field.and_then(|field| classes[class].bits(field, &record));
        let tid = Tid(number(pid_of(class)).unwrap_or(0) as i32);
        let comm = source.info().comms.get(&tid).cloned().unwrap_or_default();
        let cpu = record.cpu.0;
        calls.switch(cpu, &Thread { tid, comm, prio: None });
        let key = key(cpu, tid.0);
        if class != exit {
            let name = number(entered).map_or("?".to_owned(), named);
            calls.enter(cpu, &name, None);
            begun.entry(key).or_default().push(record.at);
            continue;
        }
        let at = begun.entry(key).or_default().pop();
        let length = match (number(times.0), number(times.1), at) {
            (Some(call), Some(ret), _) if ret >= call => Ns(ret - call),
            (_, _, Some(at)) => record.at.since(at),
            _ => continue,
        };
        let open = calls.open.get(&key).and_then(|open| open.last()).is_some();
        let name = number(Some(func)).map(named);
        calls.leave(
            cpu,
            name.as_deref().filter(|_| !open && at.is_some()),
            name.as_deref(),
            length,
            Some(record.at),
        );
    }
    // Every trace.dat describes these events, even if the tracer did not run.
    (calls.lines > 0).then(|| calls.report(source.info().format.clone(), Vec::new()))
}
