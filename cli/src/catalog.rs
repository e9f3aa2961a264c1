//! `whittle catalog`: a Region's instance types as a file for `whittle plan --catalog`.

#[cfg(any(feature = "aws", test))]
mod file;

use anyhow::Result;
use clap::Args;

/// Print a Region's instance types, prices and zones as JSON, for `whittle plan --catalog`; uses AWS_REGION and the AWS
/// credentials of the environment:
///
///   AWS_REGION=eu-west-1 whittle catalog > eu-west-1.json
///   whittle plan -f manifests --catalog eu-west-1.json
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {}

#[cfg(feature = "aws")]
pub(crate) fn run(_: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (types, problems) = runtime.block_on(crate::aws::catalog(crate::moment::now()))?;
    for problem in problems {
        eprintln!("whittle: {problem}");
    }
    serde_json::to_writer(std::io::stdout().lock(), &file::of(&types))?;
    Ok(())
}

#[cfg(not(feature = "aws"))]
pub(crate) fn run(_: &Arguments) -> Result<()> {
    anyhow::bail!("this program is built without AWS: build it with `--features aws`")
}
