//! `lathunt box --latmon`: latmus connects, selects the period, and receives the latencies. Each of its measurements is a
//! session of the box.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{bail, Context, Result};
use lathunt_core::latency_box::latmon::monitor::{Monitor, Order};
use lathunt_core::latency_box::latmon::wire::Request;
use lathunt_core::latency_box::latmon::PORT;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_host::facts::counters::Counters;
use lathunt_host::latency_box::feed::Feed;
use lathunt_host::latency_box::latmon::{Peer, Server};
use lathunt_host::latency_box::tally::Taps;
use lathunt_host::latency_box::{Finished, Options, Session};
use lathunt_host::tree::LIVE;
use lathunt_host::{sched, signals};

use crate::cmd::latency_box::open;
use crate::cmd::latency_box::session::{finish, nobody_there, output, to_run, Prepared};
use crate::cmd::latency_box::BoxArgs;
use crate::exit;
use crate::file::target;

/// latmus gives up after five seconds without a byte.
const MOST_TIMEOUT: Ns = Ns::from_ms(3_000);
/// With a shorter period the box would be busy sending.
const SHORTEST_PERIOD_US: u32 = 10;
/// Maximum measurements of one run; each is kept in memory until the end.
const MOST_MEASUREMENTS: usize = 1_000;
/// Maximum refusals printed per client.
const MOST_REFUSALS: u64 = 3;

/// Serves one latmus after another.
///
/// # Errors
/// One line: the address is in use, or no client came.
pub fn run(args: &BoxArgs) -> Result<ExitCode> {
    if args.channels.len() != 1 {
        bail!("latmon measures over one channel: name one");
    }
    if args.timeout > MOST_TIMEOUT {
        bail!("--timeout above {MOST_TIMEOUT} with --latmon: latmus gives up after 5 s without an answer");
    }
    let file = args.output.as_deref().map(output).transpose()?;
    let lines_file = args.lines.as_deref().map(|path| target(path, "histogram.txt")).transpose()?;
    let mut server = Server::bind(address(args.listen.as_deref())?)?;
    let mut prepared = Prepared::new(args)?;
    let before = Counters::read(Path::new(LIVE), &prepared.cpus);
    eprintln!("latmon at {}: waiting for latmus", server.address());
    let mut serving = Serving {
        args,
        refusals: 0,
        prepared: &prepared,
        begun: Instant::now(),
        finished: Vec::new(),
        measured: Ns::ZERO,
    };
    while !serving.is_over() {
        if let Some(peer) = server.wait() {
            serving.say(&format!("{} is connected", peer.name));
            serving.client(peer, &server);
        }
    }
    let Serving { finished, measured, .. } = serving;
    if finished.is_empty() {
        bail!("no measurement: no latmus connected to {} and started one", server.address());
    }
    nobody_there(&finished)?;
    prepared.conditions.duration_s = Some(measured.as_secs());
    prepared.conditions.during = before.during(Path::new(LIVE), &prepared.cpus);
    let mut run = to_run(prepared.conditions, &finished);
    run.verdict = Some(exit::judged(args.deadline, &run, Quantity::Roundtrip));
    finish(args, &run, &finished, file.as_deref(), lines_file.as_deref())
}

/// `ADDR:PORT`, a port alone (of loopback), or an address alone.
fn address(text: Option<&str>) -> Result<SocketAddrV4> {
    let Some(text) = text else { return Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT)) };
    let port = text.parse().ok().map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    let alone = || text.parse().ok().map(|address| SocketAddrV4::new(address, PORT));
    port.or_else(alone).or_else(|| text.parse().ok()).with_context(|| {
        format!("cannot listen on '{text}': write an IPv4 ADDR:PORT, for example 192.168.1.1:{PORT}; latmus knows no other port")
    })
}

struct Serving<'a> {
    args: &'a BoxArgs,
    /// Refusals for the connected client.
    refusals: u64,
    prepared: &'a Prepared,
    begun: Instant,
    finished: Vec<(Options, Finished)>,
    measured: Ns,
}

/// A running measurement.
struct Running {
    session: Session,
    feed: Arc<Feed>,
    /// Answers after the time limit: overruns for latmus.
    late: u64,
    told: u64,
}

