//! The minimum cost of recording wake-ups on this kernel and machine, for comparison: programs at the three tracepoints of
//! a wake-up by a timer that read the clock and record nothing. The recorder's own cost is what exceeds it.

use libbpf_rs::{Link, Object};

use crate::bpf_object;
use crate::error::Result;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o.gz"));

/// The attached programs; dropping it detaches them.
pub struct Floor {
    _links: Vec<Link>,
    _object: Object,
}

impl Floor {
    /// Loads and attaches them: tens of ms.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused, in one line.
    pub fn start() -> Result<Floor> {
        let object = bpf_object::load("floor", bpf_object::open("floor", OBJECT)?)?;
        Ok(Floor { _links: bpf_object::attach_all(&object)?, _object: object })
    }
}
