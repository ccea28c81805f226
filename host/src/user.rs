//! The user that a program runs as: the one who called sudo, or a named one.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::{Error, Result};
use crate::trusted::{me, sudo_caller};

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// All groups.
    groups: Vec<u32>,
    /// Name; empty if the machine has none for the id.
    pub name: String,
    home: Option<String>,
}

impl User {
    /// The user for COMMAND: `named`, or the one who called sudo; `None`: that of this process.
    ///
    /// # Errors
    /// There is no such user, or this process may not become another one.
    pub fn of_command(named: Option<&str>) -> Result<Option<User>> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
        let Some(named) = named else {
            let of = |(uid, gid)| {
                find(&users, &groups, |_, known| known == uid).unwrap_or_else(|| unnamed(uid, gid))
            };
            return Ok(sudo_caller().map(of));
        };
        let number = named.parse::<u32>().ok();
        let found = find(&users, &groups, |name, uid| name == named || Some(uid) == number);
        let found = found.or(number.map(|uid| unnamed(uid, uid)));
        let Some(user) = found else {
            return Err(Error::refused(
                "run",
                format!("the command as '{named}'"),
                "/etc/passwd has no such user",
            ));
        };
        match user.uid == me() {
            true => Ok(None),
            false if me() == 0 => Ok(Some(user)),
            false => {
                Err(Error::refused("run", format!("the command as '{named}'"), "only root may: use sudo"))
            }
        }
    }

    /// Lets `command` run as this user, with their groups and home directory. Root lifts their limits of real-time priority,
    /// nice value and locked memory for it: a measured program may need them, and users who may call sudo have them anyway.
    pub fn runs(&self, command: &mut Command) {
        // SAFETY: only system calls, which is all that may be done between fork and exec.
        unsafe {
            command.pre_exec(|| {
                for (limit, most) in [
                    (libc::RLIMIT_RTPRIO, 99),
                    (libc::RLIMIT_NICE, 40),
                    (libc::RLIMIT_MEMLOCK, libc::RLIM_INFINITY),
                ] {
                    // If refused, the program keeps its user's limits.
                    libc::setrlimit(limit, &libc::rlimit { rlim_cur: most, rlim_max: most });
                }
                Ok(())
            });
        }
        self.becomes(command);
    }

    /// Lets `command` run as this user, with their groups, home directory and limits.
    pub fn becomes(&self, command: &mut Command) {
        for (variable, value) in
            [("USER", Some(&self.name)), ("LOGNAME", Some(&self.name)), ("HOME", self.home.as_ref())]
        {
            match value.filter(|value| !value.is_empty()) {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        let User { uid, gid, groups, .. } = self.clone();
        // SAFETY: only system calls, which is all that may be done between fork and exec; `groups` was filled before.
        unsafe {
            command.pre_exec(move || {
                let done = libc::setgroups(groups.len(), groups.as_ptr()) == 0
                    && libc::setgid(gid) == 0
                    && libc::setuid(uid) == 0;
                if done {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            });
        }
    }
}

fn unnamed(uid: u32, gid: u32) -> User {
    User { uid, gid, groups: vec![gid], name: String::new(), home: None }
}

/// The user of the line of `/etc/passwd` that `is` accepts, with the groups of `/etc/group`.
fn find(users: &str, groups: &str, is: impl Fn(&str, u32) -> bool) -> Option<User> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).filter(|home| home.starts_with('/')).map(str::to_owned);
        let mut all = vec![gid];
        for line in groups.lines() {
            let mut fields = line.split(':').skip(2);
            let (Some(Ok(group)), Some(members)) = (fields.next().map(str::parse), fields.next()) else {
                continue;
            };
            if members.split(',').any(|member| member == name) && !all.contains(&group) {
                all.push(group);
            }
        }
        is(name, uid).then(|| User { uid, gid, groups: all, name: name.to_owned(), home })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_groups_that_list_them() {
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann,,,:/home/ann:/bin/bash\n";
        let groups = "root:x:0:\naudio:x:29:ann,ben\nrealtime:x:995:ben\nann:x:1000:\n";
        let ann = find(users, groups, |name, _| name == "ann").unwrap();
        assert_eq!(
            (ann.uid, ann.gid, ann.groups, ann.home.as_deref()),
            (1000, 1000, vec![1000, 29], Some("/home/ann"))
        );
        assert_eq!(find(users, groups, |_, uid| uid == 7), None);
    }
}
