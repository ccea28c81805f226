//! Lines by which people mark that they left lines out.

/// Whether it marks omitted lines: `[...]`, `....`, `<snip>`, `[omitted for brevity]`.
pub(super) fn is_omission(line: &str) -> bool {
    const LONGEST: usize = 48;
    let bare = line.trim_matches(|c: char| "[](){}<>-*#~ ".contains(c));
    let words = ["snip", "omitted", "skipped", "truncated", "removed", "left out"];
    let said = || words.iter().any(|word| bare.to_ascii_lowercase().contains(word));
    line.len() <= LONGEST
        && !line.starts_with('#')
        && (bare.starts_with("...") || bare.starts_with('…') || said())
}
