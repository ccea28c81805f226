//! A latmon (the box) from the description of its protocol alone: port, 8 bytes in, records of 24 bytes out, 32-bit words in
//! network order. Its latencies are made up, so that each figure is known.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What real firmware does wrong, and what bad peers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    None,
    /// The cell of a latency is computed after subtracting whole periods, each of which is an overrun.
    FoldsAbovePeriod,
    /// One late reply ends the measurement without a word.
    StopsAfterLateReply,
    /// A record of an earlier measurement, with its number of samples.
    OldRecordFirst,
    /// The thread that sends is killed in the middle of a record.
    CutRecord,
    /// A record of uninitialised memory.
    MemoryFirst,
    DiesInARecord,
    DiesAtOnce,
    /// Says nothing at all.
    Silent,
    /// Goes on with records after a stop.
    Floods,
    NoAnswerToStop,
    /// Sends its end without having been asked.
    EndsItself,
}

/// A record without samples: min is 0xffffffff after a reset.
pub const EMPTY: [u8; 24] = [0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// What the peer keeps, readable by its test.
#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    samples: u64,
}

pub struct Latmon {
    pub address: String,
    seen: Arc<Mutex<Seen>>,
}

impl Latmon {
    pub fn start(defect: Defect) -> Latmon {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            let Ok((stream, _)) = listener.accept() else { return };
            let _ = serve(stream, defect, &kept); // the other end may leave at any time
        });
        Latmon { address, seen }
    }

    pub fn heard(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.clone()
    }

    pub fn samples(&self) -> u64 {
        self.seen.lock().unwrap().samples
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

fn record_bytes(sum: i64, min: i32, max: i32, overruns: u32, samples: u32) -> Vec<u8> {
    let high = ((sum >> 32) as i32).to_be_bytes();
    let low = (sum as i32).to_be_bytes();
    [high, low, min.to_be_bytes(), max.to_be_bytes(), overruns.to_be_bytes(), samples.to_be_bytes()].concat()
}

/// sum, min, max, overruns, samples
pub fn record(bytes: &[u8]) -> (i64, i32, i32, u32, u32) {
    let sum = i64::from(word(&bytes[..4]) as i32) << 32 | i64::from(word(&bytes[4..8]));
    (sum, word(&bytes[8..12]) as i32, word(&bytes[12..16]) as i32, word(&bytes[16..20]), word(&bytes[20..24]))
}

pub fn bytes(stream: &mut TcpStream, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// What was measured since the last record, and the cells.
struct State {
    latencies: Vec<i32>,
    overruns: u32,
    cells: Vec<u32>,
    period_ns: i32,
    folds: bool,
}

impl State {
    fn sample(&mut self, ns: i32) {
        self.latencies.push(ns);
        let mut left = ns;
        while self.folds && left > self.period_ns {
            left -= self.period_ns;
            self.overruns += 1;
        }
        let last = self.cells.len() - 1;
        self.cells[((left / 1_000) as usize).min(last)] += 1;
    }

    fn record(&mut self) -> Vec<u8> {
        let all = std::mem::take(&mut self.latencies);
        let overruns = std::mem::take(&mut self.overruns);
        let Some((&min, &max)) = all.iter().min().zip(all.iter().max()) else {
            return record_bytes(0, -1, 0, overruns, 0);
        };
        record_bytes(all.iter().map(|&ns| i64::from(ns)).sum(), min, max, overruns, all.len() as u32)
    }

    /// The unfinished bulk, the record without samples, the cells.
    fn trailer(&mut self) -> Vec<u8> {
        let mut bytes = if self.latencies.is_empty() { Vec::new() } else { self.record() };
        bytes.extend(self.record());
        bytes.extend(self.cells.iter().flat_map(|count| count.to_be_bytes()));
        bytes
    }
}

/// A bulk of 10.5, 11.5, … µs.
fn bulk(state: &mut State, samples: u32) {
    for n in 0..samples as i32 {
        state.sample(10_500 + 1_000 * n);
    }
}

/// A whole session as bytes.
pub fn session(period_us: u32, cells: usize, bulks: u32) -> Vec<u8> {
    let mut state = State {
        latencies: Vec::new(),
        overruns: 0,
        cells: vec![0; cells],
        period_ns: period_us as i32 * 1_000,
        folds: false,
    };
    let mut bytes = Vec::new();
    for _ in 0..bulks {
        bulk(&mut state, 1_000_000 / period_us);
        bytes.extend(state.record());
    }
    bytes.extend(state.trailer());
    bytes
}

/// Changes, removes, inserts or doubles some bytes.
pub fn mutate(bytes: &mut Vec<u8>, below: &mut dyn FnMut(u64) -> u64) {
    for _ in 0..=below(5) {
        if bytes.is_empty() {
            return;
        }
        let at = below(bytes.len() as u64) as usize;
        let end = (at + 1 + below(40) as usize).min(bytes.len());
        match below(4) {
            0 => bytes[at] = below(256) as u8,
            1 => drop(bytes.drain(at..end)),
            2 => {
                let noise: Vec<u8> = (at..end).map(|_| below(256) as u8).collect();
                bytes.splice(at..at, noise);
            }
            _ => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
        }
    }
}

fn serve(mut stream: TcpStream, defect: Defect, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let mut request = [0; 8];
    stream.read_exact(&mut request)?;
    seen.lock().unwrap().bytes.extend(request);
    let (period_us, cells) = (word(&request[..4]), word(&request[4..]) as usize);
    let samples = 1_000_000 / period_us;
    let mut state = State {
        latencies: Vec::new(),
        overruns: 0,
        cells: vec![0; cells],
        period_ns: period_us as i32 * 1_000,
        folds: defect == Defect::FoldsAbovePeriod,
    };
    match defect {
        Defect::DiesAtOnce => return Ok(()),
        Defect::OldRecordFirst => stream.write_all(&record_bytes(77_000, 77_000, 77_000, 0, 1))?,
        Defect::MemoryFirst => stream.write_all(&[0xa5; 24])?,
        Defect::FoldsAbovePeriod => state.period_ns = 200_000,
        _ => {}
    }
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut silent = defect == Defect::Silent;
    let begun = Instant::now();
    for round in 0.. {
        // A record each 100 ms instead of each second.
        match stream.read_exact(&mut request) {
            Ok(()) => {
                seen.lock().unwrap().bytes.extend(request);
                match defect {
                    Defect::Silent | Defect::NoAnswerToStop => silent = true,
                    Defect::Floods => {}
                    _ => {
                        let left = state.latencies.len() as u64;
                        seen.lock().unwrap().samples += left;
                        return stream.write_all(&state.trailer());
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(_) => {}
        }
        if silent || begun.elapsed() > Duration::from_secs(30) {
            continue;
        }
        bulk(&mut state, samples);
        if defect == Defect::FoldsAbovePeriod && round == 1 {
            state.latencies.pop();
            state.cells[(samples as usize) + 9] -= 1;
            state.sample(900_000);
        }
        let record = state.record();
        seen.lock().unwrap().samples += u64::from(samples);
        match defect {
            Defect::CutRecord if round == 1 => stream.write_all(&record[..11])?,
            Defect::DiesInARecord if round == 1 => return stream.write_all(&record[..11]),
            _ => stream.write_all(&record)?,
        }
        if defect == Defect::StopsAfterLateReply && round == 1 {
            state.overruns = 1;
            silent = true;
        }
        if defect == Defect::EndsItself && round == 1 {
            stream.write_all(&state.trailer())?;
            silent = true;
        }
    }
    Ok(())
}
