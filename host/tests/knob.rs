//! Knobs are restored: on drop, after a kill at any time, and never over a foreign change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lathunt_host::knob::{self, Knobs, Outcome};

/// Set for the copy of this test program that changes knobs and is killed.
const ROLE: &str = "LATHUNT_TEST_KNOBS";
const NAMES: [&str; 3] = ["governor", "affinity", "watchdog"];
/// Plain files stand for knobs here. They keep what a shorter value leaves over, so all values of one are of one length.
const OLD: [&str; 3] = ["powersave\n", "00000003\n", "1\n"];
const NEW: [&str; 3] = ["schedutil", "00000001", "0"];

struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { root: tempfile::tempdir().unwrap() };
        NAMES.iter().zip(OLD).for_each(|(name, old)| fs::write(machine.knob(name), old).unwrap());
        machine
    }
    fn knob(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
    fn journal(&self) -> PathBuf {
        self.root.path().join("run")
    }
    fn journal_text(&self) -> String {
        fs::read_to_string(self.journal().join("knobs.journal")).unwrap_or_default()
    }
    fn values(&self) -> Vec<String> {
        NAMES.iter().map(|name| fs::read_to_string(self.knob(name)).unwrap().trim().to_owned()).collect()
    }
}

fn is_back(values: &[String]) -> bool {
    values.iter().zip(OLD).all(|(value, old)| value == old.trim())
}

fn change_all(knobs: &mut Knobs, root: &Path) {
    for (name, value) in NAMES.iter().zip(NEW) {
        assert!(knobs.set(&root.join(name), value).unwrap());
    }
}

/// Not a test of its own: changes knobs again and again, journalling each, until it is killed.
#[test]
fn the_victim_of_the_other_tests() {
    let Some(root) = std::env::var_os(ROLE).map(PathBuf::from) else { return };
    loop {
        let (mut knobs, _) = Knobs::open(&root.join("run")).unwrap();
        change_all(&mut knobs, &root);
        drop(knobs);
    }
}

