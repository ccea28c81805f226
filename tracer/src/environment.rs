//! Facts about the process and its environment variables.

use std::ffi::CStr;

use crate::file::read_small;

/// Start time of this process in clock ticks since boot; 0 if /proc is not mounted.
pub(crate) fn start_ticks() -> u64 {
    let mut text = [0; 1024];
    let length = read_small(c"/proc/self/stat", &mut text);
    let after_name = text[..length].iter().rposition(|&byte| byte == b')').map_or(0, |at| at + 1);
    let fields = text[after_name..length].split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let field = fields.skip(19).map(std::str::from_utf8).next();
    field.and_then(Result::ok).and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(crate) fn read_comm(comm: &mut [u8; 16]) {
    let length = read_small(c"/proc/self/comm", &mut comm[..15]);
    if length > 0 && comm[length - 1] == b'\n' {
        comm[length - 1] = 0;
    }
}

unsafe extern "C" {
    fn secure_getenv(name: *const libc::c_char) -> *const libc::c_char;
}

pub(crate) fn env(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the text stays valid while the environment is unchanged; programs change it before they start threads.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// `4194304`, `64K`, `4M` or `1G`.
pub(crate) fn env_bytes(name: &CStr) -> Option<u64> {
    let text = env(name)?.to_str().ok()?;
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
