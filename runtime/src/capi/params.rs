//! Configuration and parameters in C: a zero field means the default.

use std::ffi::c_char;

use crate::config::{Config, Preemption};
use crate::policy::{Budget, OnOverrun, Params, Policy, Release};

/// lathunt_rt_config.
#[repr(C)]
pub struct CConfig {
    threads: u32,
    preemption: u32,
    stack_bytes: u64,
    main_priority: u32,
    kernel_priority: u32,
    main_quantum_ns: u64,
    cpu_plus_one: i32,
    runaway_seconds: u32,
    touch_stacks: u32,
}

/// lathunt_rt_params.
#[repr(C)]
pub struct CParams {
    pub(super) name: *const c_char,
    policy: u32,
    priority: u32,
    release: u32,
    on_overrun: u32,
    interval_ns: u64,
    deadline_ns: u64,
    budget_ns: u64,
    start_at: u64,
    quantum_ns: u64,
    server_period_ns: u64,
    server_budget_ns: u64,
    server_low_priority: u32,
    server_replenishments: u32,
    pub(super) stack_bytes: u64,
    pub(super) detached: u32,
}

/// Default round-robin quantum, in ns.
pub(super) const QUANTUM: u64 = 10_000_000;

impl CConfig {
    pub(super) fn to_config(&self) -> Config {
        let or = |value: u64, default: u64| if value == 0 { default } else { value };
        let default = Config::default();
        Config {
            threads: or(self.threads.into(), default.threads as u64) as usize,
            stack: or(self.stack_bytes, default.stack as u64) as usize,
            main_priority: u8::try_from(self.main_priority).unwrap_or(u8::MAX),
            main_quantum: (self.main_quantum_ns != 0).then_some(self.main_quantum_ns),
            preemption: match self.preemption {
                1 => Preemption::Timer,
                2 => Preemption::Helper,
                3 => Preemption::None,
                _ => Preemption::Measure,
            },
            kernel_priority: (self.kernel_priority != 0).then_some(self.kernel_priority as i32),
            cpu: usize::try_from(self.cpu_plus_one).ok().and_then(|plus_one| plus_one.checked_sub(1)),
            runaway_seconds: or(self.runaway_seconds.into(), default.runaway_seconds),
            touch_stacks: self.touch_stacks != 0,
            meter: false,
            record: 0,
        }
    }
}

impl CParams {
    pub(super) fn to_params(&self) -> Result<Params, &'static str> {
        let some = |value: u64| (value != 0).then_some(value);
        let policy = match self.policy {
            0 => Policy::Fifo,
            1 => Policy::RoundRobin { quantum: some(self.quantum_ns).unwrap_or(QUANTUM) },
            2 => Policy::Edf,
            3 => Policy::Sporadic {
                low: u8::try_from(self.server_low_priority).unwrap_or(u8::MAX),
                period: self.server_period_ns,
                budget: self.server_budget_ns,
                replenishments: self.server_replenishments as usize,
            },
            _ => return Err("no such policy"),
        };
        let release = match self.release {
            0 => Release::Aperiodic,
            1 => Release::Periodic { period: self.interval_ns },
            2 => Release::Sporadic { separation: self.interval_ns },
            _ => return Err("no such kind of release"),
        };
        let action = if self.on_overrun == 1 { OnOverrun::Background } else { OnOverrun::Count };
        Ok(Params {
            policy,
            priority: u8::try_from(self.priority).unwrap_or(u8::MAX),
            release,
            deadline: some(self.deadline_ns),
            budget: some(self.budget_ns).map(|ns| Budget { ns, action }),
            start: some(self.start_at),
        })
    }
}
