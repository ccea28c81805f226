//! Answers `GET /metrics` and little else.
//!
//! One thread waits for all clients at once (poll(2)), so that none waits for another that is slow to send or to read. Each
//! connection carries one request and has five seconds to send it and five to read the answer; there are 64 at most, and a
//! new one replaces the oldest that is not being answered. Requests are parsed by the crate httparse: a whole HTTP server
//! (hyper with tokio) would be some thirty crates for one page of text, and tiny_http has no time limit for clients
//! (docs/decisions/0009-exporters.md).

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Maximum number of open connections.
const MOST_CLIENTS: usize = 64;
const LIMIT: Duration = Duration::from_secs(5);
const LARGEST_REQUEST: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// A page.
#[derive(Debug)]
pub struct Answer {
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// Binds the address.
///
/// # Errors
/// If the address is in use or not permitted.
pub fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "another program has that port; name another address with --listen",
            _ => "name another address with --listen",
        };
        Error::new("listen on", address.to_string(), error).hint(hint)
    })
}

/// Serves from now on, until the process ends. `metrics` returns the page for an `Accept` header.
///
/// # Errors
/// If the thread cannot be started.
pub fn serve(listener: TcpListener, metrics: impl Fn(&str) -> Answer + Send + 'static) -> Result<()> {
    serve_pages(listener, move |path, accept| match path {
        "/metrics" => Some(metrics(accept)),
        "/" => Some(Answer { media_type: PLAIN, body: INDEX.as_bytes().to_vec() }),
        _ => None,
    })
}

/// Serves from now on, until the process ends. `pages` returns the page at a path for an `Accept` header.
///
/// # Errors
/// If the thread cannot be started.
pub fn serve_pages(
    listener: TcpListener,
    pages: impl Fn(&str, &str) -> Option<Answer> + Send + 'static,
) -> Result<()> {
    let failed = |error| Error::new("start", "a thread for metrics", error);
    listener.set_nonblocking(true).map_err(failed)?;
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let site = Site { pages, is_local };
    let work = move || {
        let mut clients = Vec::new();
        loop {
            turn(&listener, &mut clients, &site);
        }
    };
    let named = std::thread::Builder::new().name("metrics".to_owned()).stack_size(256 << 10);
    named.spawn(work).map(drop).map_err(failed)
}

/// What is served, and to whom.
struct Site<P> {
    pages: P,
    /// For programs of this machine only. Pages of a foreign web site whose name resolves to this machine (DNS rebinding)
    /// are rejected by the host name that a browser sends.
    is_local: bool,
}

/// Whether `host` names this machine without a name server: its own name, an address, `localhost`.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
            let ends = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
            return ends && address.parse::<Ipv6Addr>().is_ok();
        }
        None => host.rsplit_once(':').map_or(host, |(name, _)| name).trim_end_matches('.'),
    };
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.parse::<Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || (!own.trim().is_empty() && name.eq_ignore_ascii_case(own.trim()))
}

