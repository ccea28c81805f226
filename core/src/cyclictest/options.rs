//! The command line of cyclictest: all options, including removed ones that scripts still pass.
//!
//! Deliberate differences: invalid values (`-i 0`, `-l abc`, unknown options) are errors, where cyclictest reads 0,
//! loops for ever, or prints its usage and exits with 0. `-smp` (a typo of `--smp`) is accepted with a warning.

use super::cpu_spec::CpuSpec;
use super::getopt::{self, Found};

mod table;
mod values;

use table::{Id, RETIRED, SPECS};
use values::{
    bad, begins_like_a_cpu_list, begins_with_number_above_zero, loose, micros, number, policy, seconds, text,
    INT_MAX,
};

/// Scheduling policy by the names of `--policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Policy {
    Other,
    Batch,
    Idle,
    Fifo,
    RoundRobin,
}

/// How many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// This many.
    Count(u32),
    /// One per usable CPU.
    PerCpu,
}

/// Alignment of the periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At any time.
    No,
    /// `--aligned`: all threads at the same time, each offset by this many µs from the one before.
    Together(u64),
    /// `--secaligned`: at a full second plus this many µs.
    Second(u64),
}

/// The parsed command line of cyclictest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the options
pub struct Options {
    /// `None`: not given.
    pub affinity: Option<CpuSpec>,
    pub main_affinity: Option<CpuSpec>,
    pub align: Align,
    /// In µs, or ns with `nsecs`; 0: off.
    pub breaktrace: u64,
    /// 0 CLOCK_MONOTONIC, 1 CLOCK_REALTIME.
    pub clock: u8,
    /// Number of the deepest idle state allowed on the measured CPUs; -1: none.
    pub deepest_idle_state: Option<i32>,
    pub default_system: bool,
    pub distance_us: Option<i64>,
    /// 0: endless.
    pub duration_s: u64,
    pub fifo: Option<Vec<u8>>,
    /// Number of rows.
    pub histogram: Option<u32>,
    pub histofall: bool,
    pub histfile: Option<Vec<u8>>,
    pub interval_us: u64,
    pub json: Option<Vec<u8>>,
    pub laptop: bool,
    pub latency_us: i32,
    /// 0: endless.
    pub loops: u64,
    pub mlockall: bool,
    pub refresh_on_max: bool,
    pub nsecs: bool,
    pub oscope: u64,
    pub priority: i32,
    pub priospread: bool,
    pub policy: Policy,
    pub quiet: bool,
    pub relative: bool,
    pub resolution: bool,
    pub system: bool,
    pub smp: bool,
    pub smi: bool,
    pub spike: u64,
    pub spike_nodes: u64,
    pub threads: Threads,
    pub tracemark: bool,
    pub unbuffered: bool,
    pub verbose: bool,
    pub debug: bool,
    pub posix_timers: bool,
    pub help: bool,
    /// Warnings for stderr, in order.
    pub warnings: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            affinity: None,
            main_affinity: None,
            align: Align::No,
            breaktrace: 0,
            clock: 0,
            deepest_idle_state: None,
            default_system: false,
            distance_us: None,
            duration_s: 0,
            fifo: None,
            histogram: None,
            histofall: false,
            histfile: None,
            interval_us: 1_000,
            json: None,
            laptop: false,
            latency_us: 0,
            loops: 0,
            mlockall: false,
            refresh_on_max: false,
            nsecs: false,
            oscope: 1,
            priority: 0,
            priospread: false,
            policy: Policy::Other,
            quiet: false,
            relative: false,
            resolution: false,
            system: false,
            smp: false,
            smi: false,
            spike: 0,
            spike_nodes: 1_024,
            threads: Threads::Count(1),
            tracemark: false,
            unbuffered: false,
            verbose: false,
            debug: false,
            posix_timers: false,
            help: false,
            warnings: Vec::new(),
        }
    }
}

/// Parses the arguments (without the program name).
///
/// # Errors
/// One line that names the option and what is wrong with it.
pub fn parse(words: &[Vec<u8>]) -> Result<Options, String> {
    let (words, smp_warning) = understand_smp(words);
    let parsed = getopt::parse(&words, &SPECS, &RETIRED).map_err(|error| error.to_string())?;
    let mut options = Options::default();
    let mut given = Given { smp_understood: smp_warning.is_some(), ..Given::default() };
    options.warnings.extend(smp_warning);
    for found in &parsed.options {
        options.apply(found, &mut given)?;
    }
    let taken: Vec<&[u8]> = given.looked_at;
    for operand in parsed.operands.iter().filter(|operand| !taken.contains(operand)) {
        options
            .warnings
            .push(format!("'{}' is not an option and is ignored", String::from_utf8_lossy(operand)));
    }
    options.settle(given.affinity_after_smp)?;
    Ok(options)
}

