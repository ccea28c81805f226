//! `lathunt respond`: one answering thread per channel, one box after another.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::latency_box::channel::Channel;
use lathunt_core::latency_box::reception::Reception;
use lathunt_core::run::Run;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::latency_box::relay::Relay;
use lathunt_host::latency_box::responder::{Served, Service, Serving};
use lathunt_host::latency_box::trips::Trips;
use lathunt_host::latency_box::{identity, Place};
use lathunt_host::link::{reception, Listener};
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;
use lathunt_host::{clock, sched, signals, threads};

use super::answers::Answers;
use super::record;
use super::session::{gather, output, realtime};
use crate::cmd::respond::RespondArgs;
use crate::file::write_atomic;
use crate::out;

/// One channel.
pub(super) struct Post {
    pub(super) channel: Channel,
    listener: Listener,
    service: Option<Service>,
    reception: Reception,
    pub(super) served: Arc<Served>,
    told_version: bool,
    trips: Option<Arc<Trips>>,
}

/// Answers until it is stopped.
///
/// # Errors
/// One line: a channel that is absent, busy or refused; a program that ended.
pub fn run(args: &RespondArgs) -> Result<ExitCode> {
    let wanted: Option<CpuSet> = args.cpu.map(|cpu| [cpu].into_iter().collect());
    Topology::read(Path::new(LIVE))?.select(wanted.as_ref())?;
    if let Some(latmon) = &args.latmon {
        return super::latmon::respond::run(args, latmon);
    }
    if args.channels.len() > 1 && !args.command.is_empty() {
        bail!("-- COMMAND answers on one channel; start a responder for each");
    }
    let file = args.output.as_deref().map(output).transpose()?;
    signals::install()?;
    let mut conditions = args.output.is_some().then(|| gather(&affinity(args.cpu)));
    let rights = realtime(args.priority, args.no_mlock);
    rights.lines.iter().for_each(|line| eprintln!("warning: {line}"));
    let priority = if rights.ordinary { 0 } else { args.priority };
    let place = Place { cpu: args.cpu, priority };
    let mut posts =
        args.channels.iter().map(|channel| post(args, channel, place)).collect::<Result<Vec<_>>>()?;
    let evidence = match &mut conditions {
        Some(conditions) if args.record => Some(record::attach(conditions, true)?),
        _ => None,
    };
    // Attaching to the kernel takes seconds on a busy machine.
    if !args.quiet {
        let names: Vec<String> = args.channels.iter().map(Channel::to_string).collect();
        eprintln!("answering on {}", names.join(", "));
    }
    let mut answers = Answers::new(evidence, usize::from(args.worst));
    for post in &posts {
        post.trips.iter().for_each(|trips| answers.add(post.channel.to_string(), &post.served, trips, place));
    }
    let turn = if args.record { record::TURN } else { Duration::from_millis(20) };
    let begun = Instant::now();
    let over = AtomicBool::new(false);
    let is_over = || {
        let late = args.duration.is_some_and(|length| begun.elapsed().as_nanos() > u128::from(length.0));
        signals::stop_requested().is_some() || late || over.load(Ordering::Relaxed)
    };
    // Each listener waits for its box without delaying the others.
    let failed = std::thread::scope(|scope| {
        let (mut workers, mut refused) = (Vec::new(), None);
        for post in &mut posts {
            let attending = threads::scoped(scope, || {
                let result = attend(post, &is_over);
                if result.is_err() {
                    over.store(true, Ordering::Relaxed);
                }
                result
            });
            match attending {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    over.store(true, Ordering::Relaxed);
                    refused = Some(error.into());
                    break;
                }
            }
        }
        while file.is_some() && !is_over() {
            answers.look(clock::mono(), false);
            std::thread::sleep(turn);
        }
        let failed = workers.into_iter().filter_map(|worker| worker.join().ok()?.err()).next();
        refused.or(failed)
    });
    answers.look(clock::mono(), true);
    let mut saved = Ok(());
    if let (Some(file), Some(mut conditions)) = (&file, conditions) {
        let changed =
            posts.iter().filter_map(|post| Some(format!("{}: {}", post.channel, post.served.changed()?)));
        conditions.during.ended_early.extend(changed);
        saved = save(file, conditions, answers, begun, &rights.lines);
    }
    let text = if args.json { json(&posts) } else { told(&posts) };
    let printed = if args.json || !args.quiet { out::print(&text) } else { Ok(()) };
    crate::exit::all([printed.map_err(Into::into), saved, failed.map_or(Ok(()), Err)])?;
    Ok(ExitCode::SUCCESS)
}

