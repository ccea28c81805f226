//! `eprintln!` and `eprint!` for whoever may have left: std's panic when nobody reads stderr any more (`2>&1 | head`, a
//! logger that ended), and no measurement and no monitor may end by that.

macro_rules! eprint {
    ($($told:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr().lock(), format_args!($($told)*));
    }};
}

macro_rules! eprintln {
    () => { eprint!("\n") };
    ($($told:tt)*) => { eprint!("{}\n", format_args!($($told)*)) };
}
