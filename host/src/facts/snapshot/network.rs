//! Interrupt coalescing of network cards: what `ethtool -c` shows (include/uapi/linux/ethtool.h).

use std::fs;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GCOALESCE: u32 = 0x0e;
/// `struct ethtool_coalesce` consists of 32-bit words; offsets of those used.
const WORDS: usize = 23;
const RX_USECS: usize = 1;
const ADAPTIVE_RX: usize = 10;

/// `eth0 rx-usecs 3 adaptive-rx off`, one card per line; cards whose driver reports nothing are left out.
pub(super) fn coalescing() -> Result<String> {
    // SAFETY: a plain call; the descriptor is ours alone.
    let socket = unsafe {
        match libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) {
            -1 => return Err(Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let line = |name: &String| {
        let words = ask(&socket, name)?;
        let adaptive = if words[ADAPTIVE_RX] == 0 { "off" } else { "on" };
        Some(format!("{name} rx-usecs {} adaptive-rx {adaptive}", words[RX_USECS]))
    };
    Ok(names.iter().filter_map(line).collect::<Vec<_>>().join("\n"))
}

fn ask(socket: &OwnedFd, name: &str) -> Option<[u32; WORDS]> {
    let mut words = [0; WORDS];
    words[0] = ETHTOOL_GCOALESCE;
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel reads the name and writes `struct ethtool_coalesce`, which `words` has room for.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    (done == 0).then_some(words)
}
