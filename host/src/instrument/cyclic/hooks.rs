//! Hooks that run inside a measuring thread.

use lathunt_core::time::{Mono, Ns};

/// Called in the measuring thread, on its CPU, right after the clock was read.
pub trait OnPeak: Send {
    /// A latency enters the list of the worst. The result is kept with the sample (the id of a frozen record).
    /// Its cost delays the next activation: do not allocate or wait.
    fn peak(&mut self, expected: Mono, woken: Mono, latency: Ns) -> Option<u64>;

    /// This latency is the first above [`super::Options::break_at`]; called after [`OnPeak::peak`].
    fn broke(&mut self, _latency: Ns) {}
}

/// Gets every sample, in the measuring thread. Must not allocate or wait.
pub trait OnSample: Send {
    /// Sample number `cycle`, counted from 0.
    fn sample(&mut self, cycle: u64, woken: Mono, latency: Ns);
}

/// What runs inside one measuring thread.
#[derive(Default)]
pub struct Hooks {
    /// On a new peak.
    pub peak: Option<Box<dyn OnPeak>>,
    /// On every sample.
    pub sample: Option<Box<dyn OnSample>>,
}
