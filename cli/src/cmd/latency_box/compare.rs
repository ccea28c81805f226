//! `lathunt box --compare receive`: the same round trips with each method to receive, in alternating rounds, with the CPU
//! time of each.
//!
//! The responder is a thread of this process, because its method changes from round to round. Rounds alternate so that a
//! varying load affects all of them alike.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use anyhow::{anyhow, bail, Context, Result};
use lathunt_core::latency_box::channel::Channel;
use lathunt_core::latency_box::reception::Reception;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::latency_box::responder::{Served, Service, Serving};
use lathunt_host::latency_box::{self, Finished, Session};
use lathunt_host::link::{self, reception, Link, Listener};
use lathunt_host::signals;
use lathunt_host::tree::LIVE;

use super::open::{self, End};
use super::session::{broke, output, say_broke, Prepared};
use super::{table, watch};
use crate::cmd::latency_box::BoxArgs;
use crate::file::write_atomic;
use crate::{exit, out, stopped};

/// Rounds per method.
const ROUNDS: u32 = 5;
/// Default total length of a method.
const LENGTH: Ns = Ns::from_ms(5_000);

/// Results of one method on one channel.
struct Measured {
    channel: Channel,
    reception: Reception,
    series: Vec<Series>,
    cpu_ns: u64,
    answers: u64,
    elapsed: Ns,
}

/// Outcome of the rounds so far.
struct Rounds {
    complete: bool,
    /// Changes of the measuring threads' settings by others.
    changed: Vec<String>,
    finished: Vec<(latency_box::Options, Finished)>,
    elapsed: Ns,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { complete: true, changed: Vec::new(), finished: Vec::new(), elapsed: Ns::ZERO }
    }
}

/// Measures and prints the methods side by side.
///
/// # Errors
/// If the responder's address of a channel is in use or not of this machine, or a channel has nothing to compare.
pub fn run(args: &BoxArgs) -> Result<ExitCode> {
    let file = args.output.as_deref().map(output).transpose()?;
    let mut prepared = Prepared::new(args)?;
    let channels: Vec<Channel> = match args.pair.is_empty() {
        true => args.channels.clone(),
        false => args.locals().into_iter().map(Channel::Local).collect(),
    };
    let mut all = Vec::new();
    for channel in channels {
        all.extend(ways(&channel, &mut prepared.conditions.notes)?);
    }
    let before = crate::conditions::before_measuring(&prepared.cpus);
    let length = Ns(args.duration.unwrap_or(LENGTH).0 / u64::from(ROUNDS));
    let mut rounds = Rounds::default();
    'rounds: for round in 0..ROUNDS as usize {
        for at in 0..all.len() {
            let number = all.len();
            let way = &mut all[(at + round) % number];
            measure(args, &prepared, way, length, &mut rounds)?;
            if signals::stop_requested().is_some() || broke(&rounds.finished).is_some() {
                break 'rounds;
            }
        }
    }
    let Rounds { complete, mut changed, finished, elapsed } = rounds;
    // That of each series: the methods take turns.
    prepared.conditions.duration_s = all.iter().map(|way| way.elapsed).max().map(Ns::as_secs);
    prepared.conditions.during = before.during(Path::new(LIVE), &prepared.cpus);
    prepared.conditions.during.ended_early.append(&mut changed);
    prepared.conditions.notes.extend(all.iter().map(cost));
    let mut run = Run::new(prepared.conditions);
    run.complete = complete;
    let planned = Ns(length.0 * u64::from(ROUNDS) * all.len() as u64);
    stopped::mark(&mut run, elapsed, Some(planned));
    run.series.extend(all.iter().flat_map(|way| way.series.iter().cloned()));
    run.verdict = Some(exit::judged(args.deadline, &run, Quantity::Roundtrip));
    let text = if args.json { run.to_json() + "\n" } else { table(&all) + &table::verdict(&run) };
    let saved = file.map_or(Ok(()), |file| write_atomic(&file, run.to_json().as_bytes()));
    exit::all([out::print(&text).map_err(Into::into), saved])?;
    if let Some(code) = say_broke(args, &finished) {
        return Ok(code);
    }
    let code = exit::of(run.verdict.as_ref());
    let open = run.of(Quantity::Roundtrip).any(|series| series.lost > 0 || series.histogram.count() == 0);
    Ok(if code == ExitCode::SUCCESS && (open || !run.complete) { exit::INCONCLUSIVE.into() } else { code })
}

/// The methods that this channel supports on this machine; the others are reported and noted.
fn ways(channel: &Channel, notes: &mut Vec<String>) -> Result<Vec<Measured>> {
    let mut found = Vec::new();
    let is_udp = matches!(channel, Channel::Udp(_));
    for reception in Reception::ALL.into_iter().filter(|&one| one != Reception::Xdp || is_udp) {
        let (_client, server, _place) = both(channel)?;
        match reception::with(reception, server) {
            Ok(_) => {
                let (series, channel) = (Vec::new(), channel.clone());
                found.push(Measured { channel, reception, series, cpu_ns: 0, answers: 0, elapsed: Ns::ZERO });
            }
            Err(error) => {
                let note = format!("{channel}: {error}");
                eprintln!("warning: {note}");
                notes.push(note);
            }
        }
    }
    if found.len() < 2 {
        bail!("{channel} has nothing to compare: name a socket, a pipe, a pty or a message queue");
    }
    Ok(found)
}

