//! What an activation alone reveals about a late wake-up.

use lathunt_core::application::policy_name;
use lathunt_core::peak::Context;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Ns, Tid};
use lathunt_core::trace::activation::{Activation, Via};

/// Cause of a late activation without evidence that had the CPU all the time.
const ON_THE_WAY: &str = "its own late timer interrupt, before it had gone to sleep";

/// The task that had the CPU before, if that may be why the thread waited. It does not explain a late timer, and an
/// idle CPU explains nothing.
pub(super) fn held_before(a: &Activation, quantity: Quantity) -> Option<String> {
    if a.awake {
        return Some(ON_THE_WAY.to_owned());
    }
    let timer = match quantity {
        Quantity::Timer => Ns(u64::MAX),
        Quantity::TimerWakeup => a.timer_part().unwrap_or_default(),
        _ => Ns::ZERO,
    };
    let waited = timer <= a.wakeup().unwrap_or_default() && a.before.tid != Tid::IDLE && !a.after_several;
    waited.then(|| a.before.thread().to_string())
}

/// The circumstances of a wake-up.
pub(super) fn context(a: &Activation) -> Context {
    Context {
        policy: policy_name(a.policy).to_owned(),
        timer_ns: a.timer_part(),
        before: a.before.thread(),
        woken_by: match a.via {
            _ if a.is_woken_instead() => Context::INSTEAD,
            Via::Timer => "timer",
            Via::Interrupt => "interrupt",
            Via::Thread => "thread",
            Via::Unknown => Context::BEFORE,
        }
        .to_owned(),
        waker: a.waker.thread(),
    }
}
