//! A plot as data: [`super::svg`] draws it, the script of the page uses the same data for hover and zoom.
//!
//! Nothing is clipped: an axis always includes the largest value, by a longer linear range or, if that would shrink the
//! rest to a few pixels, by a logarithmic one, with a note in the plot.

use std::borrow::Cow;
use std::io;

use serde::{Serialize, Serializer};

use super::scale::{Kind, Scale};
use crate::time::Ns;

/// Left edge of the plotting area, user units of the SVG.
pub const LEFT: f64 = 86.0;
/// Right edge.
pub const RIGHT: f64 = 926.0;
/// Upper edge.
pub const TOP: f64 = 14.0;
/// Lower edge.
pub const BOTTOM: f64 = 390.0;
/// Width of the whole drawing.
pub const WIDTH: f64 = 960.0;

/// Number of colours in the palette.
pub const COLOURS: usize = 8;
/// Number of dash patterns, so that lines differ in black-and-white print.
pub const DASHES: usize = 4;

/// Requested scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Linear unless that would hide the body of the distribution.
    #[default]
    Auto,
    /// Always linear.
    Linear,
    /// Always logarithmic.
    Log,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Name inside a page: letters, digits and `-`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The conditions, in one line.
    pub subtitle: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
    /// The deadline, if one was given.
    pub deadline: Option<Deadline>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Whether each step is a column on the axis (a histogram), else a level (over time).
    pub columns: bool,
    /// Unit of the vertical value of a step: `samples`, `µs`.
    pub value_unit: &'static str,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its text.
    pub label: String,
    /// Unit of its numbers.
    pub unit: &'static str,
    /// Its range.
    pub scale: Scale,
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Short name: `CPU 1`.
    pub label: String,
    /// Text in the legend, including the maximum.
    pub legend: String,
    /// Index in the palette, below [`COLOURS`].
    pub colour: usize,
    /// Index of the dash pattern, below [`DASHES`].
    pub dash: usize,
    /// Ascending, not overlapping.
    pub steps: Vec<Step>,
    /// Position of the maximum.
    pub max: Option<(f64, f64)>,
}

/// A level between two positions of the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Start, included.
    pub from: f64,
    /// End, excluded.
    pub to: f64,
    /// Value on the vertical axis.
    pub value: f64,
}

/// A deadline on one of the axes.
#[derive(Clone, Debug)]
pub struct Deadline {
    /// In the unit of the axis; drawn as an arrow at the edge if it is beyond the range.
    pub at: f64,
    /// On the horizontal axis (latency plots), else on the vertical one (over time).
    pub on_x: bool,
    /// Its text.
    pub text: String,
}

impl Deadline {
    /// The deadline of `axis` (µs or ns).
    #[must_use]
    pub fn new(deadline: Ns, unit_ns: f64, on_x: bool) -> Deadline {
        Deadline { at: deadline.0 as f64 / unit_ns, on_x, text: format!("deadline {deadline}") }
    }
}

/// Ratio of deadline to maximum above which the axis does not include the deadline; an arrow points to it.
const DEADLINE_REACH: f64 = 4.0;

/// The largest value that an axis must include: the maximum, and a deadline that is not too far.
pub(crate) fn reach(max: f64, deadline: Option<&Deadline>) -> f64 {
    match deadline {
        Some(deadline) if deadline.at <= max * DEADLINE_REACH => max.max(deadline.at * 1.02),
        _ => max,
    }
}

/// Ratio of the largest to the median maximum above which a linear axis would only show one spike.
const SQUEEZED: f64 = 8.0;

/// The vertical axis of maxima over time, up to `end`, in units of `unit_ns`; a note says that it is logarithmic.
pub(super) fn axis_of_maxima(
    maxima: impl Iterator<Item = Ns>,
    (end, unit_ns): (f64, f64),
    wanted: Wanted,
    notes: &mut Vec<String>,
) -> Scale {
    let mut sorted: Vec<Ns> = maxima.collect();
    sorted.sort_unstable();
    let ns = |index: usize| sorted.get(index).map_or(0.0, |max| max.0 as f64);
    let (least, median, largest) = (ns(0), ns(sorted.len() / 2), ns(sorted.len().saturating_sub(1)));
    let is_log = match wanted {
        Wanted::Auto => largest > median * SQUEEZED,
        Wanted::Log => true,
        Wanted::Linear => false,
    };
    if !is_log {
        return Scale::linear(end * 1.02, BOTTOM, TOP);
    }
    notes.push(match wanted {
        Wanted::Auto => {
            "The y axis is logarithmic: the largest maximum is far above the usual ones.".to_owned()
        }
        _ => "The y axis is logarithmic.".to_owned(),
    });
    Scale::log((least / unit_ns).max(0.1), end, BOTTOM, TOP)
}