/// CPUs for the conditions.
fn affinity(cpu: Option<Cpu>) -> CpuSet {
    cpu.map_or_else(|| sched::affinity().unwrap_or_default(), |cpu| [cpu].into_iter().collect())
}

/// Writes the run.
fn save(
    file: &Path,
    mut conditions: Conditions,
    answers: Answers,
    begun: Instant,
    notes: &[String],
) -> Result<()> {
    conditions.duration_s = Some(begun.elapsed().as_secs_f64());
    conditions.notes.extend_from_slice(notes);
    let mut run = Run::new(conditions);
    answers.into_run(&mut run);
    write_atomic(file, run.to_json().as_bytes())
}

pub(super) fn post(args: &RespondArgs, channel: &Channel, place: Place) -> Result<Post> {
    let relay = (!args.command.is_empty()).then(|| Relay::start(&args.command)).transpose()?;
    let service = Service { place, delay: args.delay, seed: identity::random_key()?, relay };
    let listener = Listener::open(channel)?;
    let trips = args.output.as_ref().filter(|_| args.latmon.is_none()).map(|_| Trips::new());
    let served = Arc::new(Served::tapped(trips.clone()));
    Ok(Post {
        trips,
        channel: channel.clone(),
        listener,
        service: Some(service),
        reception: args.receive,
        served,
        told_version: false,
    })
}

/// Serves one box after another.
pub(super) fn attend(post: &mut Post, is_over: &dyn Fn() -> bool) -> Result<()> {
    while !is_over() {
        let Some(link) = post.listener.wait()? else {
            if matches!(post.listener, Listener::Standing(_)) {
                bail!("{}: the answering thread is blocked in the kernel", post.channel);
            }
            continue;
        };
        let link = reception::with(post.reception, link)?;
        let Some(service) = post.service.take() else {
            bail!("{}: no thread is left to answer", post.channel)
        };
        let serving = Serving::start(link, service, &post.served)?;
        // A silent client must not keep others from being served.
        while serving.is_running() && !is_over() && !(serving.is_silent() && post.listener.is_called()) {
            std::thread::sleep(Duration::from_millis(20));
            if let Some(error) = post.served.take_other_version()
                && !std::mem::replace(&mut post.told_version, true)
            {
                eprintln!("warning: {}: {error}", post.channel);
            }
        }
        let Some((link, service, broke)) = serving.end() else {
            // A thread blocked in an uninterruptible call, at the end or after the death of a box.
            return Ok(());
        };
        post.service = Some(service);
        if let Some(broke) = broke {
            bail!("cannot answer on {}: {broke}", post.channel);
        }
        post.listener.back(link);
    }
    Ok(())
}

fn counts(served: &Served) -> [(&'static str, u64); 7] {
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    [
        ("sessions", of(&served.sessions)),
        ("stimuli", of(&served.stimuli)),
        ("answers", of(&served.answers)),
        ("foreign", of(&served.foreign)),
        ("damaged", of(&served.damaged)),
        ("refused", of(&served.refused)),
        ("cpu_ns", of(&served.cpu_ns)),
    ]
}

/// The name of a counter beside its value.
fn noun(counter: &'static str, count: u64) -> &'static str {
    match (counter, count) {
        ("sessions", 1) => "session",
        ("stimuli", 1) => "stimulus",
        ("answers", 1) => "answer",
        _ => counter,
    }
}

fn told(posts: &[Post]) -> String {
    let mut text = String::new();
    for post in posts {
        let all: Vec<String> = counts(&post.served)[..6]
            .iter()
            .map(|(what, count)| format!("{count} {}", noun(what, *count)))
            .collect();
        let cpu = Ns(post.served.cpu_ns.load(Ordering::Relaxed));
        let _ = writeln!(text, "{}: {}; {cpu} of CPU time", post.channel, all.join(", "));
    }
    text
}

fn json(posts: &[Post]) -> String {
    let channels: Vec<serde_json::Value> = posts
        .iter()
        .map(|post| {
            let mut one = serde_json::Map::new();
            one.insert("channel".to_owned(), post.channel.to_string().into());
            one.extend(counts(&post.served).map(|(what, count)| (what.to_owned(), count.into())));
            one.into()
        })
        .collect();
    serde_json::json!({ "channels": channels }).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::noun;

    #[test]
    fn a_count_of_one_has_a_noun_in_the_singular() {
        let told = [("sessions", 1), ("stimuli", 1), ("answers", 1), ("foreign", 1), ("stimuli", 2)];
        let nouns = told.map(|(what, count)| noun(what, count));
        assert_eq!(nouns, ["session", "stimulus", "answer", "foreign", "stimuli"]);
    }
}
