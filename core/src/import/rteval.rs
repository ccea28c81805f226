//! The XML of rteval: the histograms of its cyclictest, one per core (rteval/modules/measurement/cyclictest.py).
//!
//! rteval's own sum over all cores (`system`) is not read: it repeats the cores.

use super::{File, FromFile, NotImportable, MOST_THREADS};
use crate::series::Quantity;

/// `None` if the text is from another program.
pub(super) fn recognised(text: &str) -> Option<Result<File, NotImportable>> {
    text.contains("<rteval").then(|| parse(text))
}

fn wrong(what: impl Into<String>) -> NotImportable {
    NotImportable { line: None, what: what.into() }
}

fn parse(text: &str) -> Result<File, NotImportable> {
    let mut file = File::of("rteval", Quantity::Cyclic, 1_000);
    let mut rest = text;
    while let Some((tag, inside, behind)) = element(rest, "cyclictest") {
        rest = behind;
        if let Some(command) = attribute(tag, "command_line") {
            let command = crate::printable::line(command).into_owned();
            file.conditions.notes.push(format!("rteval: {command}"));
        }
        let mut inside = inside;
        while let Some((tag, core, behind)) = element(inside, "core") {
            inside = behind;
            if file.threads.len() == MOST_THREADS {
                return Err(wrong(format!("the XML of rteval has more than {MOST_THREADS} cores")));
            }
            file.threads.push(thread(tag, core)?);
        }
    }
    if file.threads.is_empty() {
        return Err(wrong("this is the XML of rteval, without a result of cyclictest for a core: its `timerlat` is not read; import the output of 'rtla timerlat hist'"));
    }
    file.rows = file
        .threads
        .iter()
        .flat_map(|thread| &thread.rows)
        .map(|(row, _)| row.saturating_add(1))
        .max()
        .unwrap_or(0);
    let end = |thread: &FromFile| thread.rows.last().map_or(0, |(row, _)| row.saturating_add(1));
    match file.threads.iter().find_map(|thread| thread.contradiction(end(thread))) {
        Some(what) => Err(wrong(what)),
        None => Ok(file),
    }
}

fn thread(tag: &str, core: &str) -> Result<FromFile, NotImportable> {
    let cpu = attribute(tag, "id").and_then(|id| id.parse().ok());
    let of = |what: &str| wrong(format!("core {}: {what}", attribute(tag, "id").unwrap_or("?")));
    let figure = |name: &str| element(core, name).map(|(_, value, _)| value.trim());
    let whole = |name: &str| match figure(name) {
        Some(value) => value.parse::<u64>().map(Some).map_err(|_| of(&format!("{name} is not a number"))),
        None => Ok(None),
    };
    let mut rows = Vec::new();
    let mut rest = element(core, "histogram").map_or("", |(_, buckets, _)| buckets);
    while let Some((_, behind)) = rest.split_once("<bucket") {
        let (tag, behind) = behind.split_once('>').ok_or_else(|| of("the histogram is cut off"))?;
        rest = behind;
        let number = |name: &str| attribute(tag, name).and_then(|value| value.parse::<u64>().ok());
        let row =
            number("index").zip(number("value")).ok_or_else(|| of("a bucket without index or value"))?;
        rows.push(row);
    }
    rows.sort_unstable();
    rows.retain(|(_, count)| *count > 0);
    let cycles =
        whole("samples")?.ok_or_else(|| of("the number of samples is missing: the file is cut off"))?;
    let thread = FromFile {
        cpu,
        priority: attribute(tag, "priority").and_then(|priority| priority.parse().ok()),
        cycles: Some(cycles),
        min: whole("minimum")?,
        avg: figure("mean").and_then(|mean| mean.parse().ok()),
        max: whole("maximum")?,
        rows,
        ..FromFile::default()
    };
    let inside = thread.inside().ok_or_else(|| of("the counts are too large"))?;
    if thread.max.is_none() && cycles > 0 {
        return Err(of("the maximum is missing"));
    }
    Ok(FromFile { overflows: Some(cycles.saturating_sub(inside)).filter(|_| inside > 0), ..thread })
}

/// Attributes, content and the text after the first element `name`; elements of this kind are not nested.
fn element<'t>(text: &'t str, name: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(&format!("<{name}"))?;
        let behind = &text[at + 1 + name.len()..];
        from = at + 1;
        if !behind.starts_with(['>', ' ', '\n', '\t', '\r']) {
            continue;
        }
        let (tag, behind) = behind.split_once('>')?;
        if tag.ends_with('/') {
            continue;
        }
        let (inside, behind) = behind.split_once(&format!("</{name}>"))?;
        return Some((tag, inside, behind));
    }
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, behind) = tag.split_once(&format!(" {name}="))?;
    let quote = behind.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    behind[1..].split_once(quote).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use crate::import::{read, Unit};
    use crate::series::Quantity;
    use crate::time::{Cpu, Ns};

    const TEXT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<rteval version="3.7"><run_info days="0" hours="1"/><Measurements><Profile loads="1">
<cyclictest command_line="cyclictest -i100 -qmu -h 3500 -p95 -t">
<core id="2" priority="95"><statistics><samples>36001</samples><minimum unit="us">1</minimum><maximum unit="us">4500</maximum>
<mean unit="us">3.2</mean></statistics><histogram nbuckets="2"><bucket index="1" value="100"/><bucket index="3" value="35899"/></histogram></core>
<core id="3" priority="95"><statistics><samples>10</samples><minimum unit="us">2</minimum><maximum unit="us">7</maximum></statistics>
<histogram nbuckets="2"><bucket index="2" value="9"/><bucket index="7" value="1"/></histogram></core>
<system description="x"><statistics><samples>36011</samples><maximum unit="us">4500</maximum></statistics></system>
</cyclictest></Profile></Measurements></rteval>"#;

    #[test]
    fn the_histogram_of_each_core_is_read_and_the_sum_of_rteval_is_not() {
        let run = read(TEXT, Unit::Guess).unwrap();
        let all: Vec<_> = run.of(Quantity::Cyclic).collect();
        assert_eq!((all.len(), all[0].cpu, all[1].cpu), (2, Some(Cpu(2)), Some(Cpu(3))));
        // The largest is beyond the rows, and so is one other sample.
        assert_eq!((all[0].histogram.count(), all[0].lost, all[0].lost_below_max), (36_000, 1, true));
        assert_eq!(all[0].histogram.max(), Some(Ns::from_us(4_500)));
        assert_eq!(
            (all[1].histogram.count(), all[1].lost, all[1].histogram.max()),
            (10, 0, Some(Ns::from_us(7)))
        );
    }

    #[test]
    fn what_is_missing_is_refused() {
        let refused =
            |from: &str, to: &str| read(&TEXT.replace(from, to), Unit::Guess).unwrap_err().to_string();
        assert!(refused("<samples>10</samples>", "").contains("core 3: the number of samples"));
        assert!(refused("<maximum unit=\"us\">7</maximum>", "").contains("core 3: the maximum"));
        assert!(refused("index=\"7\"", "index=\"9\"").contains("the maximum is 7"));
        assert!(refused("cyclictest", "timerlat").contains("rteval"));
    }
}