/// Colour and dash of line `index` of run `group` of `groups`.
///
/// With several runs each has one colour, and its CPUs differ by dash; in one run colour and dash change together.
pub(super) fn style(index: usize, group: usize, groups: usize) -> (usize, usize) {
    match groups > 1 {
        true => (group % COLOURS, index % DASHES),
        false => (index % COLOURS, (index + index / COLOURS) % DASHES),
    }
}

impl Plot {
    /// The plot for the script of the page: JSON, safe inside a `<script>` element. Written number by number, because a page
    /// may have millions of them.
    #[must_use]
    pub fn to_json(&self) -> String {
        let data = ForScript {
            bottom: BOTTOM,
            columns: self.columns,
            deadline: self.deadline.as_ref().filter(|d| d.on_x).map(|d| d.at),
            id: &self.id,
            left: LEFT,
            lines: self.lines.iter().map(LineForScript::of).collect(),
            right: RIGHT,
            top: TOP,
            value: self.value_unit,
            x: AxisForScript::of(&self.x),
            y: AxisForScript::of(&self.y),
        };
        let mut json = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut json, InScript);
        match data.serialize(&mut serializer) {
            Ok(()) => String::from_utf8(json).unwrap_or_default(),
            Err(_) => String::new(), // no map key that is not text, no error of memory
        }
    }
}

#[derive(Serialize)]
struct ForScript<'a> {
    bottom: f64,
    columns: bool,
    deadline: Option<f64>,
    id: &'a str,
    left: f64,
    lines: Vec<LineForScript<'a>>,
    right: f64,
    top: f64,
    value: &'a str,
    x: AxisForScript,
    y: AxisForScript,
}

#[derive(Serialize)]
struct LineForScript<'a> {
    colour: usize,
    label: Cow<'a, str>,
    #[serde(serialize_with = "flat")]
    steps: &'a [Step],
}

impl LineForScript<'_> {
    fn of(line: &Line) -> LineForScript<'_> {
        LineForScript { colour: line.colour, label: crate::printable::line(&line.label), steps: &line.steps }
    }
}

fn flat<S: Serializer>(steps: &[Step], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(steps.iter().flat_map(|step| [step.from, step.to, step.value]))
}

#[derive(Serialize)]
struct AxisForScript {
    hi: f64,
    kind: &'static str,
    lo: f64,
    unit: &'static str,
}

impl AxisForScript {
    fn of(axis: &Axis) -> AxisForScript {
        let kind = match axis.scale.kind {
            Kind::Log => "log",
            Kind::Linear => "linear",
            Kind::Time => "time",
        };
        AxisForScript { hi: axis.scale.hi, kind, lo: axis.scale.lo, unit: axis.unit }
    }
}

/// Escapes what could end the element.
struct InScript;

impl serde_json::ser::Formatter for InScript {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        fragment.chars().try_for_each(|letter| match letter {
            '<' | '>' | '&' => write!(out, "\\u{:04x}", u32::from(letter)),
            _ => write!(out, "{letter}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deadline within reach of the axis is not a maximum.
    #[test]
    fn maxima_over_time_have_a_logarithmic_axis_only_if_one_of_them_is_far_above_the_others() {
        let axis = |us: [u64; 3]| {
            let maxima = us.map(Ns::from_us);
            let deadline = Deadline::new(Ns::from_us(100), 1e3, false);
            let end = reach(maxima.iter().max().unwrap().as_us(), Some(&deadline));
            let mut notes = Vec::new();
            let scale = axis_of_maxima(maxima.into_iter(), (end, 1e3), Wanted::Auto, &mut notes);
            (scale.kind, notes.len())
        };
        assert_eq!(axis([10, 10, 30]), (Kind::Linear, 0));
        assert_eq!(axis([10, 90, 10]), (Kind::Log, 1));
    }

    #[test]
    fn no_label_ends_the_element_of_the_script() {
        let scale = Scale::linear(1.0, LEFT, RIGHT);
        let axis = || Axis { label: String::new(), unit: "µs", scale };
        let line = Line {
            label: "</script>&\"\\\u{202e}".to_owned(),
            legend: String::new(),
            colour: 1,
            dash: 0,
            steps: vec![Step { from: 0.0, to: 1.5, value: 7.0 }],
            max: None,
        };
        let plot = Plot {
            id: "one".to_owned(),
            title: String::new(),
            subtitle: String::new(),
            x: axis(),
            y: axis(),
            lines: vec![line],
            deadline: None,
            notes: Vec::new(),
            columns: false,
            value_unit: "samples",
        };
        let json = plot.to_json();
        assert!(!json.contains(['<', '>', '&']), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["lines"][0]["label"], "</script>&\"\\\\u{202e}");
        assert_eq!(value["lines"][0]["steps"], serde_json::json!([0.0, 1.5, 7.0]));
    }
}
