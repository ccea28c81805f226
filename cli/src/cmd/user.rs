//! The user for COMMAND.

use std::ffi::OsString;

use lathunt_host::user::User;

/// The user for `command`: `named` by `option`, or the one who called sudo, which is reported, because the command has that
/// user's rights. `None`: that of this process.
///
/// # Errors
/// There is no such user, or this process may not become them.
pub fn of_command(named: Option<&str>, option: &str, command: &[OsString]) -> anyhow::Result<Option<User>> {
    let Some(program) = command.first() else { return Ok(None) };
    let user = User::of_command(named)?;
    if let (Some(user), None) = (&user, named) {
        let name = if user.name.is_empty() { user.uid.to_string() } else { user.name.clone() };
        let program = program.to_string_lossy();
        eprintln!("lathunt: {program} runs as {name}, who called sudo; {option} root runs it as root");
    }
    Ok(user)
}
