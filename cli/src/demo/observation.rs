//! Observes the world a few times a second.

use std::sync::Arc;

use model::{NanosPerHour, launch::Instance};
use ports::{Cluster, ClusterError};
use sandbox::{WorldClock, ec2::handle::Ec2};
use tokio::sync::watch;

use super::{
    audience::{Message, MessageSender, send_message},
    picture::{Picture, Priced},
};

/// Interval between pictures.
const PICTURE_INTERVAL: std::time::Duration = std::time::Duration::from_millis(150);

pub(super) async fn take_pictures(
    api: Arc<dyn Cluster>,
    account: Arc<Ec2>,
    clock: WorldClock,
    pictures: watch::Sender<Arc<Picture>>,
    message_sender: MessageSender,
) {
    loop {
        // A cluster that does not answer is observed again later.
        if let Ok(picture) = picture(&*api, &account, &clock).await {
            let picture = Arc::new(picture);
            // The picture is printed before any turn acts on it.
            send_message(&message_sender, Message::Picture(picture.clone()));
            pictures.send_replace(picture);
        }
        tokio::time::sleep(PICTURE_INTERVAL).await;
    }
}

async fn picture(
    api: &dyn Cluster,
    account: &Ec2,
    clock: &WorldClock,
) -> Result<Picture, ClusterError> {
    let (classes, pools, claims, nodes, pods) = tokio::try_join!(
        api.node_classes(),
        api.node_pools(),
        api.node_claims(),
        api.nodes(),
        api.pods(),
    )?;
    let ready = classes
        .items
        .iter()
        .filter(|class| turns::readiness(class).is_ok());
    let ready = ready.map(|class| class.metadata.name.clone()).collect();
    let classes = classes.items.into_iter().map(|class| class.metadata);
    let pools = pools.items.into_iter().map(|pool| pool.metadata);
    let asked_for = classes.chain(pools);
    let (instances, hourly, spent_nanos) = account.with(|account, _, now| {
        let priced = |instance: &Instance| Priced {
            instance: instance.clone(),
            price: account.price(&instance.id).unwrap_or(NanosPerHour(0)),
        };
        (
            account.instances().map(priced).collect(),
            account.hourly_cost(),
            account.spent_nanos(now),
        )
    });
    Ok(Picture {
        at: clock.now(),
        asked_for: asked_for
            .map(|metadata| (metadata.uid, metadata.generation))
            .collect(),
        ready,
        claims,
        nodes: nodes
            .into_iter()
            .map(|node| (node.name.clone(), node))
            .collect(),
        pods,
        instances,
        hourly,
        spent_nanos,
    })
}
