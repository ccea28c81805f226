//! `lathunt respond --latmon`: connects to a latmon, answers its pulses on a channel, receives its figures.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::latency_box::latmon::text::{self, Head, Machine};
use lathunt_core::latency_box::latmon::wire::Request;
use lathunt_core::latency_box::latmon::PORT;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_host::facts::counters::Counters;
use lathunt_host::latency_box::latmon::{discover, Peer};
use lathunt_host::latency_box::Place;
use lathunt_host::tree::LIVE;
use lathunt_host::{link, sched, signals, threads};

use super::result::{self, Answered};
use super::session::{measure, Around, End, Measured};
use crate::cmd::latency_box::respond::{attend, post};
use crate::cmd::latency_box::session::{gather, output, realtime};
use crate::cmd::latency_box::table;
use crate::cmd::respond::RespondArgs;
use crate::file::write_atomic;
use crate::{exit, out};

/// How long to retry a box that is not listening yet.
const WAIT: Duration = Duration::from_secs(5);

/// With -D, how long to wait for latmon's address, which is broadcast every five seconds.
const WAIT_FOR_BROADCAST: Duration = Duration::from_secs(16);

struct Files {
    run: Option<PathBuf>,
    plot: Option<PathBuf>,
}

/// Measures once.
///
/// # Errors
/// One line: no such box, or a box without results; an absent channel.
pub fn run(args: &RespondArgs, latmon: &str) -> Result<ExitCode> {
    if args.channels.len() != 1 {
        bail!("latmon sends its pulses on one channel: name one");
    }
    let request = request(args)?;
    let (host, port) = place_of(latmon)?;
    let files = files(args)?;
    signals::install()?;
    let rights = realtime(args.priority, args.no_mlock);
    rights.lines.iter().for_each(|line| eprintln!("warning: {line}"));
    let place = Place { cpu: args.cpu, priority: if rights.ordinary { 0 } else { args.priority } };
    let cpus: CpuSet = match args.cpu {
        Some(cpu) => std::iter::once(cpu).collect(),
        None => sched::affinity()?,
    };
    let mut conditions = gather(&cpus);
    conditions.notes.extend(rights.lines);
    let Some(mut peer) = connect(args, &host, port)? else { bail!("stopped before a latmon was found") };
    let mut post = post(args, &args.channels[0], place)?;
    let (channel, served) = (post.channel.to_string(), Arc::clone(&post.served));
    let over = AtomicBool::new(false);
    let is_over = || over.load(Ordering::Relaxed);
    let before = Counters::read(Path::new(LIVE), &cpus);
    let (measured, attended) = std::thread::scope(|scope| -> Result<_> {
        let attending = threads::scoped(scope, || attend(&mut post, &is_over))?;
        let must_end = |elapsed: Duration| {
            let late = args.duration.is_some_and(|length| elapsed.as_nanos() >= u128::from(length.0));
            late || signals::stop_requested().is_some() || attending.is_finished()
        };
        let mut lines = Lines::new(args, &channel, place.priority);
        let mut around = Around {
            is_over: &must_end,
            pulses: &|| served.stimuli.load(Ordering::Relaxed),
            on_record: &mut |record, totals, elapsed| lines.record(record, totals, elapsed),
        };
        let measured = measure(&mut peer, request, &mut around);
        lines.summary(&measured);
        over.store(true, Ordering::Relaxed);
        Ok((measured, attending.join()))
    })?;
    if let Ok(Err(error)) = attended {
        return Err(error);
    }
    conditions.duration_s = Some(measured.elapsed.as_secs_f64());
    conditions.during = before.during(Path::new(LIVE), &cpus);
    let answered = Answered {
        channel,
        period: Ns::from_us(u64::from(request.period_us)),
        cpu: args.cpu,
        priority: place.priority,
        pulses: served.stimuli.load(Ordering::Relaxed),
        box_name: peer.name.clone(),
    };
    result::doubts(&measured).iter().for_each(|line| eprintln!("latmon: {line}"));
    if measured.totals.samples == 0
        && measured.cells.as_ref().is_none_or(|cells| cells.iter().all(|&n| n == 0))
    {
        bail!("latmon at {} gave no latency: {}", peer.name, nothing(&measured, answered.pulses));
    }
    let mut run = result::run(conditions, &measured, &answered);
    run.verdict = Some(exit::judged(args.deadline, &run, Quantity::Roundtrip));
    write(args, &run, &measured, &answered, &files)?;
    let code = exit::of(run.verdict.as_ref());
    let open = !run.complete || run.series[0].lost > 0 || !run.losses.is_empty();
    Ok(if code == ExitCode::SUCCESS && open { exit::INCONCLUSIVE.into() } else { code })
}

fn request(args: &RespondArgs) -> Result<Request> {
    let interval = args.interval.unwrap_or(Ns::from_ms(1));
    let request =
        Request { period_us: u32::try_from(interval.0 / 1_000).unwrap_or(u32::MAX), cells: args.cells };
    if !interval.0.is_multiple_of(1_000) || !request.is_start() {
        bail!("latmon takes a period of whole µs from 1us to 1s, not {interval}");
    }
    Ok(request)
}

