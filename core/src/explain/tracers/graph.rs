//! `function_graph`: the longest call, and what it called. As text, and as events of a recording (`funcgraph_*`).

use std::collections::HashMap;

use super::critical::percent;
use super::{explanation, stack, Finding, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::printable;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::catalogue::FieldRef;
use crate::trace::source::{Item, Source, Span};

/// Calls within one that are kept.
const MOST_INSIDE: usize = 200;
/// Deepest nesting that is followed: of more only the time is.
const DEEPEST: usize = 64;
/// Levels that are shown.
const SHOWN: usize = 8;

/// A call that returned.
#[derive(Clone, Debug, Default)]
struct Call {
    name: String,
    length: Ns,
    inside: Vec<Call>,
    /// When it returned, where the text says.
    end: Option<Mono>,
    who: Option<Thread>,
    cpu: Cpu,
}

/// Calls that are open, by CPU; and the longest that returned.
#[derive(Default)]
struct Calls {
    open: HashMap<(u32, i32), Vec<Call>>,
    longest: Option<Call>,
    count: u64,
    lines: u64,
    unmatched: u64,
}

impl Calls {
    fn enter(&mut self, key: (u32, i32), name: &str) {
        let open = self.open.entry(key).or_default();
        if open.len() < DEEPEST {
            open.push(Call { name: name.to_owned(), ..Call::default() });
        }
    }

    /// The call on top returned, or one without calls inside did.
    fn leave(
        &mut self,
        key: (u32, i32),
        leaf: Option<&str>,
        length: Ns,
        end: Option<Mono>,
        who: Option<Thread>,
    ) {
        self.count += 1;
        let open = self.open.entry(key).or_default();
        let mut call = match leaf {
            Some(name) => Call { name: name.to_owned(), ..Call::default() },
            None => open.pop().unwrap_or_else(|| {
                self.unmatched += 1;
                Call { name: "a function entered before the trace".to_owned(), ..Call::default() }
            }),
        };
        (call.length, call.end, call.who, call.cpu) = (length, end, who, Cpu(key.0));
        match open.last_mut() {
            Some(outer) if outer.inside.len() < MOST_INSIDE => outer.inside.push(call),
            Some(_) => {}
            None if self.longest.as_ref().is_none_or(|longest| longest.length < call.length) => {
                self.longest = Some(call)
            }
            None => {}
        }
    }

    fn report(mut self, format: String, mut limits: Vec<String>) -> Report {
        // What never returned in the trace hides the calls inside it.
        let open: Vec<Call> =
            self.open.drain().flat_map(|(_, open)| open).flat_map(|call| call.inside).collect();
        for call in open {
            if self.longest.as_ref().is_none_or(|longest| longest.length < call.length) {
                self.longest = Some(call);
            }
        }
        if self.longest.is_none() {
            limits.push("no function returned in the trace: how long any took is not recorded".to_owned());
        }
        let worst = self.longest.map(|call| finding(&call));
        let question = "longest call in the function graph".to_owned();
        Report { format, question, lines: self.lines, count: self.count, worst, limits }
    }
}

fn finding(call: &Call) -> Finding {
    let begin = Mono(call.end.map_or(0, |end| end.0.saturating_sub(call.length.0)));
    let total = call.length;
    let tree = node(call, begin, 0);
    let named = call.who.as_ref().filter(|who| !matches!(who.comm.as_str(), "" | "<unknown>" | "<...>"));
    let who =
        named.cloned().unwrap_or_else(|| Thread { comm: format!("CPU {}", call.cpu), ..Thread::default() });
    let by = named.map_or(String::new(), |who| format!(" in {who}"));
    let mut sentence = format!("the longest call: {}() took {total} on CPU {}{by}", call.name, call.cpu);
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
    let advice = "function tracing itself adds to every call; whether a thread waited for this one, a wakeup tracer or scheduler events would tell".to_owned();
    let told = (sentence, format!("function: {}", call.name), advice);
    Finding { thread: who, cpu: call.cpu, begin, explanation: explanation(tree, told, Vec::new()) }
}

/// The call with what it called; where these took more than it did, only itself.
fn node(call: &Call, begin: Mono, depth: usize) -> Segment {
    let inside: Ns = call.inside.iter().map(|call| call.length).sum();
    let name = format!("{}()", call.name);
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

/// The text of the tracer, or of `trace-cmd report`.
pub(super) fn read(text: &str, heading: &Heading) -> Report {
    let mut calls = Calls::default();
    for line in text.lines() {
        take(&mut calls, line);
    }
    let limits =
        heading.missing(calls.lines).filter(|text| text.contains("overwritten")).into_iter().collect();
    calls.report(format!("text of the function_graph tracer{}", heading.on()), limits)
}

/// ` 1) + 31.336 us   |        }`
fn take(calls: &mut Calls, line: &str) {
    let Some((head, code)) = line.rsplit_once('|') else { return };
    let code = code.trim();
    let Some(cpu) = cpu_of(head) else { return };
    let (code, comment) = match code.split_once("/*") {
        Some((code, comment)) => (code.trim(), Some(comment)),
        None => (code, None),
    };
    calls.lines += 1;
    let length = duration(head);
    let key = (cpu, 0);
    let name = |code: &str| printable::line(stack::name(code)).into_owned();
    match (code, length) {
        (code, _) if code.ends_with('{') => calls.enter(key, &name(code)),
        (code, Some(length)) if code.starts_with('}') => {
            let _ = comment;
            calls.leave(key, None, length, None, None);
        }
        (code, Some(length)) if code.ends_with(';') => {
            calls.leave(key, Some(&name(code)), length, None, None)
        }
        _ => {}
    }
}

/// The CPU before `)`, also behind a time stamp.
fn cpu_of(head: &str) -> Option<u32> {
    head.split(')').next()?.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The number before ` us`.
fn duration(head: &str) -> Option<Ns> {
    let (before, _) = head.rsplit_once(" us")?;
    let number: f64 = before.split_whitespace().next_back()?.parse().ok()?;
    (number.is_finite() && (0.0..1e15).contains(&number)).then(|| Ns((number * 1000.0).round() as u64))
}

/// The longest call of a recording with the events of this tracer; `None` where it holds none.
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
        let pid = number(pid_of(class));
        let key = (record.cpu.0, pid.unwrap_or(0) as i32);
        if class != exit {
            let name = number(entered).map_or("?".to_owned(), named);
            calls.enter(key, &name);
            begun.entry(key).or_default().push(record.at);
            continue;
        }
        let at = begun.entry(key).or_default().pop();
        let length = match (number(times.0), number(times.1), at) {
            (Some(call), Some(ret), _) if ret >= call => Ns(ret - call),
            (_, _, Some(at)) => record.at.since(at),
            _ => continue,
        };
        let who = pid.map(|pid| {
            let tid = Tid(pid as i32);
            let comm = source.info().comms.get(&tid).cloned().unwrap_or_default();
            Thread { tid, comm, prio: None }
        });
        let open = calls.open.get(&key).and_then(|open| open.last()).is_some();
        let name = number(Some(func)).map(named);
        calls.leave(key, name.as_deref().filter(|_| !open), length, Some(record.at), who);
    }
    // Every trace.dat describes these events, also where the tracer did not run.
    (calls.lines > 0).then(|| calls.report(source.info().format.clone(), Vec::new()))
}
