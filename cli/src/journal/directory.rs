//! A journal in files: records as lines of JSON in `CLUSTER.jsonl`, and objects under their names.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use model::{ClusterName, ids::TurnId};
use ports::{Archive, ArchiveError, Journal, JournalEntry, LedgerError, journal::JournalQuery};

pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            bail!("{} is no directory", path.display());
        }
        Ok(Self(path.to_owned()))
    }

    /// Creates a directory's journal, which must not contain records of this cluster yet.
    pub(crate) fn create(path: &Path, cluster: &ClusterName) -> Result<Self> {
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        let directory = Self(path.to_owned());
        let records = directory.records(cluster);
        if records.exists() {
            bail!(
                "{} exists already: name another directory",
                records.display()
            );
        }
        Ok(directory)
    }

    /// Removes the records of a cluster.
    pub(crate) fn remove_records(&self, cluster: &ClusterName) -> std::io::Result<()> {
        match std::fs::remove_file(self.records(cluster)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn records(&self, cluster: &ClusterName) -> PathBuf {
        self.0.join(format!("{cluster}.jsonl"))
    }

    fn entries(&self, cluster: &ClusterName) -> Result<Vec<JournalEntry>, LedgerError> {
        let path = self.records(cluster);
        let failed = |message: String| LedgerError::Unavailable {
            action: format!("reading {}", path.display()),
            message,
        };
        let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
        let lines = BufReader::new(file).lines().enumerate();
        lines
            .map(|(index, line)| {
                let line = line.map_err(|error| failed(error.to_string()))?;
                serde_json::from_str(&line)
                    .map_err(|error| failed(format!("line {}: {error}", index + 1)))
            })
            .collect()
    }
}

#[async_trait]
impl Journal for Directory {
    async fn record(&self, cluster: &ClusterName, entry: &JournalEntry) -> Result<(), LedgerError> {
        let path = self.records(cluster);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| {
            // One write: records of turns that end together stay apart.
            let mut line = serde_json::to_vec(entry)?;
            line.push(b'\n');
            file.write_all(&line)
        });
        written.map_err(|error| LedgerError::Unavailable {
            action: format!("writing {}", path.display()),
            message: error.to_string(),
        })
    }

    async fn latest(
        &self,
        cluster: &ClusterName,
        wanted: &JournalQuery,
    ) -> Result<Vec<JournalEntry>, LedgerError> {
        let mut entries = self.entries(cluster)?;
        entries.retain(|entry| wanted.from <= entry.at && entry.at < wanted.until);
        if let Some(subject) = &wanted.about {
            entries.retain(|entry| entry.about.contains(subject));
        }
        entries.sort_by(|a, b| (b.at, &b.turn, b.lane).cmp(&(a.at, &a.turn, a.lane)));
        entries.truncate(wanted.most);
        Ok(entries)
    }

    async fn of_turn(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
    ) -> Result<Vec<JournalEntry>, LedgerError> {
        let mut entries = self.entries(cluster)?;
        entries.retain(|entry| entry.turn == *turn);
        Ok(entries)
    }
}

#[async_trait]
impl Archive for Directory {
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ArchiveError> {
        let path = self.object("writing", name)?;
        let parent = path.parent().unwrap_or(&self.0);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, object))
            .map_err(|error| failed("writing", name, error.to_string()))
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        match std::fs::read(self.object("reading", name)?) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("reading", name, error.to_string())),
        }
    }
}

impl Directory {
    /// Path of an object. No content of a record can lead out of the directory.
    fn object(&self, action: &'static str, name: &str) -> Result<PathBuf, ArchiveError> {
        let path = Path::new(name);
        let inside = path
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        match inside {
            true => Ok(self.0.join(path)),
            false => Err(failed(
                action,
                name,
                "it leads out of the directory".to_owned(),
            )),
        }
    }
}

fn failed(action: &'static str, name: &str, message: String) -> ArchiveError {
    ArchiveError {
        action,
        name: name.to_owned(),
        message,
    }
}
