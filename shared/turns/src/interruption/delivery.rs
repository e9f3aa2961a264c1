//! One delivery of the queue: messages in, the ones to keep out. A message that cannot be read spoils none of the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use jiff::Timestamp;
use model::{
    Interruption,
    ids::TurnId,
    interruption::{Home, Reading},
};
use serde::Serialize;

use super::{InterruptionReport, interrupt};
use crate::{World, capacity_blocks, lane::chain, metrics};

/// A message's id and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    pub body: String,
}

/// What became of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Messages that must stay in the queue, with why.
    pub kept: BTreeMap<String, String>,
    /// Announcements by kind and by what became of them, messages by why they were ignored.
    pub counts: BTreeMap<String, usize>,
}

/// Handles a delivery. `read` says what a message means.
pub async fn deliver<E: Error + 'static>(
    world: &World,
    messages: &[Message],
    read: impl Fn(&str, &Home, Timestamp) -> Result<Reading, E>,
    turn: &TurnId,
) -> Delivery {
    let (home, now) = (world.home(), world.clock.now());
    let mut delivery = Delivery::default();
    let mut ignored: BTreeMap<&'static str, u64> = BTreeMap::new();
    // The same fact may come in many messages; it is handled once.
    let mut facts: Vec<Interruption> = Vec::new();
    let mut asked: Vec<(&Message, BTreeSet<usize>)> = Vec::new();
    for message in messages {
        match read(&message.body, &home, now) {
            Ok(Reading::Announced(announced)) => {
                let places = announced.into_iter().map(|fact| place(&mut facts, fact));
                asked.push((message, places.collect()));
            }
            Ok(Reading::BlockEnds(block)) => {
                match capacity_blocks::announced(world, &block).await {
                    Ok(announced) if announced.is_empty() => delivery.count("block-without-nodes"),
                    Ok(announced) => {
                        let places = announced.into_iter().map(|fact| place(&mut facts, fact));
                        asked.push((message, places.collect()));
                    }
                    Err(error) => delivery.keep(message, "kept", chain(&error)),
                }
            }
            Ok(Reading::Ignored(why)) => {
                tracing::info!(message_id = message.id, ?why, "the event ends no node");
                delivery.count(why.as_str());
                *ignored.entry(why.as_str()).or_default() += 1;
            }
            Err(error) => delivery.keep(message, "unreadable", chain(&error)),
        }
    }
    let outcomes = interrupt(world, &facts, turn).await;
    for (fact, outcome) in facts.iter().zip(&outcomes) {
        let became = match outcome {
            Ok(report) => report.as_str(),
            Err(_) => "failed",
        };
        if let Ok(InterruptionReport::NotOurs | InterruptionReport::Unregistered { .. }) = outcome {
            *ignored.entry(became).or_default() += 1;
        }
        let (instance, kind) = (&fact.instance, fact.kind.as_str());
        tracing::info!(%instance, kind, became, ?outcome, "interruption");
        delivery.count(&format!("{kind}/{became}"));
    }
    for (message, places) in asked {
        let mut places = places.into_iter();
        let failed = places.find_map(|place| outcomes.get(place)?.as_ref().err());
        if let Some(error) = failed {
            delivery.keep(message, "kept", chain(&**error));
        }
    }
    metrics::publish_ignored(world, &ignored);
    tracing::info!(
        messages = messages.len(),
        facts = facts.len(),
        kept = delivery.kept.len(),
        counts = ?delivery.counts,
        "delivery"
    );
    delivery
}

/// Where the fact is in the list, or is put. Of two deadlines the earlier counts.
fn place(facts: &mut Vec<Interruption>, fact: Interruption) -> usize {
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
    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    fn keep(&mut self, message: &Message, what: &str, why: String) {
        tracing::error!(
            message_id = message.id,
            why,
            "the message stays in its queue"
        );
        self.count(what);
        self.kept.insert(message.id.clone(), why);
    }
}
