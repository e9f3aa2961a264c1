//! Sources of records: the ledger and bucket of a stack, or a directory that they were exported to.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueHint};
use model::{ClusterName, Snapshot};
use ports::{Archive, Journal, JournalEntry, journal::JournalQuery};
use turns::Report;

use super::Directory;

#[derive(Args)]
pub(crate) struct Origin {
    /// Name of the deployed stack
    #[arg(long, default_value = "whittle", value_name = "NAME")]
    stack: String,
    /// Read a directory that `whittle journal --export` wrote, instead of the stack; AWS is not queried
    #[arg(long = "from", conflicts_with = "stack", value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

pub(crate) struct Source {
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) archive: Box<dyn Archive>,
}

impl Origin {
    /// Whether records are deleted after 30 days.
    pub(crate) fn of_stack(&self) -> bool {
        self.directory.is_none()
    }

    #[cfg(feature = "aws")]
    pub(crate) fn stack(&self) -> &str {
        &self.stack
    }
}

impl Source {
    pub(crate) async fn open(arguments: &Origin) -> Result<Self> {
        match &arguments.directory {
            Some(directory) => Ok(Self {
                journal: Box::new(Directory::open(directory)?),
                archive: Box::new(Directory::open(directory)?),
            }),
            None => of_stack(&arguments.stack).await,
        }
    }

    pub(crate) async fn latest(
        &self,
        cluster: &ClusterName,
        wanted: &JournalQuery,
    ) -> Result<Vec<JournalEntry>> {
        let found = self.journal.latest(cluster, wanted).await;
        found.with_context(|| format!("cannot read the journal of cluster {cluster}"))
    }

    /// The records of a turn, at least one.
    pub(crate) async fn turn(
        &self,
        cluster: &ClusterName,
        turn: &str,
    ) -> Result<Vec<JournalEntry>> {
        let found = self.journal.of_turn(cluster, &turn.into()).await;
        let found =
            found.with_context(|| format!("cannot read the journal of cluster {cluster}"))?;
        if found.is_empty() {
            bail!(
                "cluster {cluster} has no record of turn {turn}: `whittle journal {cluster}` lists turns, for the last 30 days"
            );
        }
        Ok(found)
    }

    /// The snapshot of a turn.
    pub(crate) async fn snapshot(&self, report: &Report) -> Result<Snapshot> {
        let turn = &report.turn;
        let name = report.snapshot.as_ref().ok_or_else(|| {
            anyhow!(
                "what turn {turn} saw was not kept: that is kept of the provisioner and the disruption function, once in ten \
                 seconds at most"
            )
        })?;
        let object = self.archive.get(name).await?;
        let object =
            object.ok_or_else(|| anyhow!("the snapshot of turn {turn} has expired ({name})"))?;
        let snapshot = turns::journal::unpack(&object);
        snapshot.with_context(|| format!("cannot read what turn {turn} saw"))
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

#[cfg(feature = "aws")]
async fn of_stack(stack: &str) -> Result<Source> {
    let (ledger, bucket) = crate::aws::memory_of(stack).await?;
    Ok(Source {
        journal: Box::new(ledger),
        archive: Box::new(bucket),
    })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "as where AWS is asked")]
async fn of_stack(_: &str) -> Result<Source> {
    bail!(
        "the journal of a stack is in AWS, which this build cannot call: build it with `--features aws`, or read a copy with --from"
    );
}
