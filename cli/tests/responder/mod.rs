//! `lathunt respond` in the background: it does not outlive its test.

use std::process::{Child, Command, Stdio};

pub struct Responder(pub Child);

impl Responder {
    /// Quiet, with these arguments.
    pub fn start(arguments: &[&str]) -> Responder {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        command.args(["respond", "-q"]).args(arguments).stdout(Stdio::null());
        Responder(command.spawn().unwrap())
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
