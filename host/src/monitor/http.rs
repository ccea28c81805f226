//! Answers `GET /metrics`, and nothing else that matters.
//!
//! A few threads wait in `accept`; each answers one request a connection and closes it. A client that is slow to ask or to
//! read has five seconds, then its thread is free again; those that come meanwhile wait in the kernel's queue. Requests are
//! parsed by the crate httparse: a whole HTTP server (hyper with tokio) would be some thirty crates for one page of
//! text, and tiny_http has no time limit for clients (docs/decisions/0009-exporters.md).

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

const THREADS: usize = 4;
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

/// Takes the address.
///
/// # Errors
/// Who else has it, or why it cannot be had.
pub fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "another program has that port; name another address with --listen",
            _ => "name another address with --listen",
        };
        Error::new("listen on", address.to_string(), error).hint(hint)
    })
}

/// Answers from now on, until the process ends. `metrics` makes the page for an `Accept` header.
///
/// # Errors
/// When threads cannot be started.
pub fn serve(listener: TcpListener, metrics: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Result<()> {
    let shared = Arc::new((listener, metrics));
    for number in 0..THREADS {
        let shared = Arc::clone(&shared);
        let work = move || loop {
            match shared.0.accept() {
                Ok((stream, _)) => drop(converse(stream, &shared.1)), // whoever left is nobody's problem
                // Out of descriptors, mostly: try again, but not at once.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        let named = std::thread::Builder::new().name(format!("metrics/{number}"));
        named
            .stack_size(256 << 10)
            .spawn(work)
            .map_err(|error| Error::new("start", "a thread for metrics", error))?;
    }
    Ok(())
}

fn converse(mut stream: TcpStream, metrics: &(impl Fn(&str) -> Answer + ?Sized)) -> std::io::Result<()> {
    let until = Instant::now() + LIMIT;
    let mut request = Vec::new();
    let (head_only, response) = loop {
        if let Some(response) = respond(&request, metrics) {
            break response;
        }
        let mut buffer = [0; 1_024];
        let n = within(&stream, until, |stream| stream.read(&mut buffer))?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..n]);
    };
    let Response { status, media_type, body } = response;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    if !head_only {
        bytes.extend(body);
    }
    let mut rest = &bytes[..];
    let until = Instant::now() + LIMIT;
    while !rest.is_empty() {
        let n = within(&stream, until, |stream| stream.write(rest))?;
        rest = &rest[n.max(1).min(rest.len())..];
    }
    stream.flush()?;
    // What the client still sends must not turn into a reset that eats our answer.
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut sink = [0; 1_024];
    while within(&stream, until, |stream| stream.read(&mut sink))? > 0 {}
    Ok(())
}

/// One call on the socket that ends at `until` at the latest.
fn within(
    mut stream: &TcpStream,
    until: Instant,
    mut call: impl FnMut(&mut &TcpStream) -> std::io::Result<usize>,
) -> std::io::Result<usize> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        match call(&mut stream) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

struct Response {
    status: &'static str,
    media_type: &'static str,
    body: Vec<u8>,
}

const INDEX: &str = "lathunt monitor: /metrics has the figures (text 0.0.4, OpenMetrics 1.0, protobuf)\n";

/// The answer, and whether only its head is wanted; `None`: the request is not complete.
fn respond(request: &[u8], metrics: &(impl Fn(&str) -> Answer + ?Sized)) -> Option<(bool, Response)> {
    let plain = |status, text: &str| {
        let media_type = "text/plain; charset=utf-8";
        Some((false, Response { status, media_type, body: text.as_bytes().to_vec() }))
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
    let head_only = parsed.method == Some("HEAD");
    if !head_only && parsed.method != Some("GET") {
        return plain("405 Method Not Allowed", "only GET and HEAD\n");
    }
    let path = parsed.path.unwrap_or_default().split('?').next().unwrap_or_default();
    let answer = match path {
        "/metrics" => {
            let accept = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
            let accept: Vec<_> = accept.map(|header| String::from_utf8_lossy(header.value)).collect();
            let Answer { media_type, body } = metrics(&accept.join(","));
            Some((head_only, Response { status: "200 OK", media_type, body }))
        }
        "/" => plain("200 OK", INDEX),
        _ => plain("404 Not Found", "there is only /metrics\n"),
    };
    answer.map(|(_, response)| (head_only, response))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &[u8]) -> String {
        let metrics =
            |accept: &str| Answer { media_type: "x/y", body: format!("accepts {accept}").into_bytes() };
        respond(request, &metrics).map_or_else(String::new, |(head, Response { status, body, .. })| {
            format!("{status} {} {}", if head { "head" } else { "all" }, String::from_utf8_lossy(&body))
        })
    }

    #[test]
    fn requests_are_answered_and_nonsense_is_refused() {
        assert_eq!(
            answer(b"GET /metrics HTTP/1.1\r\nACCEPT: a/b\r\naccept: c/d\r\n\r\n"),
            "200 OK all accepts a/b,c/d"
        );
        assert_eq!(answer(b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n"), "200 OK head accepts ");
        assert_eq!(answer(b"GET /metr"), "");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "200"),
            (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", "404"),
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
    fn a_client_that_sends_nothing_does_not_hinder_fifty_others() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(bind(address).unwrap_err().to_string().contains("another program has that port"));
        serve(listener, |_| Answer { media_type: "text/plain", body: vec![b'x'; 100_000] }).unwrap();
        let silent = TcpStream::connect(address).unwrap();
        let clients: Vec<_> = (0..50)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                    let mut text = Vec::new();
                    stream.read_to_end(&mut text).unwrap();
                    text.iter().filter(|&&byte| byte == b'x').count()
                })
            })
            .collect();
        for client in clients {
            assert!(client.join().unwrap() >= 100_000);
        }
        drop(silent);
    }
}
