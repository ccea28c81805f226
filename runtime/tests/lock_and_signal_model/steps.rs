//! What a fiber may do next, and what must hold then.

use super::state::*;

/// The steps that the running fiber may make; an error is a broken rule.
pub(super) fn steps(state: State, fault: Fault) -> Result<Vec<State>, &'static str> {
    let me = state.on_cpu;
    let at = state.fibers[me].at;
    let mut next = Vec::new();
    let mut go = |change: &dyn Fn(&mut State) -> At| {
        let mut after = state;
        let at = change(&mut after);
        after.fibers[me].at = at;
        next.push(after);
    };
    match at {
        At::User => {
            if state.locked != 0 || state.pending || state.inside {
                return Err("the program runs with the scheduler locked, or with a note left");
            }
            if state.blocked || state.masked || state.fibers[me].in_handler {
                return Err("the program runs with its signal blocked");
            }
            if state.waits && !state.signal && (!state.timer || state.due) {
                return Err("an expiry is lost");
            }
            go(&|after| At::EnterStore(after.locked));
        }
        At::EnterStore(loaded) => go(&|after| {
            after.locked = loaded + 1;
            At::Call
        }),
        At::Call => {
            if state.inside {
                return Err("two are inside the tables");
            }
            // Nothing that switches.
            go(&|after| {
                after.inside = true;
                At::Leave
            });
            // A sleeps, B and C yield.
            go(&|after| {
                after.inside = true;
                match me {
                    A => (after.fibers[A].ready, after.waits, after.due) = (false, true, false),
                    _ => after.yielded = true,
                }
                At::Leave
            });
        }
        At::Leave => {
            let must = !state.fibers[me].ready || state.yielded || (me != A && state.fibers[A].ready);
            go(&|after| {
                after.seen = after.due;
                if must {
                    At::Choose(Caller::Leave)
                } else {
                    At::UnlockStore(after.locked - 1)
                }
            });
        }
        At::Choose(caller) => go(&|after| {
            after.chosen = match (after.fibers[A].ready, after.yielded, me) {
                (true, _, _) => A,
                (false, true, 1) => 2,
                (false, true, 2) => 1,
                (false, _, A) => 1,
                (false, _, me) => me,
            };
            after.yielded = false;
            if after.fibers[after.chosen].ready {
                At::Arm(caller)
            } else {
                At::Idle(caller)
            }
        }),
        // Nobody can run: sleeps until the time, or a signal.
        At::Idle(caller) => {
            if state.pending || state.due {
                go(&|after| {
                    after.pending = false;
                    after.seen = after.due;
                    At::IdleTick(caller)
                });
            }
        }
        At::IdleTick(caller) => go(&|after| {
            serve(after);
            At::Choose(caller)
        }),
        At::Arm(caller) => go(&|after| {
            if after.waits && !after.armed {
                if after.seen {
                    after.pending |= fault != Fault::NoPast;
                } else {
                    after.armed = true;
                    (after.timer, after.signal) = (!after.due, after.signal || after.due);
                }
            }
            At::Block(caller)
        }),
        At::Block(caller) => go(&|after| {
            let to = after.fibers[after.chosen];
            let blocks = after.chosen != me && to.in_handler && !after.masked;
            if blocks && fault != Fault::LateMask {
                after.masked = true;
                return At::BlockMask(caller);
            }
            At::Switch(caller)
        }),
        At::BlockMask(caller) => go(&|after| {
            after.blocked = true;
            At::Switch(caller)
        }),
        At::Switch(caller) => {
            let to = state.chosen;
            if to == me {
                go(&|_| returns(caller));
            } else {
                let mut after = state;
                // It continues after its own switch when it is selected again.
                after.fibers[me].at = At::ResumedFlag(caller);
                after.on_cpu = to;
                if after.fibers[to].at == At::User {
                    // Its first time: `begin`.
                    after.fibers[to].at = At::ResumedFlag(Caller::Leave);
                }
                next.push(after);
            }
        }
        At::ResumedFlag(caller) => go(&|after| {
            let in_handler = after.fibers[me].in_handler;
            let changes = match fault {
                Fault::LateMask => after.masked != in_handler,
                Fault::NoMask => false,
                _ => after.masked && !in_handler,
            };
            if changes {
                after.masked = in_handler;
                return At::ResumedMask(caller);
            }
            returns(caller)
        }),
        At::ResumedMask(caller) => go(&|after| {
            after.blocked = after.masked;
            returns(caller)
        }),
        At::UnlockStore(count) => go(&|after| {
            (after.inside, after.locked) = (false, count);
            At::Note
        }),
        At::Note => go(&|after| {
            let catches = after.locked == 0 && after.pending && fault != Fault::NoNote;
            if catches {
                At::CatchEnter
            } else {
                At::User
            }
        }),
        At::CatchEnter => go(&|after| {
            after.locked += 1;
            after.inside = true;
            if fault == Fault::LateClear {
                At::CatchTick
            } else {
                At::CatchClear
            }
        }),
        At::CatchClear => go(&|after| {
            after.pending = false;
            if fault == Fault::LateClear {
                At::CatchServe
            } else {
                At::CatchTick
            }
        }),
        At::CatchTick => go(&|after| {
            after.seen = after.due;
            if fault == Fault::LateClear {
                At::CatchClear
            } else {
                At::CatchServe
            }
        }),
        At::CatchServe => go(&|after| {
            serve(after);
            At::Choose(Caller::CatchUp)
        }),
        At::CatchUnlock => go(&|after| {
            (after.inside, after.locked) = (false, 0);
            At::Note
        }),
        At::HandlerLook => {
            if state.locked != 0 && fault != Fault::NoLook {
                go(&|after| {
                    after.pending = true;
                    At::Sigreturn
                });
            } else {
                go(&|_| At::HandlerEnter);
            }
        }
        At::HandlerEnter => {
            if state.inside {
                return Err("a handler is inside the tables with another");
            }
            go(&|after| {
                after.locked += 1;
                after.inside = true;
                At::HandlerMasked
            });
        }
        At::HandlerMasked => go(&|after| {
            (after.masked, after.fibers[me].in_handler) = (true, true);
            At::HandlerClear
        }),
        At::HandlerClear => go(&|after| {
            after.pending = false;
            At::HandlerTick
        }),
        At::HandlerTick => go(&|after| {
            after.seen = after.due;
            At::HandlerServe
        }),
        At::HandlerServe => go(&|after| {
            serve(after);
            if fault == Fault::EarlyUnlock {
                after.locked = 0;
            }
            At::Choose(Caller::Handler)
        }),
        At::HandlerAgain => {
            go(&|after| if after.pending { At::HandlerClear } else { At::HandlerOut });
        }
        At::HandlerOut => go(&|after| {
            (after.fibers[me].in_handler, after.masked, after.inside) = (false, false, false);
            At::HandlerUnlock
        }),
        At::HandlerUnlock => go(&|after| {
            after.locked = 0;
            At::Sigreturn
        }),
        At::Sigreturn => go(&|after| {
            after.blocked = false;
            after.fibers[me].frame.take().unwrap_or(At::User)
        }),
    }
    // The kernel delivers the signal.
    if state.signal && !state.blocked {
        let mut after = state;
        if after.fibers[me].frame.is_some() {
            return Err("two frames on one stack");
        }
        (after.signal, after.blocked) = (false, fault != Fault::NoDefer);
        after.fibers[me].frame = Some(at);
        after.fibers[me].at = At::HandlerLook;
        next.push(after);
    }
    // A helper of the broker sends the same signal, at any time.
    if !state.signal {
        next.push(State { signal: true, ..state });
    }
    // Time passes.
    if state.waits && !state.due {
        let mut after = state;
        after.due = true;
        if after.timer {
            (after.timer, after.signal) = (false, true);
        }
        next.push(after);
    }
    Ok(next)
}
