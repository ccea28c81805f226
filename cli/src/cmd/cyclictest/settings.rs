//! From options of cyclictest to settings of the instrument.

use lathunt_core::cyclictest::options::{Align, Policy};
use lathunt_core::cyclictest::plan;
use lathunt_core::time::Ns;
use lathunt_host::instrument::cyclic::{self as instrument, Alignment, ThreadSpec, Wait};
use lathunt_host::sched;

use super::output;
use super::session::Session;

impl Session {
    pub(super) fn specs(&self) -> Vec<ThreadSpec> {
        let spec = |thread: &plan::ThreadPlan| ThreadSpec {
            cpu: Some(thread.cpu),
            priority: thread.priority,
            interval: Ns::from_us(thread.interval_us),
        };
        self.plan.threads.iter().map(spec).collect()
    }

    pub(super) fn settings(&self, threads: Vec<ThreadSpec>, rights: bool) -> instrument::Options {
        let options = &self.options;
        let unit = output::unit(options);
        let policy = match self.plan.policy {
            _ if threads.iter().all(|thread| thread.priority == 0) => sched::Policy::Other,
            Policy::RoundRobin => sched::Policy::RoundRobin,
            _ => sched::Policy::Fifo,
        };
        let wait = match (options.posix_timers, options.system) {
            (true, _) => Wait::PosixTimer { absolute: !options.relative },
            (false, true) => Wait::Nanosleep,
            (false, false) if options.relative => Wait::Relative,
            (false, false) => Wait::Absolute,
        };
        let alignment = match options.align {
            Align::No => Alignment::None,
            Align::Together(us) => Alignment::Together(Ns::from_us(us)),
            Align::Second(us) => Alignment::FullSecond(Ns::from_us(us)),
        };
        // "greater than the limit" after truncation to the unit of the output
        let above = |limit: u64| Ns((limit + 1) * unit - 1);
        instrument::Options {
            warm_up: None,
            reservation: None,
            threads,
            policy,
            clock: self.clock(),
            wait,
            alignment,
            duration: (options.duration_s > 0).then(|| Ns(options.duration_s.saturating_mul(1_000_000_000))),
            loops: (options.loops > 0).then_some(options.loops),
            layout: output::layout(options),
            peaks: 0,
            peak_floor: Ns::ZERO,
            break_at: (options.breaktrace > 0).then(|| above(options.breaktrace)),
            lock_memory: options.mlockall,
            runaway: rights.then(|| Ns::from_ms(2_000)),
            thread_name: None,
        }
    }
}
