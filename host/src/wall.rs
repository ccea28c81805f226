//! The wall clock, for people: when a run was made.

use std::mem;

/// Now in local time, RFC 3339 with the offset to UTC: `2026-11-21T21:40:05+01:00`. `None` if the clock is beyond
/// the years that the C library can represent.
#[must_use]
pub fn now_rfc3339() -> Option<String> {
    // SAFETY: time accepts a null pointer; localtime_r gets valid pointers, and a zeroed tm is valid to write over.
    let local = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut local: libc::tm = mem::zeroed();
        (!libc::localtime_r(&now, &mut local).is_null()).then_some(local)
    }?;
    let offset_minutes = local.tm_gmtoff / 60;
    Some(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}{:02}:{:02}",
        local.tm_year + 1900,
        local.tm_mon + 1,
        local.tm_mday,
        local.tm_hour,
        local.tm_min,
        local.tm_sec,
        if offset_minutes < 0 { '-' } else { '+' },
        offset_minutes.abs() / 60,
        offset_minutes.abs() % 60
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_date_command() {
        let date = std::process::Command::new("date").arg("+%Y-%m-%dT%H:%M").output().unwrap();
        let ours = now_rfc3339().unwrap();
        let later = std::process::Command::new("date").arg("+%Y-%m-%dT%H:%M").output().unwrap();
        let minute =
            |output: std::process::Output| String::from_utf8(output.stdout).unwrap().trim().to_owned();
        assert!(ours.starts_with(&minute(date)) || ours.starts_with(&minute(later)), "{ours}");
        assert_eq!(ours.len(), "2026-11-21T21:40:05+01:00".len());
    }
}
