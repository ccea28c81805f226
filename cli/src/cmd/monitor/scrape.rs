//! A scrape: the present totals, read on request, with the published data of closed windows.

use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::monitor::export::{Published, Totals};
use lathunt_core::monitor::metric::accept::Form;
use lathunt_host::monitor::http::{self, Answer};
use lathunt_host::monitor::{clocks, source::Source};

use super::session::{lock, ROOT};

/// Answers scrapes from now on.
///
/// # Errors
/// If threads cannot be started.
pub fn serve(
    listener: TcpListener,
    source: &Arc<Mutex<Source>>,
    published: &Arc<Mutex<Published>>,
    cpus: &CpuSet,
) -> lathunt_host::error::Result<()> {
    let (source, published, cpus) = (Arc::clone(source), Arc::clone(published), cpus.clone());
    http::serve(listener, move |accept| {
        let form = Form::preferred(accept);
        let totals = totals(&source, &cpus);
        let families = lock(&published).families(&totals);
        Answer { media_type: form.media_type(), body: form.encode(&families) }
    })
}

fn totals(source: &Mutex<Source>, cpus: &CpuSet) -> Totals {
    let source = lock(source);
    let (series, interrupts, losses) = (source.totals(), source.interrupts(), source.losses());
    let waiting = source.waiting();
    drop(source); // the recorder's loop waits for nothing else
    Totals {
        series,
        interrupts,
        losses,
        waiting,
        throttled: clocks::throttled(Path::new(ROOT), cpus),
        own_cpu: clocks::own_cpu_time(),
        own_memory: clocks::own_resident_bytes(),
    }
}
