//! The sessions of a measurement: channels to responders, or pairs of threads of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::latency_box::channel::{Channel, Local};
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::latency_box::responder::{Served, Service, Serving};
use lathunt_host::latency_box::tally::Taps;
use lathunt_host::latency_box::trips::Trips;
use lathunt_host::latency_box::{self, Options, Session};
use lathunt_host::link::{self, Link};
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;
use lathunt_host::{sched, signals};

use super::record::Recording;
use super::session::Prepared;
use crate::cmd::latency_box::BoxArgs;

/// CPUs and priority of the box's threads.
pub struct Place {
    /// One CPU per channel, repeated if there are more channels.
    pub cpus: Vec<Cpu>,
    /// Real-time priority; 0: none.
    pub priority: i32,
}

/// A session, and the responder of a pair.
pub struct End {
    /// The box's side.
    pub session: Session,
    /// The other side, if it is in this process.
    pub serving: Option<Serving>,
}

/// CPUs of the box's threads.
///
/// # Errors
/// If one does not exist.
pub fn cpus(args: &BoxArgs) -> Result<CpuSet> {
    // A named CPU need not be in the inherited affinity: with isolcpus= a shell has only the other CPUs.
    if let Some(named) = &args.cpus {
        return Ok(Topology::read(std::path::Path::new(LIVE))?.select(Some(named))?);
    }
    let allowed = sched::affinity()?;
    Ok(if args.smp || args.matrix { allowed } else { allowed.iter().next_back().into_iter().collect() })
}

/// Opens all of them.
///
/// # Errors
/// If a responder is not there in time, or a device is absent or refused.
pub fn all(args: &BoxArgs, prepared: &Prepared, mut recording: Option<&mut Recording>) -> Result<Vec<End>> {
    let place = &prepared.place;
    if args.pair.is_empty() {
        let mut ends = Vec::new();
        for (at, channel) in args.channels.iter().enumerate() {
            let link = connect(channel, args.wait)?;
            let options =
                options(args, channel.to_string(), place.cpus[at % place.cpus.len()], place.priority);
            let trips = recording.as_mut().map(|recording| recording.channel(args.worst));
            let session = Session::start_tapped(link, options, Taps { feed: None, trips })?;
            ends.push(End { session, serving: None });
        }
        return Ok(ends);
    }
    let locals = args.locals().into_iter();
    let pairs: Vec<(Local, Cpu, Option<Cpu>)> = match args.smp {
        true => locals.flat_map(|local| place.cpus.iter().map(move |&cpu| (local, cpu, Some(cpu)))).collect(),
        false => locals.map(|local| (local, place.cpus[0], other(place.cpus[0]))).collect(),
    };
    let mut start = |(local, from, to): (Local, Cpu, Option<Cpu>)| {
        let name = match to {
            Some(to) if args.smp => format!("{local} CPU {from} to {to}"),
            _ => local.to_string(),
        };
        let trips = recording.as_mut().map(|recording| recording.channel(args.worst));
        pair(local, to, options(args, name, from, place.priority), trips)
    };
    pairs.into_iter().map(&mut start).collect()
}

/// A CPU other than `cpu`, if there is one.
#[must_use]
pub fn other(cpu: Cpu) -> Option<Cpu> {
    sched::affinity().ok().and_then(|allowed| allowed.iter().find(|&other| other != cpu))
}

/// A pair of threads of this process; the answering one runs on CPU `to`. `trips` receive each round trip.
///
/// # Errors
/// If the channel cannot be created or a CPU is refused.
pub fn pair(local: Local, to: Option<Cpu>, options: Options, trips: Option<Arc<Trips>>) -> Result<End> {
    let (mine, theirs) =
        link::local::pair(local).map_err(|error| anyhow!("cannot create the channel {local}: {error}"))?;
    let place = latency_box::Place { cpu: to, priority: options.place.priority };
    let service = Service { place, delay: None, seed: 0, relay: None };
    let serving = Serving::start(theirs, service, &Arc::new(Served::default()))?;
    let session = Session::start_tapped(mine, options, Taps { feed: None, trips })?;
    Ok(End { session, serving: Some(serving) })
}

/// Connects; retries while the other end is not there yet.
///
/// # Errors
/// If it is not there in time, or another error occurs.
pub fn connect(channel: &Channel, patience: Ns) -> Result<Link> {
    let until = Instant::now() + Duration::from_nanos(patience.0);
    loop {
        match link::connect(channel) {
            Ok(link) => return Ok(link),
            Err(error) if link::is_absent(&error) && signals::stop_requested().is_none() => {
                if Instant::now() > until {
                    return Err(anyhow!(
                        "{error}: no responder within {patience}; start `lathunt respond {channel}` there"
                    ));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Options of a session.
#[must_use]
pub fn options(args: &BoxArgs, name: String, cpu: Cpu, priority: i32) -> Options {
    Options {
        name,
        pattern: args.pattern,
        interval: args.interval,
        duration: args.duration,
        stimuli: None,
        timeout: args.timeout,
        patience: args.wait,
        late_above: args.deadline.unwrap_or(args.interval),
        break_at: args.break_at,
        ask: Ns::ZERO,
        warm: args.warm,
        place: latency_box::Place { cpu: Some(cpu), priority },
        worst: usize::from(args.worst),
    }
}
