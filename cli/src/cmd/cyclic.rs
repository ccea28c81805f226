//! x
use lathunt_host::instrument::cyclic::{OnPeak, ThreadResult};
/// Evidence for a latency that broke a measurement off: the seam where a recorder is attached.
pub trait BreakWatch {
    /// What thread `index` calls on its peaks and on the break.
    fn on_peak(&mut self, index: usize) -> Option<Box<dyn OnPeak>>;
    /// What happened, in lines for people; called once, after the threads have ended.
    fn explain(self: Box<Self>, results: &[ThreadResult]) -> Vec<String>;
}
#[derive(clap::Args)]
pub struct CyclicArgs {}
pub fn run(_: CyclicArgs) -> anyhow::Result<std::process::ExitCode> {
    todo!()
}