/// `HOST`, `HOST:PORT`, `broadcast`, `broadcast:PORT`.
fn place_of(text: &str) -> Result<(String, u16)> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let port = if text.contains(':') { port.parse().ok().filter(|&port| port > 0) } else { Some(PORT) };
    match port {
        Some(port) if !host.is_empty() && !host.contains(':') => Ok((host.to_owned(), port)),
        _ => bail!(
            "'{text}' is not the address of a latmon: write HOST, HOST:PORT or broadcast; latmon has IPv4 only"
        ),
    }
}

fn files(args: &RespondArgs) -> Result<Files> {
    if let Some(plot) = args.plot.as_deref().filter(|plot| plot.exists()) {
        bail!(
            "{} exists: as latmus, lathunt does not overwrite a plot file; remove it, or name another one",
            plot.display()
        );
    }
    Ok(Files { run: args.output.as_deref().map(output).transpose()?, plot: args.plot.clone() })
}

/// `None`: stopped first.
fn connect(args: &RespondArgs, host: &str, port: u16) -> Result<Option<Peer>> {
    let begun = Instant::now();
    // -D is the length of the measurement. Without it, waits for a box that is switched on later.
    let is_over = || {
        let late = args.duration.is_some() && begun.elapsed() > WAIT_FOR_BROADCAST;
        late || signals::stop_requested().is_some()
    };
    let mut found = host.to_owned();
    if host == "broadcast" {
        if !args.quiet {
            eprintln!("waiting for a latmon to broadcast its address to UDP port {port}");
        }
        let Some((address, said)) = discover(port, &is_over)? else { return Ok(None) };
        found = address.to_string();
        if said != found {
            eprintln!(
                "latmon: a datagram from {found} says '{said}': its sender's address counts, as with latmus"
            );
        }
    }
    loop {
        match Peer::connect(&found, port) {
            Ok(peer) => {
                if !args.quiet {
                    eprintln!("connected to latmon at {}", peer.name);
                }
                return Ok(Some(peer));
            }
            Err(error) if link::is_absent(&error) && begun.elapsed() < WAIT && !is_over() => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn nothing(measured: &Measured, pulses: u64) -> String {
    let how = match &measured.end {
        End::Closed(why) => why.clone(),
        End::Unresponsive => "it is unresponsive".to_owned(),
        End::Box => "it ended the measurement at once".to_owned(),
        End::Stalled | End::Asked => "it measured none".to_owned(),
    };
    let hint = match pulses {
        0 => "; no pulse arrived on the channel: check the wire, the line and the edge",
        _ => "; pulses were answered: check the wire of the answers, and its edge",
    };
    how + hint
}

/// The lines of `--format latmus`.
struct Lines {
    head: Option<Head>,
    records: u64,
    planned: Option<u64>,
}

impl Lines {
    fn new(args: &RespondArgs, channel: &str, priority: i32) -> Lines {
        let head = args.format.as_ref().filter(|_| !args.json).map(|_| head(args, channel, priority));
        Lines { head, records: 0, planned: args.duration.map(|length| length.0 / 1_000_000_000) }
    }

    fn record(
        &mut self,
        record: &lathunt_core::latency_box::latmon::wire::Record,
        totals: &lathunt_core::latency_box::latmon::totals::Totals,
        elapsed: Duration,
    ) {
        let Some(head) = &self.head else { return };
        let first = if self.records.is_multiple_of(text::LINES) {
            text::head(head, elapsed.as_secs())
        } else {
            String::new()
        };
        self.records += 1;
        out::print_or_say(&(first + &text::data(record, totals)));
    }

    fn summary(&self, measured: &Measured) {
        if self.head.is_some() {
            out::print_or_say(&text::summary(&measured.totals, measured.elapsed.as_secs(), self.planned));
        }
    }
}

fn head(args: &RespondArgs, channel: &str, priority: i32) -> Head {
    let period_us = args.interval.unwrap_or(Ns::from_ms(1)).0 / 1_000;
    Head {
        context: channel.to_owned(),
        period_us: u32::try_from(period_us).unwrap_or(u32::MAX),
        priority,
        cpu: args.cpu.map(|cpu| cpu.0),
    }
}

/// Prints and saves.
fn write(
    args: &RespondArgs,
    run: &Run,
    measured: &Measured,
    answered: &Answered,
    files: &Files,
) -> Result<()> {
    let printed = match (args.json, &args.format) {
        (true, _) => out::print(&(run.to_json() + "\n")),
        (false, None) => out::print(&table::of(run, args.quiet)),
        (false, Some(_)) => Ok(()),
    };
    let saved = files.run.as_ref().map_or(Ok(()), |file| write_atomic(file, run.to_json().as_bytes()));
    let mut plotted = Ok(());
    if let Some(file) = &files.plot {
        let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let machine = Machine {
            started: run.conditions.started.clone().unwrap_or_default(),
            version: line("/proc/version"),
            command_line: line("/proc/cmdline"),
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        };
        let head = head(args, &answered.channel, answered.priority);
        let cells = measured.cells.as_deref().unwrap_or(&[]);
        let text = text::plot(&head, &machine, &measured.totals, cells, measured.elapsed.as_secs());
        plotted = write_atomic(file, text.as_bytes());
    }
    exit::all([printed.map_err(Into::into), saved, plotted])
}
