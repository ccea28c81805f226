//! Architecture-specific code under common names, one file per architecture: time stamp counter, hypervisor
//! detection, names of system vectors.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{
    counter, counter_hz, counter_is_invariant, counter_ordered, counter_plain, hypervisor, system_vector,
    COUNTER_READS,
};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{
    counter, counter_hz, counter_is_invariant, counter_ordered, counter_plain, hypervisor, system_vector,
    COUNTER_READS,
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("add host/src/arch/<architecture>.rs with the functions of x86_64.rs");

/// Ways to read the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterRead {
    /// [`counter_plain`]: may be reordered with surrounding instructions.
    Plain,
    /// [`counter_ordered`]: executes after all earlier instructions.
    Ordered,
    /// [`counter`]: executes after all earlier and before all later instructions.
    Fenced,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_never_runs_backwards_on_one_thread() {
        let mut last = counter();
        for _ in 0..10_000 {
            let now = counter();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_stated_frequency_agrees_with_the_clock() {
        let Some(hz) = counter_hz() else { return }; // not every CPU reports it
        let (begin, from) = (std::time::Instant::now(), counter());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (ticks, seconds) = (counter() - from, begin.elapsed().as_secs_f64());
        let measured = ticks as f64 / seconds;
        assert!((measured / hz as f64 - 1.0).abs() < 0.05, "{measured} Hz measured, {hz} Hz stated");
    }
}