impl Serving<'_> {
    fn is_over(&self) -> bool {
        let length =
            self.args.duration.is_some_and(|length| self.begun.elapsed().as_nanos() > u128::from(length.0));
        let broke = self.finished.iter().any(|(_, one)| one.broke.is_some());
        length || broke || signals::stop_requested().is_some() || sched::rt_time_exceeded()
    }

    fn say(&self, text: &str) {
        if !self.args.quiet {
            eprintln!("{text}");
        }
    }

    /// Serves it until it leaves. Every request is answered as latmon does.
    fn client(&mut self, mut peer: Peer, server: &Server) {
        let mut monitor = Monitor::default();
        let mut running: Option<Running> = None;
        self.refusals = 0;
        let mut buffer = [0; 512];
        let mut idle = Instant::now();
        let left = loop {
            if self.is_over() {
                break None;
            }
            let orders = match peer.receive(&mut buffer, 10) {
                Ok(None) => Vec::new(),
                Ok(Some(0)) => break Some("has left".to_owned()),
                Ok(Some(n)) => monitor.hear(&buffer[..n]),
                Err(error) => break Some(format!("is gone: {error}")),
            };
            let mut sent = Ok(());
            for order in orders {
                sent = sent.and_then(|()| self.obey(order, &mut running, &mut monitor, &mut peer));
            }
            if let Some(one) = &mut running {
                idle = Instant::now();
                sent = sent.and_then(|()| one.pass_on(self.args.timeout, &mut monitor, &mut peer));
                if !one.session.is_running() {
                    self.say("the measurement ended before latmus stopped it");
                    sent = sent.and_then(|()| self.stop(&mut running, &mut monitor, &mut peer));
                }
            } else if idle.elapsed().as_secs() >= 5 && server.is_wanted(0) {
                break Some("asks for nothing, and another one waits".to_owned());
            }
            if let Err(error) = sent {
                break Some(format!("takes nothing more: {error}"));
            }
        };
        // We end: latmus gets the results so far.
        let _ = self.stop(&mut running, &mut monitor, &mut peer);
        if let Some(left) = left {
            let rest = match monitor.rest() {
                0 => String::new(),
                bytes => format!(", after {bytes} bytes that are not a request"),
            };
            let refused = match self.refusals {
                0 => String::new(),
                count => format!("; {count} requests were refused"),
            };
            self.say(&format!("{} {left}{rest}{refused}", peer.name));
        }
    }

    fn obey(
        &mut self,
        order: Order,
        running: &mut Option<Running>,
        monitor: &mut Monitor,
        peer: &mut Peer,
    ) -> std::io::Result<()> {
        match order {
            Order::Stop => self.stop(running, monitor, peer),
            Order::Start(request) if self.takes(request) => {
                self.end(running, monitor);
                monitor.start(request);
                match self.start(request) {
                    Ok(one) => *running = Some(one),
                    Err(error) => {
                        eprintln!("lathunt: {error:#}");
                        peer.send(&monitor.stop())?;
                    }
                }
                Ok(())
            }
            Order::Start(request) | Order::Refused(request) => {
                self.refuse(request, &peer.name);
                self.stop(running, monitor, peer)
            }
        }
    }

    fn takes(&self, request: Request) -> bool {
        request.period_us >= SHORTEST_PERIOD_US && self.finished.len() < MOST_MEASUREMENTS
    }

    /// Reports why, up to a limit: a peer may send anything.
    fn refuse(&mut self, request: Request, name: &str) {
        self.refusals += 1;
        if self.refusals > MOST_REFUSALS {
            return;
        }
        let Request { period_us, cells } = request;
        eprintln!(
            "{name} asks for a period of {period_us} µs and {cells} cells: refused, answered as a stop (a period is \
             {SHORTEST_PERIOD_US} µs to 1 s, cells are at most 1000, measurements of one run {MOST_MEASUREMENTS})"
        );
    }

    fn start(&self, request: Request) -> Result<Running> {
        let channel = &self.args.channels[0];
        let number = self.finished.len() + 1;
        let name = if number == 1 { channel.to_string() } else { format!("{channel} #{number}") };
        self.say(&format!("measuring with a period of {} µs, {} cells", request.period_us, request.cells));
        let place = &self.prepared.place;
        let base = open::options(self.args, name, place.cpus[0], place.priority);
        let interval = Ns::from_us(u64::from(request.period_us));
        let late_above = self.args.deadline.unwrap_or(interval);
        let link = open::connect(channel, self.args.wait)?;
        let feed = Arc::new(Feed::default());
        let options = Options { interval, late_above, duration: None, ..base };
        let session =
            Session::start_tapped(link, options, Taps { feed: Some(Arc::clone(&feed)), trips: None })?;
        Ok(Running { session, feed, late: 0, told: 0 })
    }

    /// Ends the measurement, if there is one.
    fn end(&mut self, running: &mut Option<Running>, monitor: &mut Monitor) {
        let Some(mut one) = running.take() else { return };
        one.session.end();
        let limit = Instant::now();
        while one.session.is_running() && limit.elapsed().as_nanos() < 2 * u128::from(MOST_TIMEOUT.0) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let elapsed = one.session.elapsed();
        one.collect(self.args.timeout, monitor, &mut |_| Ok(())).ok();
        let Running { session, feed, late, told } = one;
        let options = session.options().clone();
        let done = session.finish();
        if !done.welcomed {
            let trouble = done.trouble.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            eprintln!(
                "no answer on {}{trouble}: start `lathunt respond {}` at the other end",
                options.name, self.args.channels[0]
            );
        }
        monitor.overruns((done.counts.lost + late + feed.dropped()).saturating_sub(told));
        self.measured = Ns(self.measured.0.max(elapsed.0));
        self.finished.push((options, done));
    }

    fn stop(
        &mut self,
        running: &mut Option<Running>,
        monitor: &mut Monitor,
        peer: &mut Peer,
    ) -> std::io::Result<()> {
        self.end(running, monitor);
        peer.send(&monitor.stop())
    }
}

impl Running {
    /// Sends the complete records.
    fn pass_on(&mut self, timeout: Ns, monitor: &mut Monitor, peer: &mut Peer) -> std::io::Result<()> {
        let overruns = (self.session.given_up() + self.late + self.feed.dropped()).saturating_sub(self.told);
        monitor.overruns(overruns);
        self.told += overruns;
        self.collect(timeout, monitor, &mut |record| peer.send(record))
    }

    fn collect(
        &mut self,
        timeout: Ns,
        monitor: &mut Monitor,
        full: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        while let Some(latency) = self.feed.pop() {
            if latency > timeout {
                self.late += 1;
            } else if let Some(record) = monitor.sample(latency) {
                full(&record)?;
            }
        }
        Ok(())
    }
}
