//! The story: commands of a user who tries Whittle, and their expected effects.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use model::CapacityType;
use tokio::sync::watch;

use super::{
    audience::{Message, MessageSender, send_message},
    picture::{Bought, Picture, Stage, is_running},
    world::World,
};

const NODE_CLASS: &str = include_str!("manifests/node-class.yaml");
const NODE_POOL: &str = include_str!("manifests/node-pool.yaml");
const INFLATE: &str = include_str!("manifests/inflate.yaml");
const WEB: &str = include_str!("manifests/web.yaml");
const CACHE: &str = include_str!("manifests/cache.yaml");

const DEPLOYMENTS: [&str; 3] = ["inflate", "web", "cache"];

/// Upper bound on the wait for one effect, in simulated time and in real time: the machine may be slow.
const STORY_TIMEOUT: SignedDuration = SignedDuration::from_mins(20);
const REAL_TIMEOUT: Duration = Duration::from_secs(300);

/// An effect that did not occur.
pub(super) type Missing = String;

pub(super) struct Story<'a> {
    world: &'a World,
    pictures: watch::Receiver<Arc<Picture>>,
    sender: MessageSender,
    pub(super) timeout: SignedDuration,
    pub(super) missing: Vec<Missing>,
}

impl<'a> Story<'a> {
    pub(super) fn new(world: &'a World, sender: MessageSender) -> Self {
        Self {
            world,
            pictures: world.pictures(),
            sender,
            timeout: STORY_TIMEOUT,
            missing: Vec::new(),
        }
    }

    /// Plays the demo's steps, the last ones only if `to_the_end`. Returns the effects that did not occur.
    pub(super) async fn play(mut self, to_the_end: bool) -> Result<Vec<Missing>> {
        self.one_pool().await?;
        self.two_pools().await?;
        self.layered_constraints().await?;
        if to_the_end {
            self.nothing_left().await?;
        }
        Ok(self.missing)
    }

    async fn one_pool(&mut self) -> Result<()> {
        self.chapter("A cluster without nodes, and a NodePool that may buy spot and on-demand, arm64 and amd64");
        self.apply("node-class.yaml", NODE_CLASS).await?;
        self.apply("node-pool.yaml", NODE_POOL).await?;
        self.apply("inflate.yaml", INFLATE).await?;
        for replicas in [10, 50] {
            self.scale("inflate", replicas).await?;
            self.runs("inflate", replicas).await;
        }
        Ok(())
    }

    async fn two_pools(&mut self) -> Result<()> {
        self.chapter(
            "Two NodePools by weight: spot first, up to 16 CPUs; the rest falls back to on-demand",
        );
        self.apply("web.yaml", WEB).await?;
        self.runs("web", 24).await;
        self.found(
            "web",
            "both spot and on-demand nodes, with at most 16 CPUs of spot",
            |nodes| {
                let of = |kind| {
                    nodes
                        .iter()
                        .filter(move |(bought, _)| bought.capacity_type == kind)
                };
                let spot: u64 = of(CapacityType::Spot)
                    .map(|(_, millicores)| millicores)
                    .sum();
                (1..=16_000).contains(&spot) && of(CapacityType::OnDemand).next().is_some()
            },
        );
        Ok(())
    }

    async fn layered_constraints(&mut self) -> Result<()> {
        self.chapter(
            "Layered constraints: pods that ask for r6gd.xlarge, on-demand, arm64, in us-east-1a",
        );
        self.apply("cache.yaml", CACHE).await?;
        self.runs("cache", 3).await;
        self.found(
            "cache",
            "exactly one r6gd.xlarge, on-demand in us-east-1a",
            |nodes| {
                matches!(nodes, [(only, _)] if only.instance_type == "r6gd.xlarge"
                && only.capacity_type == CapacityType::OnDemand
                && only.zone == "us-east-1a")
            },
        );
        Ok(())
    }

    async fn nothing_left(&mut self) -> Result<()> {
        self.chapter("Nothing left to run: nodes are empty for a minute, and go");
        for deployment in DEPLOYMENTS {
            self.scale(deployment, 0).await?;
        }
        self.all_gone().await;
        Ok(())
    }

    fn chapter(&self, text: &str) {
        send_message(&self.sender, Message::Chapter(text.to_owned()));
    }

    fn typed(&self, command: &str) {
        let typed = Message::Typed(self.world.now(), command.to_owned());
        send_message(&self.sender, typed);
    }

    async fn apply(&self, file: &str, manifests: &str) -> Result<()> {
        self.typed(&format!("kubectl apply -f {file}"));
        self.world.kubectl().apply(manifests).await
    }

    async fn scale(&self, deployment: &str, replicas: usize) -> Result<()> {
        self.typed(&format!(
            "kubectl scale deployment {deployment} --replicas={replicas}"
        ));
        self.world.kubectl().scale(deployment, replicas).await
    }

    /// Waits until all pods of a Deployment run on nodes that are Ready.
    pub(super) async fn runs(&mut self, app: &str, replicas: usize) {
        let count = |picture: &Picture| picture.pods_of(app).filter(|pod| is_running(pod)).count();
        let settled = |picture: &Picture| {
            let young = |stage: Stage| stage < Stage::Ready;
            count(picture) == replicas && !picture.lines().iter().any(|line| young(line.stage))
        };
        if let Err(picture) = self.wait(settled).await {
            let running = count(&picture);
            let young: Vec<String> = picture
                .lines()
                .into_iter()
                .filter(|line| line.stage < Stage::Ready)
                .map(|line| line.claim)
                .collect();
            self.missing.push(if running == replicas {
                format!("nodes that became Ready: {}", young.join(", "))
            } else {
                format!("{running} of {replicas} pods of deployment/{app} run")
            });
        }
    }

