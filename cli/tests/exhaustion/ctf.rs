//! CTF descriptions that are larger than those of any trace.

use std::fs;

use super::limited;

#[test]
fn a_description_of_more_events_than_any_system_has_is_read_up_to_a_limit() {
    let mut metadata = String::from("/* CTF 1.8 */\n");
    metadata += "typealias integer { size = 8; align = 8; signed = false; } := u8;\n";
    metadata += "typealias integer { size = 32; align = 8; signed = false; byte_order = le; } := u32;\n";
    metadata += "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; }; };\n";
    metadata += "stream { event.header := struct { u32 id; }; };\n";
    for id in 0..100_000 {
        metadata += &format!("event {{ name = \"e{id}\"; id = {id}; fields := struct {{ u8 x; }}; }};\n");
    }
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("metadata"), metadata).unwrap();
    fs::write(place.path().join("stream"), [0xc1, 0x1f, 0xfc, 0xc1]).unwrap();
    let output = limited(&["explain", ".", "--summary"], place.path());
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("more than 1048576 words"), "{said}");
}