/// State used only while parsing.
#[derive(Default)]
struct Given<'a> {
    /// `-smp` was given, which cyclictest does not read as `--smp`.
    smp_understood: bool,
    affinity_after_smp: bool,
    looked_at: Vec<&'a [u8]>,
}

/// For getopt, `-smp` is three options, the last of which takes the next word: `-smp -p 80` runs at priority "-p".
fn understand_smp(words: &[Vec<u8>]) -> (Vec<Vec<u8>>, Option<String>) {
    let Some(at) = words.iter().position(|word| word == b"-smp") else { return (words.to_vec(), None) };
    if words.get(at + 1).is_some_and(|next| next.iter().all(u8::is_ascii_digit)) {
        let priority = String::from_utf8_lossy(&words[at + 1]).into_owned();
        let warning =
            format!("-smp {priority} is read as -s -m -p {priority}; for one thread per CPU write --smp");
        return (words.to_vec(), Some(warning));
    }
    let mut words = words.to_vec();
    words[at] = b"--smp".to_vec();
    (words, Some("-smp is read as --smp (cyclictest reads it as -s -m -p); write -S or --smp".to_owned()))
}

impl Options {
    fn apply<'a>(&mut self, found: &Found<'a, Id>, given: &mut Given<'a>) -> Result<(), String> {
        let path = || found.argument.map(<[u8]>::to_vec).filter(|path| !path.is_empty());
        let need_path = || path().ok_or_else(|| bad(found, "a file name"));
        match found.id {
            Id::Affinity => return self.apply_affinity(found, given),
            Id::Aligned | Id::Secaligned => return self.apply_alignment(found, given),
            Id::Threads => return self.apply_threads(found, given),
            Id::Breaktrace => self.breaktrace = micros(found, 0..=INT_MAX, "a latency in µs")? as u64,
            Id::Clock => {
                self.clock = number(found, 0..=1, "0 (CLOCK_MONOTONIC) or 1 (CLOCK_REALTIME)")? as u8;
            }
            Id::DeepestIdleState => {
                let state = number(found, -1..=INT_MAX, "the number of an idle state (-1: none)")?;
                self.deepest_idle_state = Some(state as i32);
            }
            Id::DefaultSystem => self.default_system = true,
            Id::Distance => self.distance_us = Some(micros(found, -INT_MAX..=INT_MAX, "a distance in µs")?),
            Id::Duration => self.duration_s = seconds(found)?,
            Id::Latency => {
                self.latency_us = micros(found, -INT_MAX..=INT_MAX, "a latency in µs")?.max(0) as i32;
            }
            Id::Fifo => self.fifo = Some(need_path()?),
            Id::Histogram | Id::Histofall => {
                let rows = micros(found, 1..=INT_MAX, "a number of rows of at least 1")?;
                if rows > MOST_ROWS {
                    self.warnings
                        .push(format!("{} {rows}: a histogram has at most {MOST_ROWS} rows", found.written));
                }
                self.histogram = Some(rows.min(MOST_ROWS) as u32);
                self.histofall |= found.id == Id::Histofall;
            }
            Id::Histfile => self.histfile = Some(need_path()?),
            Id::Interval => {
                self.interval_us = micros(found, 1..=INT_MAX, "an interval of at least 1 µs")? as u64;
            }
            Id::Json => self.json = Some(need_path()?),
            Id::Laptop => self.laptop = true,
            Id::Loops => self.loops = number(found, 0..=i64::MAX, "a number of loops (0: endless)")? as u64,
            Id::Mainaffinity => {
                let cpus = CpuSpec::parse(&text(found)).ok_or_else(|| bad(found, "a CPU list"))?;
                self.main_affinity = Some(cpus);
            }
            Id::Mlockall => self.mlockall = true,
            Id::RefreshOnMax => self.refresh_on_max = true,
            Id::Nsecs => self.nsecs = true,
            Id::Oscope => self.oscope = number(found, 1..=INT_MAX, "a factor of at least 1")? as u64,
            Id::Priority => self.apply_priority(found)?,
            Id::Priospread => self.priospread = true,
            Id::Policy => self.policy = policy(found)?,
            Id::Quiet => self.quiet = true,
            Id::Relative => self.relative = true,
            Id::Resolution => self.resolution = true,
            Id::System => self.system = true,
            Id::Smi => self.smi = true,
            Id::Smp if self.affinity.is_some() && !self.smp && !given.smp_understood => {
                return Err(format!(
                    "-a and {} exclude each other: for given CPUs write -a CPUS -t",
                    found.written
                ));
            }
            Id::Smp | Id::Numa => {
                self.smp = true;
                self.threads = Threads::PerCpu;
                self.affinity = Some(CpuSpec::Usable);
            }
            Id::Spike => self.spike = micros(found, 0..=INT_MAX, "a latency in µs")? as u64,
            Id::SpikeNodes => {
                let nodes = number(found, 1..=INT_MAX, "a number of at least 1")?;
                if nodes > MOST_ROWS {
                    self.warnings.push(format!("{} {nodes}: at most {MOST_ROWS} are listed", found.written));
                }
                self.spike_nodes = nodes.min(MOST_ROWS) as u64;
            }
            Id::Tracemark => self.tracemark = true,
            Id::Unbuffered => self.unbuffered = true,
            Id::Verbose => self.verbose = true,
            Id::Debug => self.debug = true,
            Id::Help => self.help = true,
            Id::PosixTimers => self.posix_timers = true,
            Id::Retired => {
                self.warnings
                    .push(format!("option '{}' was removed from cyclictest and is ignored", found.written));
            }
        }
        Ok(())
    }

    fn apply_affinity<'a>(&mut self, found: &Found<'a, Id>, given: &mut Given<'a>) -> Result<(), String> {
        let found = loose(found, given, begins_like_a_cpu_list);
        if self.smp {
            given.affinity_after_smp = true;
            return Ok(());
        }
        self.affinity = Some(match found {
            Some(found) => CpuSpec::parse(&text(&found)).ok_or_else(|| bad(&found, "a CPU list"))?,
            None => CpuSpec::Usable,
        });
        Ok(())
    }

    fn apply_alignment<'a>(&mut self, found: &Found<'a, Id>, given: &mut Given<'a>) -> Result<(), String> {
        let offset = match loose(found, given, begins_with_number_above_zero) {
            Some(found) => micros(&found, 0..=INT_MAX, "an offset in µs")? as u64,
            None => 0,
        };
        let align = if found.id == Id::Aligned { Align::Together(offset) } else { Align::Second(offset) };
        if self.align != Align::No && std::mem::discriminant(&self.align) != std::mem::discriminant(&align) {
            return Err("options --aligned and --secaligned exclude each other".to_owned());
        }
        self.align = align;
        Ok(())
    }

    fn apply_threads<'a>(&mut self, found: &Found<'a, Id>, given: &mut Given<'a>) -> Result<(), String> {
        let found = loose(found, given, begins_with_number_above_zero);
        if self.smp {
            self.warnings.push("-t ignored due to smp mode".to_owned());
            return Ok(());
        }
        self.threads = match found {
            Some(found) => Threads::Count(number(&found, 1..=65_536, "a number of threads")? as u32),
            None => Threads::PerCpu,
        };
        Ok(())
    }

    fn apply_priority(&mut self, found: &Found<'_, Id>) -> Result<(), String> {
        self.priority = number(found, 0..=99, "a priority from 0 to 99")? as i32;
        if !matches!(self.policy, Policy::Fifo | Policy::RoundRobin) {
            self.policy = Policy::Fifo;
        }
        Ok(())
    }

    /// Checks that need all options.
    fn settle(&mut self, affinity_after_smp: bool) -> Result<(), String> {
        let mut warn = |text: &str| self.warnings.push(text.to_owned());
        if self.system && self.posix_timers {
            warn("The system option requires clock_nanosleep");
            warn("and is not compatible with posix_timers");
            warn("Using clock_nanosleep");
            self.posix_timers = false;
        }
        if affinity_after_smp {
            warn("-a ignored due to smp mode");
        }
        if self.histogram.is_some() && self.distance_us.is_some_and(|distance| distance != 0) {
            warn("distance is ignored and set to 0, if histogram enabled");
        }
        if self.tracemark && self.breaktrace == 0 {
            warn("--tracemark does nothing without -b");
        }
        if self.oscope > 1 && !self.verbose {
            return Err("-o option only meaningful, if verbose".to_owned());
        }
        Ok(())
    }
}

/// Limit of histogram rows and listed spikes: both are allocated at the start of every run.
pub const MOST_ROWS: i64 = 1_000_000;

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