    /// Checks the nodes of a Deployment: the purchased offerings, and the millicores of each.
    fn found(&mut self, app: &str, what: &str, right: impl Fn(&[(Bought, u64)]) -> bool) {
        let picture = self.pictures.borrow().clone();
        let runs_here = |claim: &model::node_claim::NodeClaim| {
            let node = claim.status.node_name.as_ref();
            node.is_some_and(|node| {
                let mut pods = picture.pods_of(app);
                pods.any(|pod| pod.node_name.as_ref() == Some(node))
            })
        };
        let nodes: Vec<(Bought, u64)> = picture
            .claims
            .iter()
            .filter(|claim| runs_here(claim))
            .filter_map(|claim| {
                let millicores = claim.status.capacity.get(model::resources::CPU);
                let bought = Bought::of(picture.instance_of(claim)?);
                Some((bought, u64::try_from(millicores).unwrap_or(0)))
            })
            .collect();
        if !right(&nodes) {
            let found: Vec<String> = nodes.iter().map(|(bought, _)| bought.to_string()).collect();
            let found = match found.as_slice() {
                [] => "nothing".to_owned(),
                found => found.join(", "),
            };
            self.missing.push(format!(
                "deployment/{app} should run on {what}, and runs on: {found}"
            ));
        }
    }

    pub(super) async fn all_gone(&mut self) {
        let gone = |picture: &Picture| {
            picture.remaining().next().is_none()
                && picture.claims.is_empty()
                && picture.nodes.is_empty()
        };
        if let Err(picture) = self.wait(gone).await {
            let instances = picture
                .remaining()
                .map(|priced| format!("instance {}", priced.instance.id));
            let claims = picture
                .claims
                .iter()
                .map(|claim| format!("nodeclaim/{}", claim.name));
            let nodes = picture.nodes.keys().map(|name| format!("node/{name}"));
            let left: Vec<String> = instances.chain(claims).chain(nodes).collect();
            self.missing
                .push(format!("still there: {}", left.join(", ")));
        }
    }

    /// Waits until a condition holds; on a timeout, returns the last picture.
    pub(super) async fn wait(
        &mut self,
        is_so: impl Fn(&Picture) -> bool,
    ) -> Result<(), Arc<Picture>> {
        let until = self
            .world
            .now()
            .checked_add(self.timeout)
            .unwrap_or(Timestamp::MAX);
        let watch = async {
            loop {
                let picture = self.pictures.borrow_and_update().clone();
                if is_so(&picture) {
                    return Ok(());
                }
                if picture.at > until || self.pictures.changed().await.is_err() {
                    return Err(picture);
                }
            }
        };
        match tokio::time::timeout(REAL_TIMEOUT, watch).await {
            Ok(seen) => seen,
            Err(_) => Err(self.pictures.borrow().clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use sandbox::WorldClock;
    use tokio::sync::mpsc;

    use super::*;
    use crate::{catalogs, demo::verdict};

    /// A world after the setup of the first chapter: with its NodeClass and NodePool.
    async fn world(sender: &MessageSender) -> World {
        let catalog = Arc::new(catalogs::us_east_1().unwrap());
        let clock = WorldClock::accelerated(100, SignedDuration::from_hours(2));
        World::start(catalog, clock, sender.clone()).await.unwrap()
    }

    #[tokio::test]
    async fn pods_that_never_run_and_nodes_that_stay_are_missing_effects() {
        let (sender, _messages) = mpsc::unbounded_channel();
        let world = world(&sender).await;
        let only_one = (
            CapacityType::OnDemand,
            "r6gd.xlarge".to_owned(),
            "us-east-1a".to_owned(),
        );
        world.set_capacity(only_one.clone(), 0);
        let mut story = Story::new(&world, sender);
        story.timeout = SignedDuration::from_mins(2);
        story.apply("node-class.yaml", NODE_CLASS).await.unwrap();
        story.apply("node-pool.yaml", NODE_POOL).await.unwrap();

        story.layered_constraints().await.unwrap();
        assert_eq!(
            story.missing,
            [
                "0 of 3 pods of deployment/cache run",
                "deployment/cache should run on exactly one r6gd.xlarge, on-demand in us-east-1a, and runs on: nothing",
            ]
        );
        let error = verdict(&story.missing).unwrap_err().to_string();
        assert!(error.contains("0 of 3 pods"), "{error}");

        world.set_capacity(only_one, 1);
        story.missing.clear();
        story.timeout = STORY_TIMEOUT;
        story.runs("cache", 3).await;
        assert_eq!(story.missing, Vec::<Missing>::new());
        story.timeout = SignedDuration::from_secs(30);
        story.all_gone().await;
        let [left] = story.missing.as_slice() else {
            panic!("{:?}", story.missing);
        };
        for kind in ["instance i-", "nodeclaim/default-", "node/ip-"] {
            assert!(left.contains(kind), "{left}");
        }
        world.stop().await;
    }

    #[test]
    fn story_without_missing_effects_ends_well() {
        assert!(verdict(&[]).is_ok());
    }
}
