//! Stand-in for EventBridge and the interruption queue: delivers the account's announcements to the interruption function, and lets users
//! announce the end of a spot instance by an annotation of its node.

use std::{collections::BTreeSet, sync::Arc};

use model::{InstanceId, Lane, node::Node};
use sandbox::{WorldClock, ec2::handle::Ec2};
use tokio::sync::watch;

use super::{
    audience::{Message, MessageSender, send_message},
    lanes::{Worlds, next_turn},
    picture::Picture,
};
use crate::objects::text;

/// Annotation of a node whose spot instance is to be interrupted, with the value [`SPOT`].
pub(super) const NOTICE: &str = "whittle.sh/sandbox-notice";
pub(super) const SPOT: &str = "spot";

pub(super) async fn deliver_announcements(
    worlds: Worlds,
    account: Arc<Ec2>,
    mut pictures: watch::Receiver<Arc<Picture>>,
    clock: WorldClock,
    sender: MessageSender,
) {
    let mut announced: BTreeSet<InstanceId> = BTreeSet::new();
    let mut queue: Vec<turns::Message> = Vec::new();
    while pictures.changed().await.is_ok() {
        let picture = pictures.borrow_and_update().clone();
        let marked = picture.nodes.values().filter(|node| is_marked(node));
        for node in marked {
            let instance = instance(node);
            if announced.insert(instance.clone()) {
                let note = announce(&account, node, &instance);
                send_message(&sender, Message::Note(picture.at, note));
            }
        }
        let events = account.with(|account, _, _| account.take_events());
        queue.extend(events.into_iter().map(|event| turns::Message {
            id: text(&event, "/id").to_owned(),
            body: event.to_string(),
        }));
        if queue.is_empty() {
            continue;
        }
        let real_time = clock.real_time();
        let (world, read) = (worlds.of(Lane::Interruption), aws_rules::interruption::read);
        let delivery = Box::pin(turns::deliver(&world, &queue, read, &next_turn())).await;
        drop(real_time);
        queue.retain(|message| delivery.kept.contains_key(&message.id));
    }
}

fn is_marked(node: &Node) -> bool {
    node.annotations
        .get(NOTICE)
        .is_some_and(|kind| kind == SPOT)
}

/// Lets EC2 announce the end of a node's instance. Returns a line about it.
fn announce(account: &Ec2, node: &Node, instance: &InstanceId) -> String {
    let name = &node.name;
    match account.with(|account, _, now| account.interrupt_spot(instance, now)) {
        true => format!(
            "EC2 announces that it takes spot instance {instance} (node {name}) back in 2 minutes"
        ),
        false => format!("EC2 interrupts spot instances only: {instance} (node {name}) is none"),
    }
}

fn instance(node: &Node) -> InstanceId {
    let id = node.provider_id.rsplit('/').next();
    InstanceId(id.unwrap_or_default().to_owned())
}
