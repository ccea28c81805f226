//! Views of a run: plots, the HTML report, the terminal summary, comparisons.
//!
//! Values in, text out; the same run always gives the same bytes. Texts in a run are untrusted (a program can choose
//! any thread name), so every text passes [`crate::printable`] and, in markup, escaping.
//!
//! - [`figures`]: the numbers of a series, the same in every view.
//! - [`plot`]: a plot as data; [`latency`] and [`seconds`] build the two kinds, [`svg`] draws them.
//! - [`causes`]: causes ranked by worst, count and time. [`facts`]: conditions as a table.
//! - [`task_set`]: measured and analysed response times of a task set; [`gantt`]: its worst part as a chart.
//! - [`html`], [`text`], [`compare`]: the views.

pub mod blocking;
pub mod causes;
pub mod ci;
mod closing;
pub mod compare;
pub mod explanation;
mod extent;
pub mod facts;
pub mod figures;
mod fit;
pub mod gantt;
pub mod history;
pub mod html;
mod lanes;
pub mod late;
pub mod late_causes;
pub mod latency;
pub mod plot;
mod plot_view;
pub mod row;
pub mod scale;
pub mod seconds;
pub mod svg;
pub mod task_set;
pub mod tasks;
pub mod text;
pub mod tree;
pub mod worst;
