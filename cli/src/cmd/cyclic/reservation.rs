//! `--deadline-policy RUNTIME:PERIOD`.

use std::str::FromStr;

use lathunt_core::time::Ns;
use lathunt_host::instrument::cyclic::Reservation;

use crate::cmd::units::microseconds;

/// CPU time of a thread per period, as given by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved(pub Reservation);

impl FromStr for Reserved {
    type Err = String;

    fn from_str(text: &str) -> Result<Reserved, String> {
        // Limits of SCHED_DEADLINE (kernel/sched/deadline.c, __checkparam_dl).
        const SHORTEST: Ns = Ns(1_024);
        let (runtime, period) = text
            .split_once(':')
            .ok_or_else(|| format!("'{text}' is not RUNTIME:PERIOD; write for example 200us:1ms"))?;
        let (runtime, period) = (microseconds(runtime)?, microseconds(period)?);
        if runtime < SHORTEST {
            return Err(format!("a runtime of {runtime} is shorter than the kernel admits ({SHORTEST})"));
        }
        if runtime > period {
            return Err(format!("the runtime {runtime} is longer than the period {period}"));
        }
        Ok(Reserved(Reservation { runtime, period }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_a_runtime_within_a_period() {
        let read = |text: &str| text.parse::<Reserved>().map(|Reserved(read)| (read.runtime, read.period));
        assert_eq!(read("200:1ms"), Ok((Ns::from_us(200), Ns::from_ms(1))));
        for bad in ["200us", "2ms:1ms", "500ns:1ms", ":1ms", "1ms:", "a:b"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
