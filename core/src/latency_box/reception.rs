//! Ways to wait for data on a file descriptor.

use std::fmt;
use std::str::FromStr;

/// How the responder receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reception {
    /// A read that blocks.
    #[default]
    Blocking,
    /// A signal on readiness (F_SETSIG, O_ASYNC), then a read.
    Sigio,
    /// epoll_wait, then a read, as programs with many descriptors do.
    Epoll,
    /// Non-blocking reads in a loop.
    BusyPoll,
    /// A read or recv of io_uring, one system call per message.
    IoUring,
    /// AF_XDP sockets: UDP datagrams before the kernel's network stack sees them.
    Xdp,
}

impl Reception {
    /// All of them, blocking first.
    pub const ALL: [Reception; 6] = [
        Reception::Blocking,
        Reception::Sigio,
        Reception::Epoll,
        Reception::BusyPoll,
        Reception::IoUring,
        Reception::Xdp,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reception::Blocking => "blocking",
            Reception::Sigio => "sigio",
            Reception::Epoll => "epoll",
            Reception::BusyPoll => "busy-poll",
            Reception::IoUring => "io-uring",
            Reception::Xdp => "xdp",
        }
    }
}

impl fmt::Display for Reception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not one of them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a way to receive: blocking, sigio, epoll, busy-poll, io-uring or xdp")]
pub struct NotAReception(String);

impl FromStr for Reception {
    type Err = NotAReception;

    fn from_str(text: &str) -> Result<Reception, NotAReception> {
        let found = Reception::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| NotAReception(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for one in Reception::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        assert!("poll".parse::<Reception>().unwrap_err().to_string().contains("busy-poll"));
    }
}
