//! Timers of the kernel with a known purpose, by their function: what they delay, and how to avoid that.

/// The purpose of a timer.
pub(super) struct Known {
    /// For sentences: `the I/O limit of its cgroup`.
    pub what: &'static str,
    /// Short name for rankings.
    pub cause: &'static str,
    /// What to do.
    pub advice: &'static str,
}

const LIMIT: Known = Known {
    what: "the I/O limit of the cgroup, which holds requests back",
    cause: "I/O limit of the cgroup",
    advice: "raise the I/O limit of the cgroup (io.max, io.cost.*, or blkio.throttle.*), or move the thread to another one",
};
const IDLING: Known = Known {
    what: "the I/O scheduler BFQ, which lets the device idle for the requests of another process",
    cause: "I/O scheduler",
    advice: "use another I/O scheduler for the device (none, mq-deadline), or 0 as its slice_idle",
};
const SHAPING: Known = Known {
    what: "the traffic shaping of a network device, which holds packets back",
    cause: "traffic shaping",
    advice:
        "see `tc qdisc show`: remove the limit or delay (tbf, fq, netem, htb), or send from another class",
};
const RESENDING: Known = Known {
    what: "TCP, which sends again what was not acknowledged",
    cause: "TCP retransmission",
    advice: "a packet was lost or its answer late: find where (nstat, ss -ti); the first retransmission takes 200 ms and more",
};
const NEIGHBOUR: Known = Known {
    what: "the search for the hardware address of a neighbour, which is repeated",
    cause: "neighbour discovery",
    advice: "enter the neighbour by hand (ip neigh replace … nud permanent)",
};

/// The purpose of the timer with this function.
pub(super) fn known(function: &str) -> Option<&'static Known> {
    Some(match function {
        "throtl_pending_timer_fn" | "iocg_waitq_timer_fn" | "ioc_timer_fn" => &LIMIT,
        "bfq_idle_slice_timer" => &IDLING,
        "qdisc_watchdog" => &SHAPING,
        "tcp_write_timer" | "tcp_retransmit_timer" => &RESENDING,
        "neigh_timer_handler" => &NEIGHBOUR,
        _ => return None,
    })
}
