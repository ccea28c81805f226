//! Calls that block: one thread waits, the others run; priorities are kept; nothing is lost.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use lathunt_runtime::policy::{Params, Release};
use lathunt_runtime::{
    io, lock_scheduler, next_job, now, run, sleep, Builder, Config, FiberAlloc, Preemption,
};

#[global_allocator]
static ALLOCATOR: FiberAlloc = FiberAlloc;

const MS: u64 = 1_000_000;

fn config() -> Config {
    Config { preemption: Preemption::Timer, ..Config::default() }
}

fn receive(socket: &UdpSocket, buffer: &mut [u8], until: Option<u64>) -> io::Answer {
    let (none, size) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the buffer is valid.
    unsafe { io::recv_from(socket.as_raw_fd(), buffer.as_mut_ptr(), buffer.len(), 0, none, size, until) }
}

fn send(socket: &UdpSocket, bytes: &[u8]) -> io::Answer {
    // SAFETY: the buffer is valid; the socket is connected.
    unsafe { io::send_to(socket.as_raw_fd(), bytes.as_ptr(), bytes.len(), 0, std::ptr::null(), 0, None) }
}

fn pair() -> (UdpSocket, UdpSocket) {
    let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

#[test]
fn a_receiver_waits_while_others_run_and_a_time_limit_holds() {
    run(&config(), || {
        let (ours, theirs) = pair();
        let beats = Rc::new(Cell::new(0));
        let count = beats.clone();
        let params = Params { priority: 9, release: Release::Periodic { period: MS }, ..Params::default() };
        let ticker = Builder::new("ticker").params(params).spawn(move || loop {
            count.set(count.get() + 1);
            if next_job().is_err() {
                break;
            }
        });
        let mut buffer = [0; 64];
        let begin = now();
        assert_eq!(receive(&ours, &mut buffer, Some(begin + 30 * MS)), Err(libc::ETIMEDOUT));
        assert!(now() >= begin + 30 * MS);
        assert!(beats.get() >= 20, "the control loop ran on: {} beats", beats.get());
        let echo = Builder::new("echo").priority(5).spawn(move || {
            let mut buffer = [0; 64];
            for _ in 0..100 {
                let length = receive(&theirs, &mut buffer, None).unwrap();
                send(&theirs, &buffer[..length]).unwrap();
            }
        });
        for round in 0..100u8 {
            send(&ours, &[round; 9]).unwrap();
            assert_eq!(receive(&ours, &mut buffer, Some(now() + 5000 * MS)), Ok(9));
            assert_eq!(buffer[8], round);
        }
        echo.unwrap().join().unwrap().unwrap();
        drop(ticker);
    })
    .unwrap();
}

#[test]
fn data_that_arrives_interrupts_a_less_urgent_thread_that_only_computes() {
    run(&Config { main_priority: 1, ..config() }, || {
        let (ours, theirs) = pair();
        let came = Rc::new(Cell::new(0));
        let seen = came.clone();
        let reader = Builder::new("reader").priority(40).spawn(move || {
            let mut buffer = [0; 8];
            receive(&ours, &mut buffer, None).unwrap();
            seen.set(now());
        });
        let sender = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            theirs.send(b"now").unwrap();
        });
        // No call, no timer: only the watcher can interrupt us.
        let begin = now();
        while came.get() == 0 && now() < begin + 2000 * MS {
            std::hint::spin_loop();
        }
        assert!(came.get() > 0);
        sender.join().unwrap();
        reader.unwrap().join().unwrap().unwrap();
    })
    .unwrap();
}

#[test]
fn the_most_urgent_reader_is_served_first() {
    run(&config(), || {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut senders = Vec::new();
        let readers: Vec<_> = [4u8, 30, 17]
            .map(|priority| {
                let (ours, theirs) = pair();
                senders.push(theirs);
                let order = order.clone();
                let body = move || {
                    receive(&ours, &mut [0; 4], None).unwrap();
                    order.borrow_mut().push(priority);
                };
                Builder::new("reader").priority(priority).spawn(body).unwrap()
            })
            .into();
        // All at once, unobserved.
        let held = lock_scheduler();
        for sender in &senders {
            sender.send(b"x").unwrap();
        }
        drop(held);
        for reader in readers {
            reader.join().unwrap().unwrap();
        }
        assert_eq!(*order.borrow(), [30, 17, 4]);
    })
    .unwrap();
}

