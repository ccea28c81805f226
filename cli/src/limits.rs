//! One line where a limit of the caller leaves no room for this program.

use std::io::Write;

use lathunt_host::limits;

/// For the allocator: prints without allocating.
pub fn say_out_of_memory(bytes: usize) {
    let _ = writeln!(
        std::io::stderr(),
        "lathunt: out of memory: cannot allocate {bytes} bytes; raise the limit (ulimit -v, ulimit -d, or that of the \
         service or container)"
    );
}

/// Whether the limits of the caller leave room for any command; if not, stderr says so.
pub fn leave_room() -> bool {
    let refused = match (limits::ensure_stack(), limits::ensure_files()) {
        (Ok(()), Ok(())) => return true,
        (Err((have, needed)), _) => format!(
            "the stack is limited to {} KiB, {} KiB are needed; raise the limit (ulimit -s)",
            have >> 10,
            needed >> 10
        ),
        (_, Err((have, needed))) => format!(
            "the number of open files is limited to {have}, {needed} are needed; raise the limit (ulimit -n)"
        ),
    };
    let _ = writeln!(std::io::stderr(), "lathunt: {refused}");
    false
}

/// What to do about an error of a limit; empty for any other error.
pub fn remedy(error: &anyhow::Error) -> &'static str {
    let code = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>()?.raw_os_error());
    let text = || format!("{error:#}");
    // Some errors keep only the text of their source.
    let is = |number: i32| code == Some(number) || text().contains(&format!("(os error {number})"));
    if is(limits::TOO_MANY_OPEN_FILES) && !text().contains("ulimit -n") {
        "; raise the limit of open files (ulimit -n)"
    } else {
        ""
    }
}
