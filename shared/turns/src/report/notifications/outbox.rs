//! The outbox: rows of the ledger, so that notifications survive a crash.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Lane, Notification, counted, ledger::SweepMemory};
use ports::{LedgerError, Notifier, NotifyError, limits::sns::SUBJECT_CHARACTERS};

use super::{NotificationDraft, signature::signature};
use crate::{
    SweepReport, World,
    settings::destinations::{Address, Destination, HeaderValue},
};

/// Age after which a notification that could not be sent is dropped.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Upper bound on notifications per sweep and cluster: a sweep has other work, and a slow webhook takes seconds.
const SENT_MAX: usize = 20;

/// Puts drafts into the outbox, one copy per destination that subscribes to their class.
pub(crate) async fn enqueue(
    world: &World,
    cluster: &ClusterName,
    destinations: &[Destination],
    drafts: Vec<NotificationDraft>,
) -> Result<(), LedgerError> {
    let at = world.clock.now();
    let mut notifications = Vec::new();
    for draft in &drafts {
        let wants = |to: &&Destination| to.classes.contains(&draft.class);
        for to in destinations.iter().filter(wants) {
            notifications.push(Notification {
                id: format!("{}/{}", draft.id, to.name),
                to: to.name.clone(),
                class: draft.class,
                cluster: cluster.clone(),
                at,
                title: draft.title.clone(),
                details: draft.details.clone(),
            });
        }
    }
    if notifications.is_empty() {
        return Ok(());
    }
    let ledger = &world.ledger;
    ledger.put_notifications(cluster, &notifications).await?;
    // The next sweep visits the cluster, and sends them (docs/protocol.md#l4).
    ledger.make_due(cluster, Lane::Housekeeper, at).await
}

/// Sends the notifications in the outbox. Returns whether any still wait. A destination that refuses delays no other, and is
/// tried again by the next sweep.
pub(crate) async fn send(
    world: &World,
    cluster: &ClusterName,
    destinations: &[Destination],
    memory: &mut SweepMemory,
    report: &mut SweepReport,
) -> Result<bool, LedgerError> {
    // Entries of removed destinations would otherwise never be deleted.
    let is_known = |name: &String| destinations.iter().any(|to| to.name == *name);
    memory.notified.retain(|name, _| is_known(name));
    if destinations.is_empty() {
        return Ok(false);
    }
    let mut waiting = world.ledger.notifications(cluster).await?;
    waiting.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
    let (mut skipped, mut sent, mut lost, mut delivered) = (BTreeSet::new(), 0, 0, 0);
    let others = match waiting.is_empty() {
        true => BTreeSet::new(),
        false => world.ledger.clusters().await?.into_iter().collect(),
    };
    let secrets = Secrets {
        notifier: &*world.notifier,
        cluster,
        others: &others,
    };
    for notification in &waiting {
        let now = world.clock.now();
        let to = destinations.iter().find(|to| to.name == notification.to);
        let Some(to) = to.filter(|_| now.duration_since(notification.at) < KEPT_FOR) else {
            lost += 1;
            world
                .ledger
                .finish_notification(cluster, notification)
                .await?;
            continue;
        };
        if sent == SENT_MAX || skipped.contains(&to.name) {
            continue;
        }
        if !count_within_limit(&mut memory.notified, to, now) {
            skipped.insert(to.name.clone());
            continue;
        }
        sent += 1;
        match deliver(&secrets, to, notification, now).await {
            Ok(()) => {
                delivered += 1;
                world
                    .ledger
                    .finish_notification(cluster, notification)
                    .await?
            }
            Err(error) => {
                skipped.insert(to.name.clone());
                let name = &to.name;
                report
                    .problems
                    .push(format!("{cluster}: notifications to {name}: {error}"));
            }
        }
    }
    if lost > 0 {
        report.problems.push(format!(
            "{cluster}: {} not sent in time",
            counted(lost, "notification")
        ));
    }
    Ok(waiting.len() > lost + delivered)
}

/// Counts a notification against the destination's hourly limit. Returns whether the limit admits it.
fn count_within_limit(
    notified: &mut BTreeMap<String, (Timestamp, u32)>,
    to: &Destination,
    now: Timestamp,
) -> bool {
    let (since, count) = notified.entry(to.name.clone()).or_insert((now, 0));
    if now.duration_since(*since) >= SignedDuration::from_hours(1) {
        (*since, *count) = (now, 0);
    }
    let admitted = *count < to.per_hour;
    *count += u32::from(admitted);
    admitted
}

/// Access to parameters that a cluster's destinations may name: all but the credentials of other clusters, which are kept under
/// their names. A destination would send them wherever its author likes.
struct Secrets<'a> {
    notifier: &'a dyn Notifier,
    cluster: &'a ClusterName,
    others: &'a BTreeSet<ClusterName>,
}

impl Secrets<'_> {
    async fn read(&self, parameter: &str) -> Result<String, NotifyError> {
        let is_named = |part: &str| self.others.contains(&ClusterName::from(part));
        // The first part is the stack's name, even if a cluster has that name.
        let owner = parameter.split('/').skip(2).find(|part| is_named(part));
        match owner.filter(|owner| *owner != self.cluster.as_str()) {
            Some(owner) => Err(NotifyError {
                action: "reading a parameter".to_owned(),
                message: format!(
                    "{parameter} belongs to cluster {owner}, whose name is in its path: name a parameter of this cluster"
                ),
            }),
            None => self.notifier.secret(parameter).await,
        }
    }
}

async fn deliver(
    secrets: &Secrets<'_>,
    to: &Destination,
    notification: &Notification,
    now: Timestamp,
) -> Result<(), NotifyError> {
    let notifier = secrets.notifier;
    let body = to.template.body(notification);
    let class = notification.class.as_str();
    let url = match &to.address {
        Address::Topic(topic) => {
            let subject = format!("Whittle: {class} in cluster {}", notification.cluster);
            let subject: String = subject.chars().take(SUBJECT_CHARACTERS).collect();
            return notifier.publish(topic, &subject, &body).await;
        }
        Address::Bus(bus) => return notifier.put_event(bus, class, &body).await,
        Address::Url(url) => url.clone(),
        Address::UrlIn(parameter) => {
            let url = secrets.read(parameter).await?;
            if !url.starts_with("https://") {
                return Err(NotifyError {
                    action: "reading a webhook's URL".to_owned(),
                    message: format!("the parameter {parameter} does not contain an HTTPS URL"),
                });
            }
            url
        }
    };
    let mut headers = Vec::new();
    for (name, value) in &to.headers {
        let value = match value {
            HeaderValue::Text(text) => text.clone(),
            HeaderValue::In(parameter) => secrets.read(parameter).await?,
        };
        headers.push((name.clone(), value));
    }
    if !to.headers.contains_key("content-type") {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    if let Some(parameter) = &to.secret {
        let key = secrets.read(parameter).await?;
        headers.extend(signature(&key, now, &body));
    }
    notifier.post(&url, &headers, &body).await
}
