//! Fibers, where each of them is, and the faults that a protocol can have.

/// Who called `dispatch`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Caller {
    Leave,
    CatchUp,
    Handler,
}

/// The next step of a fiber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum At {
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
pub(super) struct Fiber {
    pub(super) at: At,
    /// The interrupted step, while a frame of the signal is on its stack.
    pub(super) frame: Option<At>,
    pub(super) in_handler: bool,
    pub(super) ready: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub(super) fibers: [Fiber; 3],
    pub(super) on_cpu: usize,
    pub(super) chosen: usize,
    /// B or C has yielded: the other one goes first.
    pub(super) yielded: bool,
    pub(super) locked: u8,
    pub(super) pending: bool,
    /// What the runtime believes of the mask, and the kernel's.
    pub(super) masked: bool,
    pub(super) blocked: bool,
    /// The tables are being changed: a ghost, no variable of the runtime.
    pub(super) inside: bool,
    /// A sleeps until a time that has come, or has not.
    pub(super) waits: bool,
    pub(super) due: bool,
    /// What the last reading of the clock has seen of that.
    pub(super) seen: bool,
    /// What the runtime believes of its timer, the timer, and its signal on the way.
    pub(super) armed: bool,
    pub(super) timer: bool,
    pub(super) signal: bool,
}

pub(super) const A: usize = 0;

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
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

pub(super) fn start() -> State {
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
pub(super) fn serve(state: &mut State) {
    if state.seen {
        state.armed = false;
        if state.waits {
            (state.waits, state.due, state.fibers[A].ready) = (false, false, true);
        }
    }
}

pub(super) fn returns(caller: Caller) -> At {
    match caller {
        Caller::Leave => At::UnlockStore(0),
        Caller::CatchUp => At::CatchUnlock,
        Caller::Handler => At::HandlerAgain,
    }
}
