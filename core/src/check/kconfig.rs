//! The build options of a kernel that rules use, from the lines of its configuration (`.config`, `/boot/config-*`).
//!
//! Line by line, and without the options that no rule uses: memory does not grow with the file.

use std::collections::{BTreeMap, BTreeSet};

use super::rules;
use super::snapshot::{Origin, Snapshot};

/// Maximum length of a line in bytes; the longest option, CONFIG_CMDLINE, has at most 4096 (`COMMAND_LINE_SIZE`).
pub const LONGEST_LINE: usize = 1 << 16;
/// Number of options without a prompt from which on the configuration is complete.
const UNCHOSEN: usize = 10;
/// An option without a prompt: an excerpt may have the header and lack it all the same.
const SUPPORT: &str = "ARCH_SUPPORTS_RT";
/// Lines that may be the header of Kconfig.
const HEADER: usize = 10;

/// The options set by the lines so far.
#[derive(Debug)]
pub struct Kconfig {
    /// [`rules::options`], sorted.
    known: Vec<&'static str>,
    lines: usize,
    has_options: bool,
    /// By name without `CONFIG_`; those "not set" are `n`. Only those in `known`.
    set: BTreeMap<&'static str, String>,
    /// Kconfig writes a header and also options without a prompt, which neither a fragment nor a defconfig contains
    /// (`make savedefconfig` omits them).
    is_headed: bool,
    unchosen: BTreeSet<String>,
    release: Option<String>,
}

impl Default for Kconfig {
    fn default() -> Kconfig {
        Kconfig {
            known: rules::options(),
            lines: 0,
            has_options: false,
            set: BTreeMap::new(),
            is_headed: false,
            unchosen: BTreeSet::new(),
            release: None,
        }
    }
}

impl Kconfig {
    /// The configuration of which `text` is all lines.
    #[must_use]
    pub fn of(text: &str) -> Kconfig {
        let mut config = Kconfig::default();
        text.lines().for_each(|line| config.line(line));
        config
    }

    /// Takes the next line. An option that is set twice has its last value, as in the kernel's build.
    pub fn line(&mut self, line: &str) {
        if self.lines < HEADER {
            self.header(line);
        }
        self.lines += 1;
        let Some((name, value)) = option(line.trim()) else { return };
        self.has_options = true;
        if name == "CC_VERSION_TEXT" {
            self.is_headed = true;
        }
        let is_unchosen = name.starts_with("HAVE_") || name.starts_with("ARCH_HAS_");
        if is_unchosen && self.unchosen.len() < UNCHOSEN {
            self.unchosen.insert(name.to_owned());
        }
        if let Ok(at) = self.known.binary_search(&name) {
            self.set.insert(self.known[at], value.to_owned());
        }
    }

    fn header(&mut self, line: &str) {
        // "# Linux/x86 6.1.192 Kernel Configuration"
        let named = line.strip_prefix("# Linux/").and_then(|line| line.strip_suffix("Kernel Configuration"));
        self.is_headed |= named.is_some() || line.contains("Automatically generated file");
        if let (None, Some(named)) = (&self.release, named) {
            self.release = named.split_ascii_whitespace().nth(1).map(str::to_owned);
        }
    }

    /// The value of each option that rules use; one that is not in the configuration is not set (`n`).
    #[must_use]
    pub fn options(mut self) -> BTreeMap<String, String> {
        let mut value = |name| self.set.remove(name).unwrap_or_else(|| "n".to_owned());
        self.known.iter().map(|&name| (name.to_owned(), value(name))).collect()
    }

    /// A machine of which nothing else is known. `None`: the lines set no build option, so they are something else.
    #[must_use]
    pub fn snapshot(mut self) -> Option<Snapshot> {
        if !self.has_options {
            return None;
        }
        let mut snapshot = Snapshot::empty(Origin::Kconfig);
        if let Some(release) = self.release.take() {
            snapshot.files.insert("/proc/sys/kernel/osrelease".to_owned(), release);
        }
        let is_chosen_alone = self.unchosen.len() < UNCHOSEN;
        snapshot.config_is_partial = !self.is_headed && is_chosen_alone;
        let lacks_support = is_chosen_alone && !self.set.contains_key(SUPPORT);
        let mut config = match snapshot.config_is_partial {
            true => self.set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            false => self.options(),
        };
        if lacks_support {
            config.remove(SUPPORT);
        }
        snapshot.config = Some(config);
        Some(snapshot)
    }
}

