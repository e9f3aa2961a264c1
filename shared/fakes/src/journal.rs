use async_trait::async_trait;
use model::{ClusterName, ids::TurnId};
use ports::{Archive, ArchiveError, Journal, JournalEntry, LedgerError, journal::JournalQuery};

use crate::{Sim, rows::as_read_back};

#[async_trait]
impl Journal for Sim {
    async fn record(&self, cluster: &ClusterName, entry: &JournalEntry) -> Result<(), LedgerError> {
        self.neutral_call("record", |world| {
            let entry = as_read_back(cluster, entry)?;
            let key = (entry.at, entry.turn.clone(), entry.lane);
            world.ledger.journal(cluster).insert(key, entry);
            Ok(())
        })
        .await
    }

    async fn latest(
        &self,
        cluster: &ClusterName,
        wanted: &JournalQuery,
    ) -> Result<Vec<JournalEntry>, LedgerError> {
        self.neutral_call("latest", |world| {
            let entries = world.ledger.journal(cluster).values().rev();
            let within = entries.filter(|entry| wanted.from <= entry.at && entry.at < wanted.until);
            let about = within.filter(|entry| match &wanted.about {
                Some(subject) => entry.about.contains(subject),
                None => true,
            });
            Ok(about.take(wanted.most).cloned().collect())
        })
        .await
    }

    async fn of_turn(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
    ) -> Result<Vec<JournalEntry>, LedgerError> {
        self.neutral_call("of_turn", |world| {
            let entries = world.ledger.journal(cluster).values();
            Ok(entries
                .filter(|entry| entry.turn == *turn)
                .cloned()
                .collect())
        })
        .await
    }
}

#[async_trait]
impl Archive for Sim {
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ArchiveError> {
        let put = self.neutral_call("archive", |world| {
            world.ledger.archive.insert(name.to_owned(), object);
            Ok::<_, LedgerError>(())
        });
        put.await.map_err(|error| ArchiveError {
            action: "PutObject",
            name: name.to_owned(),
            message: error.to_string(),
        })
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        Ok(self.look(|world| world.ledger.archive.get(name).cloned()))
    }
}
