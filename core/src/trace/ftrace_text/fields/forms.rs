//! Events whose text is not `name=value` throughout: one function for each form, with an example of its text.
//!
//! Each returns `None` for a text of another form; [`super::parse`] then reads it as `name=value`.

use super::FieldValue::{Number, Text};
use super::{address, argument, field, function_of, number, pairs, state, Fields};

/// `comm:pid [prio]`, and the rest.
fn task(text: &str) -> Option<(&str, i64, i64, &str)> {
    text.match_indices(" [").find_map(|(at, _)| {
        let (prio, behind) = text[at + 2..].split_once(']')?;
        let (comm, pid) = text[..at].rsplit_once(':')?;
        Some((comm.trim(), pid.parse().ok()?, prio.trim().parse().ok()?, behind.trim()))
    })
}

/// trace-cmd: `comm:pid [prio] S ==> comm:pid [prio]`.
pub(super) fn short_switch(text: &str) -> Option<Fields<'_>> {
    // `trace-cmd report -w` adds ` Latency: 5.350 usecs`.
    let text = text
        .rsplit_once(" Latency: ")
        .filter(|(_, time)| time.ends_with("usecs"))
        .map_or(text, |(text, _)| text);
    // A name may hold the arrow, too.
    let tasks = text.match_indices("==>").find_map(|(at, _)| {
        let next = task(text[at + 3..].trim()).filter(|(.., behind)| behind.is_empty())?;
        Some((task(text[..at].trim())?, next))
    });
    let ((prev_comm, prev_pid, prev_prio, letters), (next_comm, next_pid, next_prio, _)) = tasks?;
    // Kernels before 2.6.33: `task comm:pid [prio] (S) ==> comm:pid [prio]`.
    let old = letters.strip_prefix('(').and_then(|letters| letters.strip_suffix(')'));
    let old = old.and_then(|letters| Some((prev_comm.strip_prefix("task ")?, letters)));
    let (prev_comm, letters) = old.unwrap_or((prev_comm, letters));
    Some(vec![
        field("prev_comm", Text(prev_comm)),
        field("prev_pid", Number(prev_pid)),
        field("prev_prio", Number(prev_prio)),
        field("prev_state", Number(state(letters))),
        field("next_comm", Text(next_comm)),
        field("next_pid", Number(next_pid)),
        field("next_prio", Number(next_prio)),
    ])
}

/// trace-cmd: `comm:pid [prio] CPU:001`; kernels before 2.6.33: `task comm:pid [prio] success=1 [001]`.
pub(super) fn short_wakeup(text: &str) -> Option<Fields<'_>> {
    let old = text.strip_prefix("task ").filter(|_| text.ends_with(']') && text.contains("] success="));
    let (comm, pid, prio, behind) = task(old.unwrap_or(text))?;
    let mut fields = vec![field("comm", Text(comm)), field("pid", Number(pid)), field("prio", Number(prio))];
    for word in behind.split_ascii_whitespace() {
        match word.split_once(':') {
            Some(("CPU", cpu)) => fields.push(field("target_cpu", Number(cpu.parse().ok()?))),
            _ if word.starts_with("success=") => {
                fields.push(field("success", Number(word["success=".len()..].parse().ok()?)));
            }
            None if old.is_some() => {
                fields.push(field("target_cpu", Number(word.trim_matches(['[', ']']).parse().ok()?)));
            }
            // The kernel's form, with a thread whose name looks like all of this.
            _ => return None,
        }
    }
    Some(fields)
}

/// `NR 202 (7f0, 80, 0, 0, 0, 0)`.
pub(super) fn sys_enter(text: &str) -> Option<Fields<'_>> {
    let (id, args) = text.strip_prefix("NR ")?.split_once('(')?;
    let mut fields = vec![field("id", Number(id.trim().parse().ok()?))];
    for (index, arg) in args.trim_end_matches(')').split(',').enumerate() {
        let arg = u64::from_str_radix(arg.trim().trim_start_matches("0x"), 16).ok()?;
        fields.push(argument(index, arg));
    }
    Some(fields)
}

/// `id=59 args=ARRAY[b4, 2a, …]` of `trace-cmd report -R`: the bytes of six numbers, of a little-endian machine.
pub(super) fn raw_sys_enter(text: &str) -> Option<Fields<'_>> {
    let (id, bytes) = text.split_once(" args=ARRAY[")?;
    let bytes = bytes.trim_end_matches(']').split(',');
    let bytes: Option<Vec<u8>> = bytes.map(|byte| u8::from_str_radix(byte.trim(), 16).ok()).collect();
    let mut fields = pairs("sys_enter", id);
    for (index, arg) in bytes?.chunks_exact(8).enumerate() {
        let arg = arg.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        fields.push(argument(index, arg));
    }
    Some(fields)
}

