//! Kernel configurations and snapshots of `check`, which may be compressed.

use std::fs;
use std::process::Command;

use super::{limited, succeeds_within, MIB};

fn options(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    let mut number = 0;
    while text.len() < bytes {
        number += 1;
        text += &format!("CONFIG_O{number}=y\n");
    }
    text + "CONFIG_PREEMPT_RT=y\n"
}

#[test]
fn a_kernel_configuration_is_not_held_in_memory_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("config"), options(20 * MIB)).unwrap();
    succeeds_within(30_000, &["check", "--kconfig", "config"], place.path());
}

/// What `check` says of the gzip of `text`.
fn said_of_packed(option: &str, text: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), text).unwrap();
    let gzip = Command::new("gzip").arg("-9").arg("file").current_dir(place.path()).status().unwrap();
    assert!(gzip.success());
    assert!(fs::metadata(place.path().join("file.gz")).unwrap().len() < MIB as u64);
    let output = limited(&["check", option, "file.gz"], place.path());
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_check_reads_does_not_unfold_without_limit() {
    let long = "#".repeat(200 * MIB);
    assert!(said_of_packed("--kconfig", &long).contains("line 1 has more than 64 KiB"));
    let lines = format!("CONFIG_A={}\n", "y".repeat(1_000)).repeat(66 * 1024);
    for option in ["--kconfig", "--root"] {
        assert!(said_of_packed(option, &lines).contains("larger than 64 MiB"));
    }
    let numbers = format!("[{}0]", "0,".repeat(30 * MIB));
    assert!(said_of_packed("--root", &numbers).contains("not a snapshot"));
    let facts: String = (0..300_000).map(|fact| format!("\"{fact}\":\"\",")).collect();
    let facts = format!(
        "{{\"format\":\"lathunt-snapshot\",\"version\":1,\"of\":\"tree\",\"files\":{{{facts}\"\":\"\"}}}}"
    );
    assert!(said_of_packed("--root", &facts).contains("more than 262144 facts of one kind"));
}
