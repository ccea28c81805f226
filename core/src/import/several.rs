//! Results of two programs in one text, or two of one program: a reader would take one of them, and the other may have
//! the largest latency. cyclictest repeats its status lines; their reader (`status`) separates the runs and merges them.

use super::{at, hist_trigger, hwlatdetect, latmus, oslat, pairs, rtla, status, NotImportable};

/// The program whose result a line belongs to, and whether a result has exactly one such line.
fn belongs(line: &str) -> Option<(&'static str, bool)> {
    let bare = line.trim_start_matches(['>', ' ', '\t']);
    let starts = |what: &str| bare.starts_with(what);
    match () {
        () if hwlatdetect::is_heading(line) => Some(("hwlatdetect", true)),
        () if oslat::is_frequency(bare) => Some(("oslat", true)),
        () if rtla::columns(bare).is_some() => Some(("rtla hist", true)),
        () if line.contains("IRQ Timer Latency") => Some(("rtla timerlat top", false)),
        () if pairs::result(bare).is_some() => Some(("ptsematest or the like", false)),
        () if line.contains("RTS|") => Some(("latency or latmus", true)),
        () if line.contains("RTD|") => Some(("latency or latmus", false)),
        () if latmus::said(bare, "sample count").is_some() => Some(("latmus", true)),
        () if hist_trigger::begins(line) => Some(("a hist trigger", true)),
        () if line.contains("<rteval") => Some(("rteval", true)),
        () if status::find(bare).is_some() || starts("# Max Latencies:") => Some(("cyclictest", false)),
        () => None,
    }
}

/// Refuses a text with more than one result. `json`: the part of it that is one in JSON.
///
/// # Errors
/// The line of the second one.
pub(super) fn refuse(text: &str, json: Option<&str>) -> Result<(), NotImportable> {
    let is_json =
        |line: &str| json.is_some_and(|json| json.as_bytes().as_ptr_range().contains(&line.as_ptr()));
    let mut first = json.map(|_| "a program that writes JSON");
    let mut is_complete = false;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !is_json(line)) {
        let Some((program, is_once)) = belongs(line) else { continue };
        match first {
            Some(other) if other != program => {
                let what = format!("a result of {program}, beside one of {other}: import each by itself");
                return Err(at(index + 1, what));
            }
            Some(_) if is_once && is_complete => {
                return Err(at(index + 1, format!("a second result of {program}: import each by itself")));
            }
            _ => first = Some(program),
        }
        is_complete |= is_once;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};

    const STATUS: &str = "T: 0 (  100) P:80 I:1000 C:   1000 Min:      1 Act:    1 Avg:    1 Max:     777\n";
    const HWLATDETECT: &str =
        "hwlatdetect:  test duration 9 seconds\nMax Latency: 48us\nSamples recorded: 1\n\
                               ts: 1646837340.346151918, inner:5, outer:48\n";
    const OSLAT: &str = "        Core:\t 1\nCounter Freq:\t 2096 (Mhz)\n    001 (us):\t 5\n    002 (us):\t 1 (including overflows)\n\
                         Minimum:\t 1 (us)\n     Average:\t 1.000 (us)\n     Maximum:\t 41 (us)\n";
    const RTLA_HIST: &str = "Index   IRQ-000   Thr-000\n9           1         0\n39          0         1\nover:         0         0\n\
                             count:        1         1\nmin:          9        39\nmax:          9        39\n";
    const RTLA_TOP: &str = "  0 00:00:23   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)\n\
                            CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max\n  \
                            0 #21515     |      580       573       599       827 |      598       585       641       860\n";
    const PAIRS: &str = "#0: ID1, P80, CPU0, I1000; #1: ID2, P80, CPU0, TO 0, Cycles 1000\n\
                         #1 -> #0, Min    4, Cur    6, Avg   18, Max 11983\n";
    const XENOMAI: &str =
        "RTT|  00:00:01  (periodic user-mode task, 100 us period, priority 99)\nRTH|----lat min\n\
                           RTD|      1.393|      2.908|     21.765|       0|     0|      1.393|     21.765\n\
                           RTS|      1.393|      2.955|     21.765|       0|     0|    00:00:01/00:00:01\n";
    const JSON: &str =
        "{\"cpu\": {\"0\": {\"histogram\": {\"2\": 100}, \"count\": 100, \"min\": 2, \"max\": 2}}}\n";

    #[test]
    fn of_two_results_in_one_text_none_is_lost_in_silence() {
        let all = [STATUS, HWLATDETECT, OSLAT, RTLA_HIST, RTLA_TOP, PAIRS, XENOMAI, JSON];
        for first in all {
            let run = read(first, Unit::Guess).unwrap_or_else(|error| panic!("{error}: {first}"));
            assert!(run.series.iter().any(|series| series.histogram.count() > 0), "{first}");
            for second in all.into_iter().filter(|second| *second != first) {
                let both = format!("the first:\n{first}\nand the second:\n{second}");
                let error = read(&both, Unit::Guess).unwrap_err().to_string();
                assert!(error.contains("import each by itself"), "{error}: {both}");
            }
        }
        for (one, largest, least) in [
            (HWLATDETECT, "48", "7"),
            (OSLAT, "41", "3"),
            (RTLA_HIST, "39", "30"),
            (RTLA_TOP, "860", "590"),
            (PAIRS, "11983", "19"),
            (XENOMAI, "21.765", "2.765"),
            (JSON, "\"max\": 2", "\"max\": 3"),
        ] {
            let other = one.replace(largest, least);
            for both in [format!("{one}\n{other}"), format!("{other}\n{one}")] {
                match read(&both, Unit::Guess) {
                    // A screen that repeats itself.
                    Ok(run) => {
                        assert!([RTLA_TOP, PAIRS].contains(&one) && both.starts_with(&other), "{run:?}")
                    }
                    Err(error) => assert!(!error.what.is_empty()),
                }
            }
        }
    }

    #[test]
    fn code_beside_a_result_is_none() {
        let mail = format!("int main(void)\n{{\n\treturn 0;\n}}\n\n{STATUS}");
        let run = read(&mail, Unit::Guess).unwrap();
        assert_eq!(run.series[0].histogram.count() + run.series[0].lost, 1000);
    }
}
