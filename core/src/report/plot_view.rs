//! A plot for the page templates.

use super::plot::Plot;
use super::svg;

/// A plot in a page: drawing, data for the script, legend.
pub(super) struct PlotView {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) svg: String,
    pub(super) json: String,
    pub(super) legend: Vec<(usize, usize, String)>,
    pub(super) notes: Vec<String>,
    /// Both axes in a line, where the drawing is too small for their texts.
    pub(super) axes: String,
}

impl PlotView {
    pub(super) fn of(plot: &Plot) -> PlotView {
        PlotView {
            id: plot.id.clone(),
            title: plot.title.clone(),
            svg: svg::inline(plot),
            json: plot.to_json(),
            legend: plot.lines.iter().map(|l| (l.colour, l.dash, l.legend.clone())).collect(),
            notes: plot.notes.clone(),
            axes: format!("x: {}; y: {}", svg::x_label(&plot.x), plot.y.label),
        }
    }
}
