//! Ways to receive other than a blocking read: one file each. They wrap an [`super::Inlet`] that has a descriptor.

mod busy_poll;
mod epoll;
mod io_uring;
mod mapping;
mod sigio;
mod xdp;

use std::os::fd::RawFd;

use lathunt_core::latency_box::reception::Reception;

use super::{Framing, Link};
use crate::error::{Error, Result};

/// Whether the file behind a descriptor supports signals and io_uring reads: sockets, pipes, terminals and other devices, but
/// not message queues and eventfds.
fn is_stream_or_socket(fd: RawFd) -> bool {
    // SAFETY: stat is plain integers, for which zeros are valid; `stat` is valid to write.
    let mode = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut stat) != 0 {
            return false;
        }
        stat.st_mode & libc::S_IFMT
    };
    [libc::S_IFSOCK, libc::S_IFIFO, libc::S_IFCHR].contains(&mode)
}

/// Makes the link receive in this way, unless it does already.
///
/// # Errors
/// If the channel cannot be waited for in this way, or the kernel refuses it.
pub fn with(reception: Reception, mut link: Link) -> Result<Link> {
    if link.reception == reception {
        return Ok(link);
    }
    let refused = |hint: &str| Error::refused("receive", format!("by {reception} on this channel"), hint);
    let Some(fd) = link.inlet.descriptor() else {
        return Err(refused(
            "it has no descriptor to wait for: use blocking, or a socket, pipe or serial line",
        ));
    };
    let failed = |error| Error::new("receive", format!("by {reception}"), error);
    let needs_file = matches!(reception, Reception::Sigio | Reception::IoUring);
    if needs_file && !is_stream_or_socket(fd) {
        return Err(refused("only sockets, pipes and devices can: use epoll"));
    }
    link.inlet = match reception {
        Reception::Sigio => Box::new(sigio::Sigio::new(link.inlet, fd)),
        Reception::Epoll => Box::new(epoll::Epoll::new(link.inlet, fd).map_err(failed)?),
        Reception::BusyPoll => Box::new(busy_poll::BusyPoll::new(link.inlet, fd)),
        Reception::IoUring => {
            let datagrams = link.framing == Framing::Datagrams;
            let ring = io_uring::IoUring::new(link.inlet, fd, datagrams).map_err(|error| {
                failed(error).hint("the kernel may have no io_uring, or kernel.io_uring_disabled forbids it")
            })?;
            Box::new(ring)
        }
        Reception::Xdp => {
            link.facts.push("received through AF_XDP sockets in copy mode".to_owned());
            Box::new(xdp::Xdp::new(link.inlet, fd)?)
        }
        _ => return Err(refused("a channel that receives in another way cannot switch back")),
    };
    link.reception = reception;
    Ok(link)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;

    use lathunt_core::latency_box::channel::Local;
    use lathunt_core::latency_box::message::{Kind, Message, SIZE};

    use super::super::local;
    use super::*;
    use crate::latency_box::thread::{Place, Worker};

    /// Echoes what it receives, in a thread that has the signals blocked as a responder has.
    fn echo(link: Link, stop: &Arc<AtomicBool>) -> Worker<()> {
        let stop = Arc::clone(stop);
        let mut link = link;
        link.inlet.adopt().unwrap();
        let work = move || {
            let mut buffer = [0; 4 * SIZE];
            while !stop.load(Ordering::Relaxed) {
                if let Ok(n) = link.inlet.receive(&mut buffer) {
                    let message: [u8; SIZE] = buffer[..SIZE].try_into().unwrap();
                    assert_eq!(n, SIZE);
                    link.outlet.send(&message).unwrap();
                }
            }
        };
        Worker::start("echo", Place { cpu: None, priority: 0 }, work).unwrap()
    }

    #[test]
    fn each_way_hands_on_every_message_and_can_be_ended() {
        for channel in [Local::Pipe, Local::Pty, Local::Mqueue] {
            for reception in Reception::ALL {
                let (mut mine, theirs) = local::pair(channel).unwrap();
                let theirs = match with(reception, theirs) {
                    Ok(theirs) => theirs,
                    Err(error) => {
                        let not_there = channel == Local::Mqueue
                            && matches!(reception, Reception::Sigio | Reception::IoUring);
                        let not_udp = reception == Reception::Xdp;
                        let forbidden = reception == Reception::IoUring
                            && matches!(error.errno(), Some(libc::ENOSYS | libc::EPERM));
                        assert!(not_there || not_udp || forbidden, "{channel} {reception}: {error}");
                        continue;
                    }
                };
                let stop = Arc::new(AtomicBool::new(false));
                let mut worker = echo(theirs, &stop);
                let mut buffer = [0; 4 * SIZE];
                for sequence in 1..200 {
                    let message = Message::new(Kind::Stimulus, 5, sequence).encode();
                    mine.outlet.send(&message).unwrap();
                    if sequence % 50 == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(3));
                    }
                    let mut got = 0;
                    while got < SIZE {
                        got += mine.inlet.receive(&mut buffer[got..SIZE]).unwrap();
                    }
                    assert_eq!(buffer[..SIZE], message, "{channel} {reception}");
                }
                stop.store(true, Ordering::Relaxed);
                let ended = worker.end(std::time::Duration::from_secs(5));
                assert!(ended.is_some(), "{channel} {reception} does not end");
            }
        }
    }

    #[test]
    fn a_channel_without_a_descriptor_says_so() {
        let (_mine, theirs) = local::pair(Local::Futex).unwrap();
        let error = with(Reception::Epoll, theirs).err().unwrap().to_string();
        assert!(error.contains("no descriptor"), "{error}");
        let (_mine, theirs) = local::pair(Local::Pipe).unwrap();
        let error = with(Reception::Xdp, theirs).err().unwrap().to_string();
        assert!(error.contains("xdp needs udp:HOST:PORT"), "{error}");
    }
}
