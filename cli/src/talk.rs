//! `eprintln!` and `eprint!` that tolerate a closed stderr (`2>&1 | head`, a logger that ended), on which std's macros
//! panic: neither a measurement nor a monitor may end that way. Untrusted names reach the terminal as text: only our own
//! escape sequences pass, all other control characters are escaped.

macro_rules! eprint {
    ($($told:tt)*) => {{
        $crate::talk::say(&format!($($told)*));
    }};
}

macro_rules! eprintln {
    () => { eprint!("\n") };
    ($($told:tt)*) => { eprint!("{}\n", format_args!($($told)*)) };
}

/// Writes `text` to stderr.
pub fn say(text: &str) {
    let mut error = std::io::stderr().lock();
    let (begin, text) = match text.strip_prefix('\r') {
        Some(text) => ("\r", text),
        None => ("", text),
    };
    let text = lathunt_core::printable::lines(text, |code| code == "[K");
    let text = lathunt_core::printable::no_commands(&text);
    let _ = std::io::Write::write_all(&mut error, [begin, &text].concat().as_bytes());
}