/// `NR 202 = -110`.
pub(super) fn sys_exit(text: &str) -> Option<Fields<'_>> {
    let (id, ret) = text.strip_prefix("NR ")?.split_once('=')?;
    Some(vec![field("id", Number(id.trim().parse().ok()?)), field("ret", Number(ret.trim().parse().ok()?))])
}

/// `work struct 0xffff…: function flush_to_ldisc`, with or without `=`.
pub(super) fn work(text: &str) -> Option<Fields<'_>> {
    let words = text.split([' ', ':', '=', ',']).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let behind =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1).copied());
    let mut fields = vec![field("work", Number(address(behind("struct").or(behind("work"))?)?))];
    fields.extend(behind("function").map(|function| field("function", function_of(function))));
    Some(fields)
}

/// `dev=254:0 ino=3c4d7 ofs=1261568`, before 6.2 `dev 254:0 ino 3c4d7 ofs=…`.
pub(super) fn filemap_fault(text: &str) -> Option<Fields<'_>> {
    let words: Vec<&str> = text.split([' ', '=']).filter(|word| !word.is_empty()).collect();
    let behind =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1).copied());
    let (major, minor) = behind("dev")?.split_once(':')?;
    let offset: u64 = behind("ofs")?.parse().ok()?;
    Some(vec![
        field("s_dev", Number(device(major, minor)?)),
        field("i_ino", Number(i64::from_str_radix(behind("ino")?, 16).ok()?)),
        field("index", Number((offset >> 12) as i64)),
    ])
}

fn device(major: &str, minor: &str) -> Option<i64> {
    Some((major.parse::<i64>().ok()? << 20) | minor.parse::<i64>().ok()?)
}

/// `254,0 RA 16384 () 25526272 + 32 none,0,0 [comm]`; of a completion without bytes and with `[error]`.
pub(super) fn block_request(text: &str) -> Option<Fields<'_>> {
    let mut words = text.split(' ');
    let (major, minor) = words.next()?.split_once(',')?;
    let rwbs = words.next()?;
    let (before, behind) = text.split_once(" + ")?;
    let sector = before.rsplit(' ').next()?.parse().ok()?;
    let count = behind.split(' ').next()?.parse().ok()?;
    let last = behind.rsplit_once('[').map_or("", |(_, last)| last.trim_end_matches(']'));
    Some(vec![
        field("dev", Number(device(major, minor)?)),
        field("rwbs", Text(rwbs)),
        field("sector", Number(sector)),
        field("nr_sector", Number(count)),
        match last.parse() {
            Ok(error) => field("error", Number(error)),
            Err(_) => field("comm", Text(last)),
        },
    ])
}

/// `0xffff… (flags=SPIN|READ)`, `0xffff… (ret=0)`.
pub(super) fn contention(text: &str) -> Option<Fields<'_>> {
    const FLAGS: [&str; 6] = ["SPIN", "READ", "WRITE", "RT", "PERCPU", "MUTEX"];
    let (lock, behind) = text.split_once(" (")?;
    let lock = field("lock_addr", Number(address(lock.trim())?));
    let (name, value) = behind.trim_end_matches(')').split_once('=')?;
    let value = match name {
        "flags" => {
            let bit = |flag: &str| FLAGS.iter().position(|known| *known == flag).map_or(0, |bit| 1 << bit);
            number(value).unwrap_or_else(|| value.split('|').map(bit).fold(0, |bits, bit| bits | bit))
        }
        _ => value.parse().ok()?,
    };
    Some(vec![lock, field(name, Number(value))])
}

/// `… expires=4295759678 [timeout=1] …`: the record has the jiffies of now instead of the difference.
pub(super) fn wheel_timer(text: &str) -> Option<Fields<'_>> {
    let timeout: i64 = text.split_once("[timeout=")?.1.split(']').next()?.parse().ok()?;
    let mut fields = pairs("timer_start", text);
    let (_, expires) = fields.iter().find(|(name, _)| name == "expires")?;
    let Number(expires) = *expires else { return None };
    fields.push(field("now", Number(expires.wrapping_sub(timeout))));
    Some(fields)
}

/// `perf_event_nmi_handler() delta_ns: 4900000 handled: 1`, `cpu: 0001 target: 237 step: 238 (function)`.
pub(super) fn behind_colons(text: &str) -> Option<Fields<'_>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let named = words.windows(2).filter_map(|pair| {
        let name = match pair[0].strip_suffix(':')? {
            "step" => "idx",
            name => name,
        };
        Some(field(name, Number(pair[1].parse().ok()?)))
    });
    let fields: Fields = named.collect();
    (!fields.is_empty()).then_some(fields)
}

/// `__schedule <-schedule`.
pub(super) fn function(text: &str) -> Option<Fields<'_>> {
    let (ip, parent) = text.split_once(" <-")?;
    Some(vec![field("ip", function_of(ip.trim())), field("parent_ip", function_of(parent.trim()))])
}
