//! Bad input for every option: one clear line, status 1, nothing made or changed.

use std::fs;

use super::lathunt;

#[test]
fn nonsense_is_refused_in_one_line_and_nothing_is_made() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "dear to somebody").unwrap();
    let file = file.to_str().unwrap();
    let below = format!("{file}/below.sqlite");
    let elsewhere = tempfile::tempdir().unwrap();
    let fifo = elsewhere.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    for (arguments, named) in [
        (&["monitor", "--window", "0"][..], "--window"),
        (&["monitor", "--window", "10ms"], "100 ms"),
        (&["monitor", "--window", "2d"], "a day"),
        (&["monitor", "--window", "0.3333s"], "milliseconds"),
        (&["monitor", "--window", "soon"], "soon"),
        (&["monitor", "--keep", "0s"], "--keep"),
        (&["monitor", "--keep", "400"], "400d, 12h"),
        (&["monitor", "--keep", "4_00 "], "400d, 12h"),
        (&["monitor", "--tasks", "comm:a,[b"], "without its ']'"),
        (&["monitor", "--size", "12"], "1M"),
        (&["monitor", "--size=-1G"], "-1G"),
        (&["monitor", "--size", "99999999T"], "99999999T"),
        (&["monitor", "--listen", "9745"], "9745"),
        (&["monitor", "--listen", "localhost:9745"], "localhost"),
        (&["monitor", "--cpus", "1-"], "1-"),
        (&["monitor", "--database", file], "no monitor wrote it"),
        (&["monitor", "--database", &below], "file"),
        (&["monitor", "extra"], "extra"),
        (&["history", "--database", "absent.sqlite"], "no such file"),
        (&["history", "--database", file], "file"),
        (&["history", "--database", "."], "it is a directory"),
        (&["history", "--database", fifo], "not a regular file"),
        (&["munin", "config", "--database", fifo], "not a regular file"),
        (&["monitor", "--database", fifo], "not a regular file"),
        (&["history", "--since", "yesterday"], "yesterday"),
        (&["history", "--since", "0"], "--since"),
        (&["history", "--series", "irqsoff"], "irqsoff"),
        (&["history", "--series", "wakeup@x"], "'x'"),
        (&["history", "--json", "--csv"], "--csv"),
        (&["history", "--plot", "x.gif"], ".svg, .png or .html"),
        (&["munin", "nonsense"], "nonsense"),
        (&["munin", "config", "--database", "absent.sqlite"], "no such file"),
        (&["merge", "one"], "RUN"),
        (&["merge", file, file, "-o", "merged.json"], "not a run file"),
        (&["merge", file, file], "--output"),
    ] {
        let output = lathunt().args(arguments).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "only the file that was there");
    assert_eq!(fs::read_to_string(file).unwrap(), "dear to somebody");
    let autoconf = lathunt().args(["munin", "autoconf", "--database", "absent.sqlite"]).output().unwrap();
    assert!(autoconf.status.success() && autoconf.stdout.starts_with(b"no ("));
    let unset = lathunt().args(["munin", "autoconf"]).env("LATHUNT_DATABASE", "").output().unwrap();
    assert!(!String::from_utf8_lossy(&unset.stdout).contains("read : "), "empty is as good as unset");
}