/// Name and value of the option in a line, which grep, a mail, a list or a patch may have changed: `+CONFIG_HZ=250`,
/// `> # CONFIG_HZ is not set`, `CONFIG_HZ=250  # a comment`. An option that a patch removes, or that a sentence names, is
/// none.
fn option(line: &str) -> Option<(&str, &str)> {
    let (before, option) = line.split_at(line.find("CONFIG_")?);
    let option = option.strip_prefix("CONFIG_")?;
    let end = option.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(option.len());
    let (name, value) = option.split_at(end);
    if let Some(before) = before.trim_end().strip_suffix('#') {
        let is_whole = value.trim_end_matches(['`', ' ']) == " is not set";
        return (is_whole && may_precede(before)).then_some((name, "n"));
    }
    let value = value.strip_prefix('=').filter(|_| may_precede(before))?;
    if let Some((text, _)) = value.strip_prefix('"').and_then(|value| value.rsplit_once('"')) {
        return Some((name, text));
    }
    let end = value.find([' ', '\t', '`', '#']).unwrap_or(value.len());
    let (value, behind) = value.split_at(end);
    let behind = behind.trim_matches(['`', ' ', '\t']);
    (behind.is_empty() || behind.starts_with('#')).then_some((name, value))
}

/// Whether this can be before an option: blanks, quotes, the mark of a list or of an added line, a number, the name of a file.
fn may_precede(before: &str) -> bool {
    let before = before.trim_start_matches(['>', ' ', '\t']);
    let is_file = before.ends_with(':') && !before.contains(' ');
    let is_stamp = before.starts_with('[') && before.trim_end().ends_with(']');
    is_file || is_stamp || matches!(before.trim_end(), "" | "+" | "*" | "`" | "- `" | "* `") || before == "- "
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_knows_what_is_set_what_is_not_and_texts() {
        let text = "# comment\nCONFIG_PREEMPT_RT=n\n# CONFIG_MIGRATION is not set\nCONFIG_PREEMPT_RT=\"a b\"\nCONFIG_MUSIC=y\n";
        let part = Kconfig::of(text).snapshot().unwrap();
        let set = part.config.unwrap();
        assert!(part.config_is_partial);
        assert_eq!((set["PREEMPT_RT"].as_str(), set["MIGRATION"].as_str(), set.len()), ("a b", "n", 2));
        let all = Kconfig::of(text).options();
        assert_eq!((all["PREEMPT_RT"].as_str(), all["HZ"].as_str()), ("a b", "n"));
        assert_eq!(all.len(), rules::options().len());
        assert_eq!(Kconfig::of("just a text").snapshot(), None);
    }

    #[test]
    fn lines_that_grep_mail_lists_and_patches_changed_are_those_lines() {
        let value = |line: &str| option(line.trim()).map(|(name, value)| (name.to_owned(), value.to_owned()));
        let rt = |value: &str| Some(("PREEMPT_RT".to_owned(), value.to_owned()));
        for before in [
            "",
            "/boot/config-6.1.0-18-rt:",
            "12:",
            "> ",
            ">> ",
            "    ",
            "- ",
            "* ",
            "+",
            "- `",
            "[    0.000000] ",
        ] {
            for behind in ["", "  # needed", "`", " "] {
                assert_eq!(
                    value(&format!("{before}CONFIG_PREEMPT_RT=y{behind}")),
                    rt("y"),
                    "{before}{behind}"
                );
            }
            assert_eq!(value(&format!("{before}# CONFIG_PREEMPT_RT is not set")), rt("n"), "{before}");
        }
        assert_eq!(value("CONFIG_PREEMPT_RT=\"a b\" # c"), rt("a b"));
        for none in [
            "-CONFIG_PREEMPT_RT=y",
            "-# CONFIG_PREEMPT_RT is not set",
            "CONFIG_PREEMPT_RT=y must be set",
            "You need CONFIG_PREEMPT_RT=y",
            "# CONFIG_PREEMPT_RT is not set, as you see",
            "# # CONFIG_PREEMPT_RT=y",
            "#CONFIG_PREEMPT_RT=y",
            "XCONFIG_PREEMPT_RT=y",
            "CONFIG_PREEMPT_RT",
        ] {
            assert_eq!(value(none), None, "{none}");
        }
    }

    #[test]
    fn a_header_or_options_without_a_prompt_make_it_complete() {
        let partial = |text: &str| Kconfig::of(text).snapshot().unwrap().config_is_partial;
        let unchosen = |count: usize| (0..count).map(|n| format!("CONFIG_HAVE_{n}=y\n")).collect::<String>();
        assert!(partial(&unchosen(9)) && partial(&unchosen(1).repeat(20)));
        assert!(!partial(&unchosen(10)) && !partial("CONFIG_CC_VERSION_TEXT=\"gcc\"\n"));
        let headed =
            Kconfig::of("#\n# Linux/x86 6.1.192 Kernel Configuration\nCONFIG_A=y").snapshot().unwrap();
        assert!(!headed.config_is_partial);
        assert_eq!(headed.files["/proc/sys/kernel/osrelease"], "6.1.192");
    }
}
