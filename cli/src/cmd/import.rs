//! x
#[derive(clap::Args)]
pub struct ImportArgs {}
pub fn run(_: ImportArgs) -> anyhow::Result<std::process::ExitCode> {
    todo!()
}
