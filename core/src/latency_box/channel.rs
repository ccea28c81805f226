//! Channel names, identical at both ends.

use std::fmt;
use std::str::FromStr;

/// A channel between a box and its responder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Channel {
    /// UDP; the responder binds the address, the box sends to it.
    Udp(String),
    /// TCP with TCP_NODELAY; the responder listens.
    Tcp(String),
    /// A stream socket in the file system; the responder listens.
    Unix(String),
    /// AF_VSOCK: context id and port; the responder listens.
    Vsock(u32, u32),
    /// A serial line, with its rate.
    Tty(String, u32),
    /// A port of virtio-serial: the device in the guest; on the host use `unix:`.
    Virtio(String),
    /// Ethernet frames of this interface.
    Ether(String),
    /// A GPIO chip with an output line and an input line.
    Gpio(String, Line, Line),
    /// Between two threads or processes of one machine.
    Local(Local),
}

/// A GPIO line of a chip: `17` or `17=rising`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its offset on the chip.
    pub offset: u32,
    /// Its edges that count: rising ones of a line that idles low, instead of falling ones of a line that idles high.
    pub rising: bool,
}

impl Line {
    /// Name of its edges.
    #[must_use]
    pub fn edge(self) -> &'static str {
        if self.rising {
            "rising"
        } else {
            "falling"
        }
    }

    fn parse(text: &str) -> Option<Line> {
        let (offset, edge) = text.split_once('=').unwrap_or((text, "falling"));
        let rising = ["falling", "rising"].iter().position(|name| *name == edge)? == 1;
        Some(Line { offset: offset.parse().ok()?, rising })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.offset, if self.rising { "=rising" } else { "" })
    }
}

/// Wake-up mechanisms on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Local {
    /// A pipe each way.
    Pipe,
    /// A pseudo-terminal in raw mode.
    Pty,
    /// A POSIX message queue each way.
    Mqueue,
    /// An eventfd each way, the message in shared memory (as with all below).
    Eventfd,
    /// A futex each way.
    Futex,
    /// A futex with priority inheritance: the owner unlocks it.
    FutexPi,
    /// A process-shared mutex with priority inheritance: its owner unlocks it.
    Mutex,
    /// A POSIX semaphore each way.
    Semaphore,
    /// A System V semaphore each way.
    SemaphoreSysv,
    /// A real-time signal each way.
    Signal,
    /// A condition variable each way.
    Condvar,
}

impl Local {
    /// All of them.
    pub const ALL: [Local; 11] = [
        Local::Pipe,
        Local::Pty,
        Local::Mqueue,
        Local::Eventfd,
        Local::Futex,
        Local::FutexPi,
        Local::Mutex,
        Local::Semaphore,
        Local::SemaphoreSysv,
        Local::Signal,
        Local::Condvar,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Local::Pipe => "pipe",
            Local::Pty => "pty",
            Local::Mqueue => "mqueue",
            Local::Eventfd => "eventfd",
            Local::Futex => "futex",
            Local::FutexPi => "futex-pi",
            Local::Mutex => "mutex",
            Local::Semaphore => "semaphore",
            Local::SemaphoreSysv => "semaphore:sysv",
            Local::Signal => "signal",
            Local::Condvar => "condvar",
        }
    }

    /// Whether several stimuli can be in flight. If not, a stimulus due before the answer to the last one is skipped
    /// and counted as missed.
    #[must_use]
    pub fn queues(self) -> bool {
        matches!(self, Local::Pipe | Local::Pty | Local::Mqueue)
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Baud rates with a constant in Linux.
pub const RATES: [u32; 18] = [
    1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600,
    1_000_000, 1_500_000, 2_000_000, 3_000_000, 4_000_000,
];

/// Why a text is not a channel.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a channel: {why}")]
pub struct NotAChannel {
    text: String,
    why: String,
}

const KINDS: &str = "udp:HOST:PORT, tcp:HOST:PORT, unix:PATH, vsock:CID:PORT, tty:DEVICE@RATE, virtio:DEVICE, ether:INTERFACE, \
     gpio:CHIP:OUT,IN, or on this machine pipe, pty, mqueue, eventfd, futex, futex-pi, mutex, semaphore, semaphore:sysv, \
     signal, condvar";

impl FromStr for Channel {
    type Err = NotAChannel;

    fn from_str(text: &str) -> Result<Channel, NotAChannel> {
        let bad = |why: &str| NotAChannel { text: text.to_owned(), why: why.to_owned() };
        let name = if text == "sysv" { "semaphore:sysv" } else { text };
        let name = if name == "semaphore:posix" { "semaphore" } else { name };
        if let Some(local) = Local::ALL.into_iter().find(|local| local.name() == name) {
            return Ok(Channel::Local(local));
        }
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad(&format!("there are {KINDS}")))?;
        match kind {
            "udp" => address(rest).map(Channel::Udp).ok_or_else(|| bad("write udp:HOST:PORT")),
            "tcp" => address(rest).map(Channel::Tcp).ok_or_else(|| bad("write tcp:HOST:PORT")),
            "unix" if path(rest) => Ok(Channel::Unix(rest.to_owned())),
            "unix" => Err(bad("write unix:PATH")),
            "virtio" if path(rest) => Ok(Channel::Virtio(rest.to_owned())),
            "virtio" => Err(bad("write virtio:/dev/virtio-ports/NAME")),
            "vsock" => {
                let numbers =
                    rest.split_once(':').and_then(|(cid, port)| cid.parse().ok().zip(port.parse().ok()));
                numbers
                    .map(|(cid, port)| Channel::Vsock(cid, port))
                    .ok_or_else(|| bad("write vsock:CID:PORT"))
            }
            "ether" if (1..=15).contains(&rest.len()) && !rest.contains(['/', '\0', ' ']) => {
                Ok(Channel::Ether(rest.to_owned()))
            }
            "ether" => Err(bad("write ether:INTERFACE, for example ether:eth0")),
            "tty" => tty(rest).map_err(|why| bad(&why)),
            "gpio" => gpio(rest).ok_or_else(|| {
                bad("write gpio:/dev/gpiochip0:OUT,IN with two different lines, each NUMBER or NUMBER=rising")
            }),
            _ => Err(bad(&format!("there are {KINDS}"))),
        }
    }
}