/// Both ends of a channel, in this process, and their listener.
fn both(channel: &Channel) -> Result<(Link, Link, Option<Listener>)> {
    if let Channel::Local(local) = channel {
        let pair = link::local::pair(*local);
        let (mine, theirs) = pair.map_err(|error| anyhow!("cannot create the channel {channel}: {error}"))?;
        return Ok((mine, theirs, None));
    }
    if !matches!(channel, Channel::Udp(_) | Channel::Tcp(_) | Channel::Unix(_) | Channel::Vsock(..)) {
        bail!("{channel} has one end on this machine: compare with udp, tcp, unix, vsock or --pair");
    }
    let mut place = Listener::open(channel)?;
    let mine = link::connect(channel)?;
    let theirs = place.wait()?.with_context(|| format!("{channel}: the connection did not arrive"))?;
    Ok((mine, theirs, Some(place)))
}

/// One round of one method.
fn measure(
    args: &BoxArgs,
    prepared: &Prepared,
    way: &mut Measured,
    length: Ns,
    rounds: &mut Rounds,
) -> Result<()> {
    let (mine, theirs, _place) = both(&way.channel)?;
    let theirs = reception::with(way.reception, theirs)?;
    let (cpu, priority) = (prepared.place.cpus[0], prepared.place.priority);
    let to: Option<Cpu> = if args.smp { Some(cpu) } else { open::other(cpu) };
    let service =
        Service { place: latency_box::Place { cpu: to, priority }, delay: None, seed: 0, relay: None };
    let served = Arc::new(Served::default());
    let serving = Serving::start(theirs, service, &served)?;
    let mut options = open::options(args, format!("{} {}", way.channel, way.reception), cpu, priority);
    options.duration = Some(length);
    let session = Session::start(mine, options)?;
    let (finished, took) = watch::follow(
        args,
        vec![End { session, serving: Some(serving) }],
        watch::Others::default(),
        &prepared.conditions,
    );
    rounds.elapsed = rounds.elapsed + took;
    way.elapsed = way.elapsed + took;
    for (options, mut one) in finished {
        rounds.complete &= one.welcomed && !one.closed;
        rounds.changed.append(&mut one.changed);
        add(&mut way.series, std::mem::take(&mut one.series))?;
        rounds.finished.push((options, one));
    }
    way.cpu_ns += served.cpu_ns.load(Ordering::Acquire);
    way.answers += served.answers.load(Ordering::Acquire);
    Ok(())
}

/// Adds the series of a round to those of earlier rounds, by quantity. Maxima of seconds are not combined.
fn add(all: &mut Vec<Series>, round: Vec<Series>) -> Result<()> {
    for mut series in round {
        series.seconds.clear();
        let Some(into) = all.iter_mut().find(|one| one.quantity == series.quantity) else {
            all.push(series);
            continue;
        };
        into.histogram.merge(&series.histogram)?;
        into.replayed = match (into.replayed.take(), series.replayed) {
            (Some(mut sum), Some(more)) => sum.merge(&more).ok().map(|()| sum),
            _ => None,
        };
        into.lost += series.lost;
        into.missed = into.missed.zip(series.missed).map(|(one, other)| one + other);
        if let (Some(counts), Some(more)) = (&mut into.counts, &series.counts) {
            counts.add(more);
        }
    }
    Ok(())
}

fn cpu_each(way: &Measured) -> Option<Ns> {
    way.cpu_ns.checked_div(way.answers).map(Ns)
}

fn cost(way: &Measured) -> String {
    let each = cpu_each(way).map_or("-".to_owned(), |each| each.to_string());
    format!("{} {}: {each} of CPU time of the responder per answer", way.channel, way.reception)
}

fn table(all: &[Measured]) -> String {
    let mut text = String::new();
    let mut rest = all;
    while let Some(first) = rest.first() {
        let (of_channel, others) = rest.split_at(rest.partition_point(|way| way.channel == first.channel));
        let _ = writeln!(text, "{}, round trip by how the responder receives", first.channel);
        let head = ["", "samples", "min", "median", "avg", "p99.9", "max", "CPU each", "lost"];
        let head = head.map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(of_channel.iter().map(cells)).collect();
        let width = |at: usize| rows.iter().filter_map(|row| Some(row.get(at)?.chars().count())).max();
        for row in &rows {
            for (at, cell) in row.iter().enumerate() {
                let width = width(at).unwrap_or_default();
                let _ = match at {
                    0 => write!(text, "  {cell:<width$}"),
                    _ => write!(text, " {cell:>width$}"),
                };
            }
            text.push('\n');
        }
        rest = others;
    }
    text
}

/// A method's row.
fn cells(way: &Measured) -> Vec<String> {
    let name = way.reception.name().to_owned();
    let Some(series) = way.series.iter().find(|series| series.quantity == Quantity::Roundtrip) else {
        return vec![name, "none".to_owned()];
    };
    let histogram = &series.histogram;
    let times = [
        histogram.min(),
        histogram.quantile(0.5),
        histogram.mean_ns().map(|ns| Ns(ns as u64)),
        histogram.quantile(0.999),
        histogram.max(),
        cpu_each(way),
    ];
    let times = times.map(|time| time.map_or("-".to_owned(), |ns| ns.to_string()));
    let mut cells = vec![name, histogram.count().to_string()];
    cells.extend(times);
    cells.push(series.lost.to_string());
    cells
}
