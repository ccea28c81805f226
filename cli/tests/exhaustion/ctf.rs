//! CTF descriptions that are larger than those of any trace.

use std::fs;

use super::{limited, MIB};

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

const HEAD: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 32; align = 8; signed = false; byte_order = le; } := u32;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; }; };
";
const STREAM: &str = "stream { event.header := struct { u32 id; }; };\n";

/// What `explain` prints of a trace with these metadata and no event.
fn said_of(metadata: &str) -> String {
    assert!(metadata.len() < MIB);
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("metadata"), metadata).unwrap();
    fs::write(place.path().join("stream"), [0xc1, 0x1f, 0xfc, 0xc1]).unwrap();
    let output = limited(&["explain", ".", "--summary"], place.path());
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn events(count: usize, fields: &str) -> String {
    let event = |id| format!("event {{ name = \"e{id}\"; id = {id}; fields := struct {{ {fields} }}; }};\n");
    (0..count).map(event).collect()
}

fn each(count: usize, text: &dyn Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

/// A struct of 2^`doublings` integers, whose fields have names that end in `name`.
fn doubled(doublings: usize, name: &str) -> String {
    let twice = |n: usize| format!("struct s{} {{ struct s{n} {name}a; struct s{n} {name}b; }};\n", n + 1);
    "struct s0 { u32 x; };\n".to_owned() + &each(doublings, &twice)
}

#[test]
fn types_that_are_used_again_and_again_unfold_up_to_a_limit() {
    let begin = HEAD.to_owned() + STREAM;
    let (long, beyond) = ("x".repeat(3_000), "fields beyond measure");
    for (doublings, name, damage) in [(17, "", "too many fields"), (14, "", beyond), (14, &long, beyond)] {
        let used = events(5_000, &format!("struct s{doublings} x;"));
        let said = said_of(&format!("{begin}{}{used}", doubled(doublings, name)));
        assert!(said.contains(damage), "{doublings}: {said}");
    }
}

#[test]
fn names_labels_and_streams_are_not_searched_from_the_start_for_each_use() {
    let begin = HEAD.to_owned() + STREAM;
    let integers = each(25_000, &|n| format!("u32 a{n}; "));
    let lengths = each(25_000, &|n| format!("u8 s{n}[n]; "));
    let many = format!("struct q {{ u32 n; {integers}{lengths} }};\n") + &events(100, "struct q x;");
    assert!(said_of(&(begin.clone() + &many)).contains("fields beyond measure"));
    let labels = each(20_000, &|n| format!("v{n} = {n}, "));
    let options = each(20_000, &|n| format!("u8 v{n}; "));
    let variant = format!("struct q {{ enum : u32 {{ {labels} }} e; variant <e> {{ {options} }} v; }};\n");
    assert!(said_of(&(begin + &variant + &events(200, "struct q x;"))).contains("fields beyond measure"));
    let said = said_of(&(HEAD.to_owned() + &"event{};".repeat(120_000) + STREAM));
    assert!(said.contains("contains no events"), "{said}");
}