fn victim(machine: &Machine) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_victim_of_the_other_tests", "--nocapture"])
        .env(ROLE, machine.root.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn after_kill_9_at_any_moment_the_next_start_puts_everything_back() {
    let machine = Machine::new();
    let mut found_changed = 0;
    for round in 0..20 {
        let mut victim = victim(&machine);
        // Kills when the journal has just grown to `lines`, or a few microseconds later.
        let lines = 1 + round % 10;
        let deadline = Instant::now() + Duration::from_secs(20);
        while machine.journal_text().lines().count() < lines && Instant::now() < deadline {}
        std::thread::sleep(Duration::from_micros(37 * (round as u64 % 7)));
        victim.kill().unwrap();
        victim.wait().unwrap();
        found_changed += usize::from(!is_back(&machine.values()));
        let restored = knob::recover(&machine.journal()).unwrap();
        assert!(is_back(&machine.values()), "round {round}: {:?} after {restored:?}", machine.values());
        assert!(
            !restored.iter().any(|one| matches!(one.outcome, Outcome::ChangedByOther { .. })),
            "{restored:?}"
        );
        assert_eq!(knob::pending(&machine.journal()).unwrap(), []);
    }
    assert!(found_changed > 0, "no kill ever hit between change and restoration: this shows nothing");
}

/// The journal of three changes as a killed process leaves it.
fn complete_journal(machine: &Machine) -> String {
    let (mut knobs, _) = Knobs::open(&machine.journal()).unwrap();
    change_all(&mut knobs, machine.root.path());
    machine.journal_text()
}

#[test]
fn every_prefix_of_the_journal_torn_anywhere_puts_back_what_was_written_by_then() {
    let whole = complete_journal(&Machine::new());
    assert_eq!(whole.lines().count(), 7, "begin, and change and seen for each knob: {whole}");
    for end in 0..=whole.len() {
        let prefix = &whole[..end];
        let changes = prefix.matches("{\"change\"").count().min(prefix.matches('\n').count().div_ceil(2));
        let seen = prefix.matches("\"seen\":{").count();
        // A knob whose change line is on disk may or may not have been written; one that was seen has been.
        for made in seen..=changes {
            if !prefix.ends_with('\n')
                && made > seen
                && prefix.lines().last().is_some_and(|l| l.contains("\"change\""))
            {
                continue; // that line is torn: its knob was not touched yet
            }
            let machine = Machine::new();
            let rebased = rebase(prefix, &machine);
            drop(Knobs::open(&machine.journal()).unwrap());
            fs::write(machine.journal().join("knobs.journal"), rebased).unwrap();
            (0..made).for_each(|k| fs::write(machine.knob(NAMES[k]), NEW[k]).unwrap());
            knob::recover(&machine.journal()).unwrap();
            assert!(is_back(&machine.values()), "{made} made, journal {prefix:?}: {:?}", machine.values());
        }
    }
}

/// The same journal with its paths below another machine's root.
fn rebase(journal: &str, machine: &Machine) -> String {
    let mut text = journal.to_owned();
    for name in NAMES {
        let quoted = format!("/{name}\"");
        while let Some(end) = text.find(&quoted) {
            let start = text[..end].rfind('"').unwrap() + 1;
            text.replace_range(
                start..end + quoted.len() - 1,
                &format!("{}#{name}", machine.root.path().display()),
            );
        }
    }
    text.replace('#', "/")
}

#[test]
fn dropping_puts_back_in_reverse_and_removes_the_journal() {
    let machine = Machine::new();
    let (mut knobs, left) = Knobs::open(&machine.journal()).unwrap();
    assert_eq!(left, []);
    change_all(&mut knobs, machine.root.path());
    knobs.set(&machine.knob("governor"), "userspace").unwrap();
    assert_eq!(machine.values()[0], "userspace");
    drop(knobs);
    assert!(is_back(&machine.values()), "{:?}", machine.values());
    assert_eq!(machine.journal_text(), "");
}

#[test]
fn the_old_value_is_on_disk_before_the_new_one_is_written() {
    let machine = Machine::new();
    let (mut knobs, _) = Knobs::open(&machine.journal()).unwrap();
    fs::remove_file(machine.knob("governor")).unwrap();
    let pipe = std::ffi::CString::new(machine.knob("governor").to_str().unwrap()).unwrap();
    // A named pipe as the knob: its reader sees when the knob is written. SAFETY: a NUL-terminated path that outlives
    // the call.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let (path, journal) = (machine.knob("governor"), machine.journal().join("knobs.journal"));
    let other_side = std::thread::spawn(move || {
        fs::write(&path, "powersave\n").unwrap(); // the first read
        let written = fs::read_to_string(&path).unwrap(); // the write
        let known = fs::read_to_string(journal).unwrap();
        fs::write(&path, &written).unwrap(); // the read back
        (written, known)
    });
    let knob = machine.knob("governor");
    let changing = std::thread::spawn(move || (knobs.set(&knob, "performance").unwrap(), knobs));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !(other_side.is_finished() && changing.is_finished()) {
        assert!(Instant::now() < deadline, "the order read, write, read back was not kept");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ((written, known), (changed, knobs)) = (other_side.join().unwrap(), changing.join().unwrap());
    assert!(changed);
    assert_eq!(written, "performance");
    assert!(known.contains("\"old\":\"powersave\",\"new\":\"performance\""), "{known}");
    fs::remove_file(machine.knob("governor")).unwrap();
    assert_eq!(knobs.restore().unwrap()[0].outcome, Outcome::Gone);
}

#[test]
fn somebody_elses_later_change_and_vanished_files_are_reported_and_left_alone() {
    let machine = Machine::new();
    let (mut knobs, _) = Knobs::open(&machine.journal()).unwrap();
    change_all(&mut knobs, machine.root.path());
    fs::write(machine.knob("governor"), "ondemand!\n").unwrap();
    fs::remove_file(machine.knob("affinity")).unwrap();
    fs::write(machine.knob("watchdog"), "1\n").unwrap();
    let restored = knobs.restore().unwrap();
    let outcomes: Vec<Outcome> = restored.into_iter().map(|one| one.outcome).collect();
    let by_other = Outcome::ChangedByOther {
        found: "ondemand!".into(),
        ours: "schedutil".into(),
        before: "powersave".into(),
    };
    assert_eq!(outcomes, [Outcome::AlreadyBack, Outcome::Gone, by_other]);
    assert_eq!(fs::read_to_string(machine.knob("governor")).unwrap(), "ondemand!\n");
    assert!(!machine.knob("affinity").exists(), "a knob must never be created");
    assert_eq!(machine.journal_text(), "");
}

#[test]
fn a_second_lathunt_is_refused_while_the_first_holds_knobs() {
    let machine = Machine::new();
    let first = Knobs::open(&machine.journal()).unwrap();
    let error = Knobs::open(&machine.journal()).unwrap_err().to_string();
    assert!(error.contains(&format!("another lathunt (pid {})", std::process::id())), "{error}");
    drop(first);
    Knobs::open(&machine.journal()).unwrap();
}

#[test]
fn a_journal_of_an_earlier_boot_changes_nothing() {
    let machine = Machine::new();
    let whole = rebase(&complete_journal(&Machine::new()), &machine);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    drop(Knobs::open(&machine.journal()).unwrap());
    let earlier = whole.replace(boot.trim(), "00000000-0000-0000-0000-000000000000");
    assert_ne!(earlier, whole);
    fs::write(machine.journal().join("knobs.journal"), earlier).unwrap();
    fs::write(machine.knob("governor"), "performance").unwrap();
    let restored = knob::recover(&machine.journal()).unwrap();
    assert!(
        restored.len() == 3 && restored.iter().all(|one| one.outcome == Outcome::BootedSince),
        "{restored:?}"
    );
    assert_eq!(machine.values()[0], "performance");
}

/// What an earlier run left and cannot be put back outlives the changes of a later one.
#[test]
fn what_cannot_be_put_back_stays_in_the_journal_whatever_comes_after() {
    let machine = Machine::new();
    // /dev/null takes every value and holds none: it can be changed from "1" and never put back.
    let stubborn = complete_journal(&Machine::new()).lines().next().unwrap().to_owned()
        + "\n{\"change\":{\"number\":0,\"path\":\"/dev/null\",\"old\":\"1\",\"new\":\"\"}}\n"
        + "{\"seen\":{\"number\":0,\"value\":\"\"}}\n";
    drop(Knobs::open(&machine.journal()).unwrap());
    fs::write(machine.journal().join("knobs.journal"), stubborn).unwrap();
    let (mut knobs, before) = Knobs::open(&machine.journal()).unwrap();
    assert!(before.len() == 1 && before[0].outcome.is_due(), "{before:?}");
    change_all(&mut knobs, machine.root.path());
    assert!(knobs.restore().unwrap().iter().all(|one| !one.outcome.is_due()));
    assert!(is_back(&machine.values()), "{:?}", machine.values());
    let left = knob::pending(&machine.journal()).unwrap();
    assert_eq!(left.iter().map(|change| change.path.as_path()).collect::<Vec<_>>(), [Path::new("/dev/null")]);
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new();
    fs::create_dir(machine.journal()).unwrap();
    fs::set_permissions(machine.journal(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = Knobs::open(&machine.journal()).unwrap_err().to_string();
    assert!(error.contains("only this user can write"), "{error}");
}

#[test]
fn a_refused_change_leaves_nothing_in_the_journal() {
    let machine = Machine::new();
    let (mut knobs, _) = Knobs::open(&machine.journal()).unwrap();
    assert!(knobs.set(&machine.knob("absent"), "1").is_err());
    assert!(!knobs.set(&machine.knob("affinity"), "3").unwrap(), "3 and 00000003 are the same mask");
    // Readable, and every write to it fails.
    assert!(knobs.set(Path::new("/proc/self/status"), "1").is_err());
    assert_eq!(knob::pending(&machine.journal()).unwrap(), []);
}

/// On a real knob: /proc/sys takes the value, shows it in its own form, and gets the old one back.
#[test]
#[ignore = "root: run by make test"]
fn a_sysctl_is_changed_and_comes_back() {
    use lathunt_host::testing;
    if !testing::may_run("a_sysctl_is_changed_and_comes_back", testing::lacks_root()) {
        return;
    }
    let path = Path::new("/proc/sys/vm/stat_interval");
    let before = fs::read_to_string(path).unwrap();
    let machine = Machine::new();
    let (mut knobs, _) = Knobs::open(&machine.journal()).unwrap();
    let odd = if before.trim() == "7" { "8" } else { "7" };
    assert!(knobs.set(path, odd).unwrap());
    assert_eq!(fs::read_to_string(path).unwrap().trim(), odd);
    assert!(knobs.set(Path::new("/proc/sys/vm/swappiness"), "100000").is_err(), "EINVAL");
    let restored = knobs.restore().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), before);
    assert_eq!(restored.len(), 1, "{restored:?}");
}

#[test]
fn a_journal_in_a_directory_of_the_users_choice_is_found_while_it_holds_changes() {
    let machine = Machine::new();
    let journal = machine.journal();
    let (mut knobs, _) = Knobs::open(&journal).unwrap();
    let canonical = journal.canonicalize().unwrap();
    assert!(!knob::elsewhere().contains(&canonical), "nothing is changed yet");
    change_all(&mut knobs, machine.root.path());
    assert!(knob::elsewhere().contains(&canonical));
    let moved = machine.root.path().join("moved");
    fs::rename(&journal, &moved).unwrap();
    fs::create_dir(&journal).unwrap();
    assert!(!knob::elsewhere().contains(&canonical), "another directory of this name");
    assert!(knob::lost().contains(&canonical), "what it holds is still changed");
    fs::remove_dir(&journal).unwrap();
    fs::rename(&moved, &journal).unwrap();
    assert!(!knob::lost().contains(&canonical));
    drop(knobs);
    assert!(is_back(&machine.values()));
    assert!(!knob::elsewhere().contains(&canonical));
}

#[test]
fn a_journal_whose_directory_another_user_can_rename_is_refused() {
    const NAME: &str = "a_journal_whose_directory_another_user_can_rename_is_refused";
    if !lathunt_host::testing::may_run(NAME, lathunt_host::testing::lacks_root()) {
        return;
    }
    let machine = Machine::new();
    let (theirs, journal) = (machine.root.path().join("theirs"), machine.root.path().join("theirs/a/b"));
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(65_531), None).unwrap();
    let why = || Knobs::open(&journal).unwrap_err().to_string();
    assert!(why().contains("belongs to user 65531"), "{}", why());
    assert!(!theirs.join("a").exists());
    fs::create_dir_all(&journal).unwrap();
    assert!(why().contains("user 65531 can rename or replace it"), "{}", why());
    let link = machine.root.path().join("link");
    std::os::unix::fs::symlink(machine.root.path(), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65_531), None).unwrap();
    let through = Knobs::open(&link.join("other")).unwrap_err().to_string();
    assert!(through.contains("symbolic link of user 65531"), "{through}");
    std::os::unix::fs::chown(&theirs, Some(0), None).unwrap();
    fs::set_permissions(&theirs, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert!(why().contains("everybody can rename or replace it"), "{}", why());
    fs::set_permissions(&theirs, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    assert!(Knobs::open(&journal).is_ok(), "sticky, as /tmp");
}