/// Waits for events, and does what is possible without blocking.
fn turn(
    listener: &TcpListener,
    clients: &mut Vec<Client>,
    site: &Site<impl Fn(&str, &str) -> Option<Answer>>,
) {
    let ready = wait(listener, clients);
    let now = Instant::now();
    let mut number = 0;
    clients.retain_mut(|client| {
        number += 1;
        client.until > now && (!ready.get(number).is_some_and(|&ready| ready) || client.advance(site))
    });
    if !ready[0] {
        return;
    }
    // No more at once than fit: present clients get their turn too.
    for _ in 0..MOST_CLIENTS {
        match listener.accept() {
            Ok((stream, _)) => take(stream, clients, site),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // Usually out of descriptors: try again, but not at once.
            Err(_) => return std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Whether there is an event for the listener, and for each client.
fn wait(listener: &TcpListener, clients: &[Client]) -> Vec<bool> {
    let of = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut polled = vec![of(listener.as_raw_fd(), libc::POLLIN)];
    polled.extend(clients.iter().map(|client| of(client.stream.as_raw_fd(), client.waits_for())));
    let first = clients.iter().map(|client| client.until).min();
    // One millisecond more, so that its time has expired then.
    let timeout = first.map_or(-1, |first| {
        let left = first.saturating_duration_since(Instant::now()).as_millis() + 1;
        i32::try_from(left).unwrap_or(i32::MAX)
    });
    // SAFETY: the array is as long as told.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    polled.iter().map(|polled| polled.revents != 0).collect()
}

/// Accepts a new client, and answers at once if it has sent its request already.
fn take(stream: TcpStream, clients: &mut Vec<Client>, site: &Site<impl Fn(&str, &str) -> Option<Answer>>) {
    if stream.set_nonblocking(true).is_err() {
        return;
    }
    let mut client =
        Client { stream, phase: Phase::Asks, until: Instant::now() + LIMIT, bytes: Vec::new(), sent: 0 };
    if !client.advance(site) {
        return;
    }
    if clients.len() >= MOST_CLIENTS {
        let oldest = (0..clients.len()).min_by_key(|&at| (clients[at].phase, clients[at].until));
        oldest.map(|at| clients.remove(at));
    }
    clients.push(client);
}

/// Progress of a client; earlier variants make room for new clients first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// It has its answer. Data it still sends must not cause a reset that destroys the answer.
    HasAll,
    Asks,
    Reads,
}

struct Client {
    stream: TcpStream,
    phase: Phase,
    until: Instant,
    /// Of the request, then of the answer.
    bytes: Vec<u8>,
    sent: usize,
}

impl Client {
    fn waits_for(&self) -> libc::c_short {
        match self.phase {
            Phase::Reads => libc::POLLOUT,
            Phase::HasAll | Phase::Asks => libc::POLLIN,
        }
    }

    /// Proceeds without blocking; false: it is done.
    fn advance(&mut self, site: &Site<impl Fn(&str, &str) -> Option<Answer>>) -> bool {
        // The next poll reports what is left to do.
        match self.asks(site).and_then(|()| self.reads()).and_then(|()| self.leaves()) {
            Ok(left) => !left,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn asks(&mut self, site: &Site<impl Fn(&str, &str) -> Option<Answer>>) -> std::io::Result<()> {
        while self.phase == Phase::Asks {
            let mut buffer = [0; 1_024];
            let n = self.stream.read(&mut buffer)?;
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.bytes.extend_from_slice(&buffer[..n]);
            if let Some((head_only, response)) = respond(&self.bytes, site) {
                self.bytes = response.head().into_bytes();
                self.bytes.extend(response.body.iter().filter(|_| !head_only));
                (self.phase, self.until) = (Phase::Reads, Instant::now() + LIMIT);
            }
        }
        Ok(())
    }

    fn reads(&mut self) -> std::io::Result<()> {
        while self.phase == Phase::Reads {
            self.sent += self.stream.write(&self.bytes[self.sent..])?;
            if self.sent >= self.bytes.len() {
                self.bytes = Vec::new();
                self.phase = Phase::HasAll;
                self.stream.shutdown(Shutdown::Write)?;
            }
        }
        Ok(())
    }

    /// Whether it is gone. One read per call, however much it sends.
    fn leaves(&mut self) -> std::io::Result<bool> {
        self.stream.read(&mut [0; 1_024]).map(|n| n == 0)
    }
}

struct Response {
    status: &'static str,
    media_type: &'static str,
    body: Vec<u8>,
}

impl Response {
    fn head(&self) -> String {
        let Response { status, media_type, body } = self;
        let allow = if *status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status}\r\n{allow}Content-Type: {media_type}\r\nContent-Length: {}\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        )
    }
}

const NOT_ALLOWED: &str = "405 Method Not Allowed";
const PLAIN: &str = "text/plain; charset=utf-8";
const INDEX: &str = "lathunt monitor: /metrics has the figures (text 0.0.4, OpenMetrics 1.0, protobuf)\n";

/// The answer, and whether only its header is wanted; `None`: the request is incomplete.
fn respond(request: &[u8], site: &Site<impl Fn(&str, &str) -> Option<Answer>>) -> Option<(bool, Response)> {
    let plain = |status, text: &str| {
        Some((false, Response { status, media_type: PLAIN, body: text.as_bytes().to_vec() }))
    };
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if request.len() < LARGEST_REQUEST => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return plain("431 Request Header Fields Too Large", "too long a request\n");
        }
        Err(_) => return plain("400 Bad Request", "no HTTP request\n"),
    }
    let target = parsed.path.unwrap_or_default();
    let sent = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let mut hosts =
        sent.map(|header| String::from_utf8_lossy(header.value)).chain(authority(target).map(Into::into));
    if site.is_local && !hosts.all(|host| is_own_name(host.trim())) {
        return plain(
            "421 Misdirected Request",
            "only for this machine: name it by an address or localhost\n",
        );
    }
    let head_only = parsed.method == Some("HEAD");
    if !head_only && parsed.method != Some("GET") {
        return plain(NOT_ALLOWED, "only GET and HEAD\n");
    }
    let accept = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accept: Vec<_> = accept.map(|header| String::from_utf8_lossy(header.value)).collect();
    let answer = match (site.pages)(path(target), &accept.join(",")) {
        Some(Answer { media_type, body }) => {
            Some((head_only, Response { status: "200 OK", media_type, body }))
        }
        None => plain("404 Not Found", "there is no such page\n"),
    };
    answer.map(|(_, response)| (head_only, response))
}

/// The host in a request's target, if that is an absolute URI.
fn authority(target: &str) -> Option<&str> {
    let host = target.get(7..).filter(|_| target[..7].eq_ignore_ascii_case("http://"))?;
    Some(&host[..host.find(['/', '?']).unwrap_or(host.len())])
}

