//! Measures the journal queries of `whittle explain` over a month of a large cluster.

use std::{collections::BTreeSet, time::Instant};

use futures::{StreamExt, stream};
use jiff::SignedDuration;
use model::{
    journal::{Line, Subject},
    plan::names,
};
use ports::{Journal, JournalEntry, journal::JournalQuery};
use turns::Report;

use crate::{
    bill::Goals,
    prices::Prices,
    stack::{Stack, copied},
};

const DAYS: i64 = 30;
/// Interval between decisions about one node and its pods; each decision also names the NodePool.
const DECISION_INTERVAL: SignedDuration = SignedDuration::from_mins(30);
const PODS: usize = 5;
/// Upper bound on concurrent writes to the table's emulator.
const CONCURRENT_WRITES: usize = 16;
/// Number of records that `whittle explain` shows.
const RECORDS_SHOWN: usize = 20;
/// Sequential rounds of calls per question: a query, then its records in parallel; a question about a node also queries
/// its NodeClaim.
const ROUNDS: f64 = 4.0;

pub(crate) async fn explain(prices: &Prices, nodes: usize, goals: &mut Goals) {
    let mut stack = Stack::of(1);
    stack.grow(1).await;
    let now = stack.now();
    let cluster = Stack::cluster();
    let wanted = |about: Option<Subject>| JournalQuery {
        about,
        from: now - SignedDuration::from_hours(24 * DAYS),
        until: now,
        most: RECORDS_SHOWN,
    };
    let journal = stack.ledger.clone();
    let real = journal.latest(&cluster, &wanted(None)).await.unwrap();
    let real = real.first().unwrap();
    let records = DAYS * SignedDuration::from_hours(24).as_secs() / DECISION_INTERVAL.as_secs();
    let entries = (1..=records).map(|number| {
        let node = usize::try_from(number).unwrap() % nodes;
        record(
            real,
            number,
            now - DECISION_INTERVAL * i32::try_from(number).unwrap(),
            node,
        )
    });
    let writes = stream::iter(entries)
        .map(|entry| {
            let (journal, cluster) = (&journal, &cluster);
            async move { journal.record(cluster, &entry).await }
        })
        .buffer_unordered(CONCURRENT_WRITES);
    let written: Vec<_> = writes.collect().await;
    written.into_iter().for_each(Result::unwrap);

    let (node, claim) = about(7);
    let pool = Subject::NodePool("default".into());
    let unknown_pod = Subject::Pod(model::PodKey::new("default", "nobody"));
    println!("whittle explain, {records} records of {DAYS} days:");
    for subjects in [vec![node, claim], vec![pool], vec![unknown_pod]] {
        stack.meter.take();
        let started = Instant::now();
        let mut found = 0;
        for subject in &subjects {
            let wanted = wanted(Some(subject.clone()));
            let entries = journal.latest(&cluster, &wanted).await.unwrap();
            let reports = entries.iter().map(|entry| Report::read(entry).unwrap());
            found += reports.count();
        }
        let took = started.elapsed().as_millis();
        let units = stack.meter.take();
        println!(
            "    {:<32} {found:>3} records, {:>3} requests, {:>3} read units: {took} ms here, of which {:.0} ms are calls on AWS",
            subjects[0].to_string(),
            units.requests,
            units.reads,
            ROUNDS * prices.assumed.call_milliseconds,
        );
        let took = usize::try_from(took).unwrap();
        goals.at_most(
            &format!("milliseconds to explain {}", subjects[0]),
            took,
            300,
        );
    }
}

fn about(node: usize) -> (Subject, Subject) {
    let name = copied(node);
    let node = Subject::Node(name.as_str().into());
    (node, Subject::NodeClaim(name.as_str().into()))
}

/// Copy of a real record, about another node.
fn record(real: &JournalEntry, number: i64, at: jiff::Timestamp, node: usize) -> JournalEntry {
    let (of_node, of_claim) = about(node);
    let pods = (0..PODS).map(|pod| model::PodKey::new("default", format!("web-{node}-{pod}")));
    let pods: Vec<_> = pods.collect();
    let text = format!("launch for {}", names(pods.iter()));
    let line = Line::new(text, pods.into_iter().map(Subject::Pod));
    let pair = Line::new("registered", [of_claim, of_node]);
    let pool = Line::new("within its limits", [Subject::NodePool("default".into())]);
    let lines = [line, pair, pool];
    let about: BTreeSet<Subject> = lines.iter().flat_map(|line| line.about.clone()).collect();
    let turn = format!("turn-of-{number}");
    let mut body = real.body.clone();
    body["turn"] = turn.as_str().into();
    body["planned"] = serde_json::to_value(lines).unwrap();
    JournalEntry {
        turn: turn.as_str().into(),
        at,
        about,
        body,
        ..real.clone()
    }
}
