//! The `lathunt` binary: arguments, terminal, files, exit codes.
fn main() {
    println!("lathunt {}", env!("CARGO_PKG_VERSION"));
}
