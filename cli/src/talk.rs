//! `eprintln!` and `eprint!` for whoever may have left: std's panic when nobody reads stderr any more (`2>&1 | head`, a
//! logger that ended), and no measurement and no monitor may end by that. Names of strangers reach the terminal as text:
//! what draws a line anew is our own, all other control characters are written out.

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
