//! The pages of a running measurement: `/histogram` in OSADL's form, `/metrics`, `/run`.
//!
//! The measurement publishes a copy when a page was requested, at most twice a second; a request gets the latest copy.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lathunt_core::latency_box::lines;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_host::monitor::http::{self, Answer};

#[derive(Default)]
struct Shown {
    /// The latest copy, and when it was made.
    run: Mutex<Option<(Instant, Run)>>,
    asked: AtomicBool,
}

/// A copy of this age is not waited for again: else each of many requests would delay all others.
const FRESH: Duration = Duration::from_millis(100);

impl Shown {
    /// Waits briefly for the next copy, so that no request gets an old page.
    fn refresh(&self) {
        let is_fresh = |run: &(Instant, Run)| run.0.elapsed() < FRESH;
        if self.run.lock().is_ok_and(|run| run.as_ref().is_some_and(is_fresh)) {
            return;
        }
        self.asked.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        while self.asked.load(Ordering::Acquire) && begun.elapsed() < Duration::from_millis(700) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The server, while the measurement runs.
pub struct Server {
    shown: Arc<Shown>,
    last: Mutex<Option<Instant>>,
}

const PLAIN: &str = "text/plain; charset=utf-8";
const INDEX: &str =
    "lathunt box: /histogram (1000 lines: line N counts the round trips from N-1 to N us, the last line the \
                     rest), /metrics, /run\n";

impl Server {
    /// Listens and serves from now on. A bare port is on loopback.
    ///
    /// # Errors
    /// If the address is invalid, or in use.
    pub fn start(address: &str) -> Result<Server> {
        let whole = if address.contains(':') { address.to_owned() } else { format!("127.0.0.1:{address}") };
        let parsed: SocketAddr = whole.parse().with_context(|| {
            format!("cannot listen on '{address}': write ADDR:PORT, for example 127.0.0.1:9746")
        })?;
        let listener = http::bind(parsed)?;
        if let Ok(at) = listener.local_addr() {
            eprintln!("serving http://{at}/histogram, /metrics, /run");
        }
        let shown = Arc::new(Shown::default());
        let answers = Arc::clone(&shown);
        http::serve_pages(listener, move |path, _| page(&answers, path))?;
        Ok(Server { shown, last: Mutex::new(None) })
    }

    /// Publishes a copy of the run so far, if one is requested.
    pub fn publish(&self, run: impl FnOnce() -> Run) {
        let Ok(mut last) = self.last.lock() else { return };
        let first = last.is_none();
        let due = last.is_none_or(|last| last.elapsed() > Duration::from_millis(500));
        if first || (due && self.shown.asked.load(Ordering::Relaxed)) {
            let run = run();
            *last = Some(Instant::now());
            if let Ok(mut shown) = self.shown.run.lock() {
                *shown = Some((Instant::now(), run));
            }
            // Only now: a waiting request must not get the previous one.
            self.shown.asked.store(false, Ordering::Release);
        }
    }
}

fn page(shown: &Shown, path: &str) -> Option<Answer> {
    if path == "/" {
        return Some(Answer { media_type: PLAIN, body: INDEX.as_bytes().to_vec() });
    }
    if !["/histogram", "/metrics", "/run"].contains(&path) {
        return None;
    }
    shown.refresh();
    let run = shown.run.lock().ok()?.as_ref()?.1.clone();
    Some(match path {
        "/histogram" => Answer { media_type: PLAIN, body: histogram(&run).into_bytes() },
        "/run" => Answer { media_type: "application/json", body: run.to_json().into_bytes() },
        _ => Answer {
            media_type: "text/plain; version=0.0.4; charset=utf-8",
            body: metrics(&run).into_bytes(),
        },
    })
}

fn histogram(run: &Run) -> String {
    let mut sum = [0u64; lines::LINES];
    for one in run.of(Quantity::Roundtrip).filter_map(|series| lines::lines_of(&series.histogram)) {
        sum.iter_mut().zip(one).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }
    lines::write(&sum)
}

/// Text format 0.0.4.
fn metrics(run: &Run) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let escape = |label: &str| label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
    text.push_str("# HELP lathunt_box_stimuli_total Stimuli and answers of lathunt box.\n# TYPE lathunt_box_stimuli_total counter\n");
    for series in run.of(Quantity::Roundtrip) {
        let Some(counts) = &series.counts else { continue };
        let channel = escape(&series.label());
        for (what, count) in [
            ("sent", counts.sent),
            ("answered", counts.answered),
            ("late", counts.late),
            ("duplicated", counts.duplicated),
            ("out_of_order", counts.out_of_order),
            ("damaged", counts.damaged),
            ("missed", series.missed.unwrap_or_default()),
        ] {
            let _ =
                writeln!(text, "lathunt_box_stimuli_total{{channel=\"{channel}\",kind=\"{what}\"}} {count}");
        }
    }
    text.push_str(
        "# HELP lathunt_box_roundtrip_seconds Round trips.\n# TYPE lathunt_box_roundtrip_seconds summary\n",
    );
    for series in run.of(Quantity::Roundtrip) {
        let (channel, histogram) = (escape(&series.label()), &series.histogram);
        for q in [0.5, 0.99, 0.999, 1.0] {
            if let Some(value) = histogram.quantile(q) {
                let _ = writeln!(
                    text,
                    "lathunt_box_roundtrip_seconds{{channel=\"{channel}\",quantile=\"{q}\"}} {}",
                    value.as_secs()
                );
            }
        }
        let sum = histogram.sum_ns() as f64 / 1e9;
        let _ = writeln!(text, "lathunt_box_roundtrip_seconds_sum{{channel=\"{channel}\"}} {sum}");
        let _ = writeln!(
            text,
            "lathunt_box_roundtrip_seconds_count{{channel=\"{channel}\"}} {}",
            histogram.count()
        );
    }
    text
}
