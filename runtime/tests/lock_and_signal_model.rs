//! The protocol of `dispatch`, model-checked: every interleaving of three fibers, the signal and the expiry of the timer, step by
//! step. A step is a load, a store or a system call of `src/dispatch.rs`, whose functions the names follow.
//!
//! Fiber A is urgent: it sleeps until the timer, runs, and sleeps again. B and C are equal, call the scheduler, and yield to each
//! other. What must hold in every state that can be reached:
//!
//! - the tables are changed by one at a time: a handler that finds the lock held leaves only a note;
//! - no stack ever carries two frames of the signal;
//! - a fiber in its own code has the lock free, no note left, and the signal unblocked;
//! - no expiry is lost: what is due in the program's own code has its signal on the way, what is still to come its timer set.
//!
//! Each rule is shown to be checked: protocols with one fault are found out. What the model leaves out: the broker, budgets, handlers on
//! alternate stacks, and the order of stores as other CPUs see it (one kernel thread has none).

use std::collections::{HashSet, VecDeque};

/// Who called `dispatch`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Caller {
    Leave,
    CatchUp,
    Handler,
}

/// The next step of a fiber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// In the program's own code.
    User,
    // enter: load and store.
    EnterStore(u8),
    /// The call itself, with the scheduler locked.
    Call,
    /// leave: must it switch?
    Leave,
    // dispatch.
    Choose(Caller),
    Idle(Caller),
    IdleTick(Caller),
    Arm(Caller),
    Block(Caller),
    BlockMask(Caller),
    Switch(Caller),
    ResumedFlag(Caller),
    ResumedMask(Caller),
    // unlock.
    UnlockStore(u8),
    Note,
    // catch_up.
    CatchEnter,
    CatchClear,
    CatchTick,
    CatchServe,
    CatchUnlock,
    // on_signal.
    HandlerLook,
    HandlerEnter,
    HandlerMasked,
    HandlerClear,
    HandlerTick,
    HandlerServe,
    HandlerAgain,
    HandlerOut,
    HandlerUnlock,
    Sigreturn,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Fiber {
    at: At,
    /// The interrupted step, while a frame of the signal is on its stack.
    frame: Option<At>,
    in_handler: bool,
    ready: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct State {
    fibers: [Fiber; 3],
    on_cpu: usize,
    chosen: usize,
    /// B or C has yielded: the other one goes first.
    yielded: bool,
    locked: u8,
    pending: bool,
    /// What the runtime believes of the mask, and the kernel's.
    masked: bool,
    blocked: bool,
    /// The tables are being changed: a ghost, no variable of the runtime.
    inside: bool,
    /// A sleeps until a time that has come, or has not.
    waits: bool,
    due: bool,
    /// What the last reading of the clock has seen of that.
    seen: bool,
    /// What the runtime believes of its timer, the timer, and its signal on the way.
    armed: bool,
    timer: bool,
    signal: bool,
}

const A: usize = 0;

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// The handler does not look at the lock.
    NoLook,
    /// Unlocking does not look at the note.
    NoNote,
    /// A fiber that is not in a handler goes on with the signal blocked.
    NoMask,
    /// One that is goes on in its handler, and only there blocks the signal.
    LateMask,
    /// The handler unblocks its own signal at once (SA_NODEFER).
    NoDefer,
    /// A time that is past already sets no note.
    NoPast,
    /// The note is cleared after the clock was read.
    LateClear,
    /// The handler unlocks before it is through with the tables.
    EarlyUnlock,
}

fn start() -> State {
    let fiber = Fiber { at: At::User, frame: None, in_handler: false, ready: true };
    State {
        fibers: [fiber; 3],
        on_cpu: A,
        chosen: A,
        yielded: false,
        locked: 0,
        pending: false,
        masked: false,
        blocked: false,
        inside: false,
        waits: false,
        due: false,
        seen: false,
        armed: false,
        timer: false,
        signal: false,
    }
}

/// Makes A ready where the reading of the clock has seen its time.
fn serve(state: &mut State) {
    if state.seen {
        state.armed = false;
        if state.waits {
            (state.waits, state.due, state.fibers[A].ready) = (false, false, true);
        }
    }
}

fn returns(caller: Caller) -> At {
    match caller {
        Caller::Leave => At::UnlockStore(0),
        Caller::CatchUp => At::CatchUnlock,
        Caller::Handler => At::HandlerAgain,
    }
}

/// The steps that the running fiber may make; an error is a broken rule.
fn steps(state: State, fault: Fault) -> Result<Vec<State>, &'static str> {
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
            if state.waits && !state.signal && !(state.timer && !state.due) {
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
                // It goes on behind its own switch when it is chosen again.
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

/// Reachable states, or the rule that is broken.
fn explore(fault: Fault) -> Result<usize, &'static str> {
    let mut seen = HashSet::from([start()]);
    let mut open = VecDeque::from([start()]);
    while let Some(state) = open.pop_front() {
        for after in steps(state, fault)? {
            assert!(after.locked <= 2 && seen.len() < 5_000_000);
            if seen.insert(after) {
                open.push_back(after);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn the_protocol_keeps_its_rules_in_every_interleaving() {
    let states = explore(Fault::None).unwrap();
    assert!(states > 1_000, "{states} states: most of the protocol was not reached");
}

#[test]
fn each_fault_of_the_protocol_is_found() {
    for (fault, rule) in [
        (Fault::NoLook, "a handler is inside the tables with another"),
        (Fault::NoNote, "the program runs with the scheduler locked, or with a note left"),
        (Fault::NoMask, "the program runs with its signal blocked"),
        (Fault::LateMask, "two frames on one stack"),
        (Fault::NoDefer, "two frames on one stack"),
        (Fault::NoPast, "an expiry is lost"),
        (Fault::LateClear, "an expiry is lost"),
        (Fault::EarlyUnlock, "a handler is inside the tables with another"),
    ] {
        assert_eq!(explore(fault), Err(rule), "{fault:?}");
    }
}
