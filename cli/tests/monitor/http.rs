//! As little of an HTTP client as the tests need.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The body of an answer with status 200; HTTP/1.0, so that it comes in one piece.
pub fn get(port: u16, path: &str, accept: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    bytes.starts_with(b"HTTP/1").then_some(())?;
    let status = String::from_utf8_lossy(&bytes[..at]).split(' ').nth(1)?.to_owned();
    (status == "200").then(|| bytes[at + 4..].to_vec())
}

pub fn text(port: u16, path: &str, accept: &str) -> Option<String> {
    get(port, path, accept).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Percent-encodes all but letters and digits.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}