fn path(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

/// `HOST:PORT`, `[::1]:PORT`, or a port alone (loopback).
fn address(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    port.parse::<u16>().ok()?;
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Some(format!("{host}:{port}"))
}

fn tty(text: &str) -> Result<Channel, String> {
    let (device, rate) = text.rsplit_once('@').unwrap_or((text, "115200"));
    if !path(device) {
        return Err("write tty:DEVICE@RATE, for example tty:/dev/ttyS0@115200".to_owned());
    }
    match rate.parse() {
        Ok(rate) if RATES.contains(&rate) => Ok(Channel::Tty(device.to_owned(), rate)),
        _ => {
            let rates: Vec<String> = RATES.iter().map(u32::to_string).collect();
            Err(format!("'{rate}' is not a rate of Linux: {}", rates.join(", ")))
        }
    }
}

fn gpio(text: &str) -> Option<Channel> {
    let (chip, lines) = text.rsplit_once(':')?;
    let (out, input) = lines.split_once(',')?;
    let (out, input) = (Line::parse(out)?, Line::parse(input)?);
    (path(chip) && out.offset != input.offset).then(|| Channel::Gpio(chip.to_owned(), out, input))
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Channel::Udp(address) => write!(f, "udp:{address}"),
            Channel::Tcp(address) => write!(f, "tcp:{address}"),
            Channel::Unix(path) => write!(f, "unix:{path}"),
            Channel::Vsock(cid, port) => write!(f, "vsock:{cid}:{port}"),
            Channel::Tty(device, rate) => write!(f, "tty:{device}@{rate}"),
            Channel::Virtio(device) => write!(f, "virtio:{device}"),
            Channel::Ether(interface) => write!(f, "ether:{interface}"),
            Channel::Gpio(chip, out, input) => write!(f, "gpio:{chip}:{out},{input}"),
            Channel::Local(local) => local.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_back() {
        for text in [
            "udp:127.0.0.1:7777",
            "udp:[::1]:7",
            "tcp:box.example:7777",
            "unix:/run/x.sock",
            "vsock:2:7777",
            "tty:/dev/ttyS0@115200",
            "virtio:/dev/virtio-ports/lathunt",
            "ether:eth0",
            "gpio:/dev/gpiochip0:17,27",
            "gpio:/dev/gpiochip0:17=rising,27",
            "gpio:/dev/gpiochip0:17,27=rising",
            "semaphore:sysv",
            "futex-pi",
        ] {
            assert_eq!(text.parse::<Channel>().unwrap().to_string(), text);
        }
        assert_eq!("udp:7777".parse(), Ok(Channel::Udp("127.0.0.1:7777".to_owned())));
        assert_eq!("tty:/dev/ttyUSB0".parse(), Ok(Channel::Tty("/dev/ttyUSB0".to_owned(), 115_200)));
        for local in Local::ALL {
            assert_eq!(local.name().parse(), Ok(Channel::Local(local)));
        }
    }

    #[test]
    fn what_is_no_channel_is_told_how_to_write_one() {
        for (text, says) in [
            ("", "udp:HOST:PORT"),
            ("tape", "eventfd"),
            ("udp:host", "udp:HOST:PORT"),
            ("udp:1.2.3.4:99999", "udp:HOST:PORT"),
            ("tty:/dev/ttyS0@115201", "not a rate"),
            ("tty:@9600", "tty:DEVICE@RATE"),
            ("gpio:/dev/gpiochip0:5,5", "two different lines"),
            ("gpio:/dev/gpiochip0:5,5=rising", "two different lines"),
            ("gpio:/dev/gpiochip0:5=both,6", "NUMBER=rising"),
            ("vsock:x:1", "vsock:CID:PORT"),
            ("ether:", "ether:INTERFACE"),
        ] {
            let error = text.parse::<Channel>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