/// The path of a request's target, which may be an absolute URI (RFC 9112, 3.2.2).
fn path(target: &str) -> &str {
    let is_whole = target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let target = match target.get(7..).filter(|_| is_whole) {
        Some(host) => host.find(['/', '?']).map_or("/", |at| &host[at..]),
        None => target,
    };
    match target.split('?').next().unwrap_or_default() {
        "" => "/",
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &[u8]) -> String {
        let pages = |path: &str, accept: &str| {
            let body = if path == "/" { INDEX.to_owned() } else { format!("accepts {accept}") };
            ["/", "/metrics"].contains(&path).then(|| Answer { media_type: "x/y", body: body.into_bytes() })
        };
        respond(request, &Site { pages, is_local: true }).map_or_else(
            String::new,
            |(head, Response { status, body, .. })| {
                format!("{status} {} {}", if head { "head" } else { "all" }, String::from_utf8_lossy(&body))
            },
        )
    }

    #[test]
    fn requests_are_answered_and_nonsense_is_refused() {
        assert_eq!(
            answer(b"GET /metrics HTTP/1.1\r\nACCEPT: a/b\r\naccept: c/d\r\n\r\n"),
            "200 OK all accepts a/b,c/d"
        );
        assert_eq!(answer(b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n"), "200 OK head accepts ");
        assert_eq!(answer(b"GET /metr"), "");
        let whole = b"GET HTTP://127.0.0.1:9745/metrics?x HTTP/1.1\r\nAccept: a/b\r\n\r\n";
        assert_eq!(answer(whole), "200 OK all accepts a/b");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "200"),
            (b"GET http://[::1]:9745 HTTP/1.1\r\n\r\n", "200"),
            (b"GET http://[::1]/x HTTP/1.1\r\n\r\n", "404"),
            (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:9745\r\n\r\n", "200"),
            (b"GET / HTTP/1.1\r\nHost: [::1]:9745\r\n\r\n", "200"),
            (b"GET / HTTP/1.1\r\nhost: LocalHost\r\n\r\n", "200"),
            (b"GET / HTTP/1.1\r\nHost: rebound.example:9745\r\n\r\n", "421"),
            (b"GET / HTTP/1.1\r\nHost: [::1].rebound.example\r\n\r\n", "421"),
            (b"GET / HTTP/1.1\r\nHost: [::1]:9745.rebound.example\r\n\r\n", "421"),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: rebound.example\r\n\r\n", "421"),
            (b"GET http://rebound.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "421"),
            (b"GET / HTTP/1.1\r\nHost: 127.0.0.1.rebound.example\r\n\r\n", "421"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\x02\x00\x01\x00", "400"),
        ] {
            assert!(answer(request).starts_with(status), "{request:?}");
        }
        let long = [b"GET /metrics HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; LARGEST_REQUEST]].concat();
        assert!(answer(&long).starts_with("431"));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert!(answer(many.as_bytes()).starts_with("431"));
    }

    #[test]
    fn who_may_not_ask_so_is_told_how() {
        let head = |status| Response { status, media_type: "a/b", body: vec![1] }.head();
        assert!(head(NOT_ALLOWED).contains("\r\nAllow: GET, HEAD\r\n"));
        assert!(!head("200 OK").contains("Allow") && head("200 OK").contains("Content-Length: 1\r\n"));
    }

    fn scrape(address: SocketAddr) -> usize {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        text.iter().filter(|&&byte| byte == b'x').count()
    }

    #[test]
    fn clients_that_do_not_ask_or_read_to_the_end_delay_nobody() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, |_| Answer { media_type: "text/plain", body: vec![b'x'; 1 << 20] }).unwrap();
        let mut held = Vec::new();
        for request in ["", "GET /metrics HTTP/1.1\r\nAccept", "GET /metrics HTTP/1.1\r\n\r\n"] {
            for _ in 0..MOST_CLIENTS {
                let mut stream = TcpStream::connect(address).unwrap();
                let _ = stream.write_all(request.as_bytes());
                held.push(stream);
            }
            let begun = Instant::now();
            assert!(scrape(address) >= 1 << 20);
            assert!(begun.elapsed() < LIMIT / 2, "{request:?}: {:?}", begun.elapsed());
        }
    }

    #[test]
    fn a_client_that_sends_nothing_does_not_hinder_fifty_others() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(bind(address).unwrap_err().to_string().contains("another program has that port"));
        serve(listener, |_| Answer { media_type: "text/plain", body: vec![b'x'; 100_000] }).unwrap();
        let silent = TcpStream::connect(address).unwrap();
        let clients: Vec<_> = (0..50).map(|_| std::thread::spawn(move || scrape(address))).collect();
        for client in clients {
            assert!(client.join().unwrap() >= 100_000);
        }
        drop(silent);
    }
}
