//! Channels within one machine: one end creates the shared objects and hands them to the other as descriptors, in the same
//! process or in another one.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use lathunt_core::latency_box::channel::Local;
use lathunt_core::latency_box::reception::Reception;

use super::descriptor::{done, Descriptor};
use super::lock::{self, Lock};
use super::memory::{self, Memory};
use super::mqueue::{self, Queue};
use super::sysv::{self, SysvSet};
use super::wake::{self, Wake, Waker};
use super::{tty, Framing, Inlet, Link, Outlet, Side};

/// What one end needs.
pub struct Parts {
    /// In an order that both ends know.
    pub fds: Vec<OwnedFd>,
    /// System V semaphores have a number instead.
    pub number: i32,
    /// Whether this end removes the numbered object.
    pub owned: bool,
}

fn pipe() -> io::Result<[OwnedFd; 2]> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    done(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: just made, owned by nobody else.
    Ok(fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = done(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Master and slave, raw.
fn pty() -> io::Result<[OwnedFd; 2]> {
    let (mut master, mut slave) = (0, 0);
    let null = std::ptr::null_mut::<libc::c_char>();
    // SAFETY: room for two descriptors; name, mode and size are not asked for.
    done(unsafe {
        libc::openpty(&mut master, &mut slave, null, std::ptr::null_mut(), std::ptr::null_mut())
    })?;
    // SAFETY: just made, owned by nobody else.
    let pair = [master, slave].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    for fd in &pair {
        // SAFETY: no pointers.
        done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    tty::raw_mode(pair[1].as_raw_fd(), None)?;
    Ok(pair)
}

/// Creates a channel: the parts of the box's end and of the responder's.
///
/// # Errors
/// As the system call that refuses.
pub fn make(local: Local) -> io::Result<(Parts, Parts)> {
    let plain = |fds| Parts { fds, number: 0, owned: false };
    Ok(match local {
        Local::Pipe => {
            let ([stimuli_out, stimuli_in], [answers_out, answers_in]) = (pipe()?, pipe()?);
            (plain(vec![answers_out, stimuli_in]), plain(vec![stimuli_out, answers_in]))
        }
        Local::Pty => {
            let [master, slave] = pty()?;
            (plain(vec![slave]), plain(vec![master]))
        }
        Local::Mqueue => both(vec![mqueue::create()?, mqueue::create()?])?,
        Local::Eventfd => {
            let fds = vec![memory::create()?, eventfd()?, eventfd()?];
            both(fds)?
        }
        Local::SemaphoreSysv => {
            let id = sysv::create()?;
            let (mut one, mut other) = both(vec![memory::create()?])?;
            (one.number, other.number, other.owned) = (id, id, true);
            (one, other)
        }
        Local::Futex | Local::FutexPi | Local::Mutex | Local::Semaphore | Local::Signal | Local::Condvar => {
            let memory = memory::create()?;
            let mapped = memory::map(&memory)?;
            for mailbox in &mapped.directions {
                match local {
                    Local::FutexPi => lock::make(mailbox, lock::Kind::Futex)?,
                    Local::Mutex => lock::make(mailbox, lock::Kind::Mutex)?,
                    Local::Semaphore => wake::make(mailbox, &Wake::Semaphore)?,
                    Local::Condvar => wake::make(mailbox, &Wake::Condvar)?,
                    _ => {}
                }
            }
            both(vec![memory])?
        }
        _ => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    })
}

/// The same descriptors for both ends.
fn both(fds: Vec<OwnedFd>) -> io::Result<(Parts, Parts)> {
    let copies = fds.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
    Ok((Parts { fds, number: 0, owned: false }, Parts { fds: copies, number: 0, owned: false }))
}

/// Opens one end of a channel from its parts. `process`: that of the other end, for signals.
///
/// # Errors
/// If the parts are not those of such a channel.
pub fn open(local: Local, side: Side, parts: Parts, process: i32) -> io::Result<Link> {
    let Parts { fds, number, owned } = parts;
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO));
    let (sends, receives) = (side.sends(), side.receives());
    let (outlet, inlet): (Box<dyn Outlet>, Box<dyn Inlet>) = match local {
        Local::Pipe => {
            let (input, output) = (next()?, next()?);
            (Box::new(Descriptor::file(output)), Box::new(Descriptor::file(input)))
        }
        Local::Pty => {
            let descriptor = Descriptor::file(next()?);
            (Box::new(descriptor.clone()), Box::new(descriptor))
        }
        Local::Mqueue => {
            let mut queues = [Some(Queue(next()?)), Some(Queue(next()?))];
            let mut take =
                |at: usize| queues[at].take().ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO));
            (Box::new(take(sends)?), Box::new(take(receives)?))
        }
        Local::FutexPi | Local::Mutex => {
            let kind = if local == Local::Mutex { lock::Kind::Mutex } else { lock::Kind::Futex };
            let memory = memory::map(&next()?)?;
            (Box::new(Lock::new(&memory, sends, kind)), Box::new(Lock::new(&memory, receives, kind)))
        }
        _ => {
            let memory = memory::map(&next()?)?;
            let mut wake: Box<dyn FnMut(usize) -> Wake> = match local {
                Local::Eventfd => {
                    let events = [Arc::new(next()?), Arc::new(next()?)];
                    Box::new(move |at| Wake::Eventfd(Arc::clone(&events[at])))
                }
                Local::Futex => Box::new(|_| Wake::Futex),
                Local::Semaphore => Box::new(|_| Wake::Semaphore),
                Local::SemaphoreSysv => {
                    let set = Arc::new(SysvSet { id: number, owned });
                    Box::new(move |_| Wake::Sysv(Arc::clone(&set)))
                }
                Local::Signal => Box::new(move |_| Wake::Signal(process)),
                _ => Box::new(|_| Wake::Condvar),
            };
            (Box::new(waker(&memory, sends, wake(sends))), Box::new(waker(&memory, receives, wake(receives))))
        }
    };
    let framing = match local {
        Local::Pipe | Local::Pty => Framing::Stream,
        _ => Framing::Datagrams,
    };
    Ok(Link {
        outlet,
        inlet,
        framing,
        queues: local.queues(),
        reception: Reception::Blocking,
        lifeline: None,
        facts: Vec::new(),
    })
}

fn waker(memory: &Arc<Memory>, direction: usize, wake: Wake) -> Waker {
    Waker { memory: Arc::clone(memory), direction, wake, seen: 0 }
}

/// Both ends of a channel in this process.
///
/// # Errors
/// As [`make`] and [`open`].
pub fn pair(local: Local) -> io::Result<(Link, Link)> {
    let (one, other) = make(local)?;
    let me = std::process::id() as i32;
    Ok((open(local, Side::Box, one, me)?, open(local, Side::Responder, other, me)?))
}
