//! Does another lathunt measure on the same CPUs at the same time? Two measurements disturb each other: each finds the
//! other's threads as the cause of its worst cases.
//!
//! Each measurement binds a datagram socket with an abstract name that contains its process, start and CPUs. One that
//! starts later finds the names of the others in `/proc/net/unix` and sends them its own, so that both know, without
//! scanning the process table while they measure. A killed process leaves no file behind. Any user may bind such a name:
//! the only effect is a doubt. Measurements in another network namespace are not seen.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use lathunt_core::conditions::Neighbour;
use lathunt_core::cpuset::CpuSet;

use crate::wall;

const PREFIX: &str = "lathunt/measures/";
/// Length of an abstract name (`sun_path` without its first byte).
const NAME: usize = 107;
/// Maximum number of neighbours to notify and keep: any user can bind a million of such names.
const MOST: usize = 64;

/// A measurement that others can find while this lives.
#[derive(Debug)]
pub struct Presence {
    socket: Option<UnixDatagram>,
    cpus: CpuSet,
    before: Vec<Neighbour>,
}

impl Presence {
    /// Announces a measurement on `cpus`. If the kernel refuses a socket, neighbours that start later are not noticed.
    #[must_use]
    pub fn announce(cpus: &CpuSet) -> Presence {
        let own = name_of(std::process::id(), &wall::now_rfc3339().unwrap_or_default(), cpus);
        let socket = SocketAddr::from_abstract_name(&own)
            .and_then(|address| UnixDatagram::bind_addr(&address))
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .ok();
        // Names of other programs may not be text.
        let names = fs::read("/proc/net/unix").unwrap_or_default();
        let names = String::from_utf8_lossy(&names);
        let (mut before, mut told) = (Vec::new(), Vec::new());
        for (name, neighbour) in named(&names).filter(|(name, _)| *name != own) {
            let meets = neighbour.cpus.parse::<CpuSet>().is_ok_and(|theirs| theirs.meets(cpus));
            if told.len() == MOST {
                break;
            }
            if meets && neighbour.process != std::process::id() && !told.contains(&name) {
                before.push(neighbour);
                told.push(name);
            }
        }
        for (socket, name) in socket.iter().flat_map(|socket| told.iter().map(move |name| (socket, name))) {
            // A closed socket's measurement has ended.
            let _ = SocketAddr::from_abstract_name(name)
                .and_then(|address| socket.send_to_addr(own.as_bytes(), &address));
        }
        Presence { socket, cpus: cpus.clone(), before }
    }

    /// Measurements that were running on one of its CPUs already, and those started since.
    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let mut all = self.before.clone();
        let mut bytes = [0; NAME];
        while let (true, Some(Ok(length))) =
            (all.len() < MOST, self.socket.as_ref().map(|socket| socket.recv(&mut bytes)))
        {
            let Some(one) = std::str::from_utf8(&bytes[..length]).ok().and_then(parse) else { continue };
            let meets = one.cpus.parse::<CpuSet>().is_ok_and(|theirs| theirs.meets(&self.cpus));
            if meets && !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }
}

/// A long list of CPUs becomes the range around it: no overlap is missed.
fn name_of(process: u32, since: &str, cpus: &CpuSet) -> String {
    let whole = format!("{PREFIX}{process}/{since}/{cpus}");
    match (whole.len() > NAME, cpus.iter().next(), cpus.iter().next_back()) {
        (true, Some(first), Some(last)) => format!("{PREFIX}{process}/{since}/{first}-{last}"),
        _ => whole,
    }
}

/// Measurements in the text of `/proc/net/unix`, with the names of their sockets.
fn named(text: &str) -> impl Iterator<Item = (&str, Neighbour)> {
    text.lines().filter_map(|line| {
        let name = line.split_ascii_whitespace().nth(7)?.strip_prefix('@')?;
        Some((name, parse(name)?))
    })
}

/// Only digits and the separators of a time reach the result.
fn parse(name: &str) -> Option<Neighbour> {
    let mut parts = name.strip_prefix(PREFIX)?.split('/');
    let (process, since, cpus) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let is_time = since.chars().all(|c| c.is_ascii_digit() || "-:+TZ".contains(c));
    let cpus: CpuSet = cpus.parse().ok()?;
    (is_time && parts.next().is_none()).then(|| Neighbour {
        process,
        since: since.to_owned(),
        cpus: cpus.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00000000 0002 01 11 @lathunt/measures/77/2026-11-21T21:40:05+01:00/0-1,4
0000000000000000: 00000002 00000000 00000000 0002 01 12 @lathunt/measures/78/\x1b[2J/0
0000000000000000: 00000002 00000000 00000000 0002 01 13 /run/lathunt/measures/79/2026/0
0000000000000000: 00000003 00000000 00000000 0001 03 14
";

    #[test]
    fn a_name_says_who_measures_where_since_when_and_no_other_text_passes() {
        let found: Vec<_> = named(TABLE).map(|(_, one)| one).collect();
        let one = Neighbour { process: 77, since: "2026-11-21T21:40:05+01:00".into(), cpus: "0-1,4".into() };
        assert_eq!(found, [one]);
        let scattered: CpuSet = (0..90).map(|at| lathunt_core::time::Cpu(2 * at)).collect();
        let name = name_of(4_194_304, "2026-11-21T21:40:05+01:00", &scattered);
        assert!(name.len() <= NAME && parse(&name).unwrap().cpus == "0-178", "{name}");
    }

    #[test]
    fn only_a_measurement_on_the_same_cpus_is_a_neighbour() {
        // In this process: its own names are skipped, so a message plays the second process.
        let here: CpuSet = "4000-4001".parse().unwrap();
        let first = Presence::announce(&here);
        let sender = UnixDatagram::unbound().unwrap();
        let name = String::from_utf8_lossy(&fs::read("/proc/net/unix").unwrap()).into_owned();
        let own = format!("{PREFIX}{}/", std::process::id());
        let own = name.split('@').find(|name| name.starts_with(&own) && name.contains("4000-4001")).unwrap();
        let address = SocketAddr::from_abstract_name(own.lines().next().unwrap()).unwrap();
        // A name that is not text hides no other, and many of them take no longer than a few.
        let strange =
            SocketAddr::from_abstract_name(b"\xff\xfe not text").and_then(|it| UnixDatagram::bind_addr(&it));
        let crowd: Vec<UnixDatagram> = (0..300)
            .map(|n| SocketAddr::from_abstract_name(format!("{PREFIX}{}/2026/4100", 4_000_000 + n)).unwrap())
            .map(|address| UnixDatagram::bind_addr(&address).unwrap())
            .collect();
        let among = Presence::announce(&"4100".parse().unwrap());
        assert_eq!((among.neighbours().len(), strange.is_ok()), (MOST, true));
        drop((crowd, among));
        for cpus in ["4001", "3999"] {
            sender.send_to_addr(format!("{PREFIX}5/2026/{cpus}").as_bytes(), &address).unwrap();
        }
        let found = first.neighbours();
        assert_eq!(found, [Neighbour { process: 5, since: "2026".into(), cpus: "4001".into() }]);
    }
}