#[test]
fn pipes_files_and_connections() {
    run(&config(), || {
        // A pipe: larger than its buffer, so both sides wait.
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let writer = Builder::new("writer").priority(3).spawn(move || {
            let bytes = vec![7u8; 300_000];
            let mut sent = 0;
            while sent < bytes.len() {
                // SAFETY: within the buffer.
                sent += unsafe { io::write(ends[1], bytes[sent..].as_ptr(), bytes.len() - sent) }.unwrap();
            }
            // SAFETY: ours.
            unsafe { libc::close(ends[1]) };
        });
        let mut received = 0;
        loop {
            let mut buffer = [0u8; 10_000];
            // SAFETY: the buffer is valid.
            match unsafe { io::read(ends[0], buffer.as_mut_ptr(), buffer.len()) }.unwrap() {
                0 => break,
                length => {
                    assert!(buffer[..length].iter().all(|&byte| byte == 7));
                    received += length;
                }
            }
        }
        assert_eq!(received, 300_000);
        writer.unwrap().join().unwrap().unwrap();

        // A file.
        let path = std::env::temp_dir().join(format!("lathunt-runtime-{}", std::process::id()));
        let mut file =
            std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        // SAFETY: the buffers are valid.
        assert_eq!(unsafe { io::write(file.as_raw_fd(), b"kept".as_ptr(), 4) }, Ok(4));
        let fd = file.as_raw_fd();
        // SAFETY: no memory is passed.
        assert_eq!(io::in_pool(move || unsafe { libc::fsync(fd) } as isize), Ok(0));
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "kept");
        std::fs::remove_file(&path).unwrap();

        // A connection.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Builder::new("server").priority(3).spawn(move || {
            let none = std::ptr::null_mut();
            // SAFETY: no address is asked for.
            let fd =
                unsafe { io::accept(listener.as_raw_fd(), none, std::ptr::null_mut(), 0, None) }.unwrap();
            // SAFETY: valid.
            assert_eq!(unsafe { io::write(fd as i32, b"hello".as_ptr(), 5) }, Ok(5));
            // SAFETY: ours.
            unsafe { libc::close(fd as i32) };
        });
        sleep(2 * MS).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut buffer = [0; 5];
        // SAFETY: the buffer is valid.
        assert_eq!(unsafe { io::read(stream.as_raw_fd(), buffer.as_mut_ptr(), 5) }, Ok(5));
        assert_eq!(&buffer, b"hello");
        let _ = stream.write(b"x");
        server.unwrap().join().unwrap().unwrap();

        // A connection that is refused, with the errno of the call.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let name = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: free.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        // SAFETY: a valid address.
        unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
            let answer = io::connect(fd, (&raw const name).cast(), size_of_val(&name) as u32, None);
            assert_eq!(answer, Err(libc::ECONNREFUSED));
            libc::close(fd);
        }
    })
    .unwrap();
}

/// More than a pipe or a socket holds: as without the runtime, one call transfers everything.
#[test]
fn a_long_write_and_a_receive_of_everything_are_one_call() {
    let long: Vec<u8> = (0..1_000_000u32).map(|index| (index * 7 % 251) as u8).collect();
    run(&config(), move || {
        let mut pipe = [0; 2];
        // SAFETY: two valid places.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (out, sent) = (pipe[1], long.clone());
        let socket = ours.as_raw_fd();
        let writer = Builder::new("writer").spawn(move || {
            let none = std::ptr::null();
            // SAFETY: valid bytes.
            let (written, sent) = unsafe {
                let written = io::write(out, sent.as_ptr(), sent.len());
                (written, io::send_to(socket, sent.as_ptr(), sent.len(), 0, none, 0, None))
            };
            // SAFETY: ours.
            unsafe { libc::close(out) };
            (written, sent)
        });
        let mut read = Vec::new();
        let mut part = [0u8; 5000];
        while read.len() < long.len() {
            // SAFETY: the buffer is valid.
            let more = unsafe { io::read(pipe[0], part.as_mut_ptr(), part.len()) }.unwrap();
            assert!(more > 0, "closed after {} bytes", read.len());
            read.extend_from_slice(&part[..more]);
        }
        assert!(read == long);
        let mut received = vec![0; long.len()];
        let (fd, flags, none) = (theirs.as_raw_fd(), libc::MSG_WAITALL, std::ptr::null_mut());
        // SAFETY: the buffer is valid.
        let count = unsafe {
            io::recv_from(fd, received.as_mut_ptr(), received.len(), flags, none, std::ptr::null_mut(), None)
        };
        assert_eq!(count, Ok(long.len()));
        assert!(received == long);
        assert_eq!(writer.unwrap().join().unwrap().unwrap(), (Ok(long.len()), Ok(long.len())));
        // What was sent before the time limit counts.
        // SAFETY: valid bytes.
        let part = unsafe {
            io::send_to(socket, long.as_ptr(), long.len(), 0, std::ptr::null(), 0, Some(now() + 5 * MS))
        };
        assert!(part.is_ok_and(|sent| sent > 0 && sent < long.len()), "{part:?}");
        // A datagram is whole, however long the buffer.
        let (a, b) = pair();
        send(&a, b"short").unwrap();
        let mut buffer = [0; 64];
        let (fd, none) = (b.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: the buffer is valid.
        let count = unsafe {
            io::recv_from(fd, buffer.as_mut_ptr(), 64, libc::MSG_WAITALL, none, std::ptr::null_mut(), None)
        };
        assert_eq!(count, Ok(5));
    })
    .unwrap();
}

#[test]
fn calls_in_the_pool_do_not_stop_the_others() {
    run(&config(), || {
        let begin = now();
        let sleepers: Vec<_> = (0..4)
            .map(|_| {
                let body = || {
                    io::in_pool(|| {
                        std::thread::sleep(std::time::Duration::from_millis(300));
                        7
                    })
                };
                Builder::new("blocks").priority(5).spawn(body).unwrap()
            })
            .collect();
        sleep(10 * MS).unwrap();
        assert!(now() < begin + 300 * MS, "nobody waited for them");
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap().unwrap(), Ok(7));
        }
        assert!(now() < begin + 1000 * MS, "at the same time, not one after the other");
    })
    .unwrap();
}

#[test]
fn poll_waits_for_any_of_many() {
    run(&config(), || {
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        let mut entries: Vec<_> = pairs
            .iter()
            .map(|(ours, _)| libc::pollfd { fd: ours.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        assert_eq!(io::poll(&mut entries, Some(now() + 2 * MS)), Ok(0));
        let theirs = pairs[73].1.try_clone().unwrap();
        let sender = Builder::new("sender").spawn(move || {
            sleep(2 * MS).unwrap();
            theirs.send(b"x").unwrap();
        });
        assert_eq!(io::poll(&mut entries, None), Ok(1));
        assert_eq!(entries.iter().position(|entry| entry.revents != 0), Some(73));
        sender.unwrap().join().unwrap().unwrap();
    })
    .unwrap();
}
