//! The systemd units are restricted to what they need.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_units_are_restricted() {
    let absent = Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .err()
        .map(|_| "systemd-analyze is not installed");
    if !lathunt_host::testing::may_run("the_units_are_restricted", absent) {
        return;
    }
    let units = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/systemd"));
    let place = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(units).unwrap() {
        let unit = entry.unwrap().path();
        let copy = place.path().join(unit.file_name().unwrap());
        let text = fs::read_to_string(&unit).unwrap().replace("@PREFIX@/bin/lathunt", "/bin/true");
        fs::write(&copy, text).unwrap();
        // 2.5 of 10; a unit without restrictions has 9.6.
        let mut judged = Command::new("systemd-analyze");
        judged.args(["security", "--offline=yes", "--threshold=25", "--no-pager"]).arg(&copy);
        let output = judged.output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}", unit.display(), said.lines().last().unwrap_or_default());
        seen += 1;
    }
    assert!(seen >= 2);
}
