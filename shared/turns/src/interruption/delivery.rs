//! A delivery of the queue: handles messages and returns those that must stay in the queue. An unreadable message affects no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use jiff::Timestamp;
use model::{
    Interruption,
    ids::TurnId,
    interruption::{QueueMessage, StackLocation},
};
use ports::with_causes;
use serde::Serialize;

use super::{capacity_blocks, interrupt};
use crate::{InterruptionReport, World, report::metrics};

/// Message of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    pub body: String,
}

/// Messages of a delivery that stay in the queue, and counts of the others by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Messages that must stay in the queue, by id, with the reason.
    pub kept: BTreeMap<String, String>,
    /// Counts of announcements by kind and outcome, and of ignored messages by reason.
    pub counts: BTreeMap<String, usize>,
    /// Counts of events that interrupt no node of any cluster, by reason.
    #[serde(skip)]
    ignored: BTreeMap<&'static str, u64>,
}

/// Handles a delivery. `read` parses a message.
pub async fn deliver<E: Error + 'static>(
    world: &World,
    messages: &[Message],
    read: impl Fn(&str, &StackLocation, Timestamp) -> Result<QueueMessage, E>,
    turn: &TurnId,
) -> Delivery {
    let (home, now) = (world.home(), world.clock.now());
    let mut delivery = Delivery::default();
    let (mut batch, mut blocks) = (Batch::default(), Vec::new());
    for message in messages {
        match read(&message.body, &home, now) {
            Ok(QueueMessage::Announced(announced)) => batch.add(message, announced),
            Ok(QueueMessage::CapacityBlockEnds(block)) => blocks.push((message, block)),
            Ok(QueueMessage::Ignored(why)) => {
                tracing::info!(message_id = message.id, ?why, "EventBridge event ignored");
                delivery.count(why.as_str());
                delivery.ignore(why.as_str());
            }
            Err(error) => delivery.keep_message(message, "unreadable", with_causes(&error)),
        }
    }
    let mut facts = batch.facts.len();
    delivery.handle_batch(world, &batch, turn).await;
    // The instances in a block are known only to EC2: urgent facts do not wait for its answer.
    let mut batch = Batch::default();
    for (message, block) in blocks {
        match capacity_blocks::interruptions_of_block(world, &block).await {
            Ok(announced) if announced.is_empty() => delivery.count("block-without-nodes"),
            Ok(announced) => batch.add(message, announced),
            Err(error) => delivery.keep_message(message, "kept", with_causes(&error)),
        }
    }
    facts += batch.facts.len();
    delivery.handle_batch(world, &batch, turn).await;
    metrics::publish_ignored(world, &delivery.ignored);
    tracing::info!(
        messages = messages.len(),
        facts,
        kept = delivery.kept.len(),
        counts = ?delivery.counts,
        "interruption messages handled"
    );
    delivery
}

/// Facts that are handled together. A fact that comes in many messages is handled once.
#[derive(Default)]
struct Batch<'a> {
    facts: Vec<Interruption>,
    /// Each message with the indexes of its facts.
    messages: Vec<(&'a Message, BTreeSet<usize>)>,
}

impl<'a> Batch<'a> {
    fn add(&mut self, message: &'a Message, announced: Vec<Interruption>) {
        let facts = &mut self.facts;
        let indexes = announced.into_iter().map(|fact| index_of(facts, fact));
        self.messages.push((message, indexes.collect()));
    }
}

/// Index of the fact in the list; a new fact is appended. Of two deadlines the earlier counts.
fn index_of(facts: &mut Vec<Interruption>, fact: Interruption) -> usize {
    let same = |other: &Interruption| (&other.instance, other.kind) == (&fact.instance, fact.kind);
    match facts.iter().position(same) {
        None => {
            facts.push(fact);
            facts.len() - 1
        }
        Some(at) => {
            if let Some(first) = facts.get_mut(at) {
                let deadlines = [first.deadline, fact.deadline];
                first.deadline = deadlines.into_iter().flatten().min();
            }
            at
        }
    }
}

impl Delivery {
    async fn handle_batch(&mut self, world: &World, batch: &Batch<'_>, turn: &TurnId) {
        if batch.facts.is_empty() {
            return;
        }
        let outcomes = interrupt(world, &batch.facts, turn).await;
        for (fact, outcome) in batch.facts.iter().zip(&outcomes) {
            let became = match outcome {
                Ok(report) => report.as_str(),
                Err(_) => "failed",
            };
            if let Ok(
                InterruptionReport::NotOurs
                | InterruptionReport::Unregistered { .. }
                | InterruptionReport::Refuted { .. },
            ) = outcome
            {
                self.ignore(became);
            }
            let (instance, kind) = (&fact.instance, fact.kind.as_str());
            tracing::info!(%instance, kind, became, ?outcome, "interruption handled");
            self.count(&format!("{kind}/{became}"));
        }
        for (message, indexes) in &batch.messages {
            let mut indexes = indexes.iter();
            let failed = indexes.find_map(|index| outcomes.get(*index)?.as_ref().err());
            if let Some(error) = failed {
                self.keep_message(message, "kept", with_causes(&**error));
            }
        }
    }

    /// Counts an event that interrupts no node of any cluster.
    fn ignore(&mut self, why: &'static str) {
        *self.ignored.entry(why).or_default() += 1;
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    fn keep_message(&mut self, message: &Message, what: &str, why: String) {
        tracing::error!(
            message_id = message.id,
            error = why,
            "message not handled; SQS delivers it again"
        );
        self.count(what);
        self.kept.insert(message.id.clone(), why);
    }
}
