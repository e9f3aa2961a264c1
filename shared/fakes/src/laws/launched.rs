//! Launched intents (docs/protocol.md#o2, docs/protocol.md#a1).

use model::{
    ClusterName, InstanceId, Lane, NodeClaimName,
    ids::LaunchToken,
    ledger::{Intent, IntentState},
};
use ports::{Ledger, ledger::Moved};

use super::{at, call, claim_two, intent, lease, state, turn};

pub async fn o2_launched_intent_is_not_listed_with_open_intents(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    claim_two(ledger, c).await;
    let (me, frozen) = (turn("t1"), call("token", &["a", "b"]));
    ledger.freeze(c, &me, &frozen).await.unwrap();
    let (a, instance) = (NodeClaimName::from("a"), InstanceId(format!("i-{c}")));
    let token = LaunchToken::from("token");
    ledger.own(c, &a, &instance, &token).await.unwrap();
    assert_eq!(ledger.launched(c).await.unwrap(), [], "not yet");

    let launching = ledger.intent(c, &a).await.unwrap().unwrap();
    let shown = IntentState::Launched {
        instance: instance.clone(),
    };
    let others = ledger.move_intent(c, &turn("t2"), &launching, &shown).await;
    assert_eq!(others.unwrap(), Moved::No, "not my lease");
    for again in [false, true] {
        let moved = ledger.move_intent(c, &me, &launching, &shown).await;
        assert_eq!(moved.unwrap(), Moved::Yes, "repeated: {again}");
    }
    let names = |intents: Vec<Intent>| -> Vec<NodeClaimName> {
        intents.iter().map(|intent| intent.name().clone()).collect()
    };
    let open = names(ledger.intents(c).await.unwrap());
    assert_eq!(open, ["b".into()], "O2: its NodeClaim represents it");
    assert_eq!(ledger.launched(c).await.unwrap(), vec![a.clone()]);
    assert_eq!(
        ledger.intent(c, &a).await.unwrap(),
        Some(Intent {
            state: shown,
            lease: None,
            ..launching.clone()
        }),
        "A1: its row is unchanged"
    );

    let leased = ledger.lease_intent(c, &a, &lease("t3", 300), at(200)).await;
    assert_eq!(leased.unwrap(), None, "there is nothing left to do for it");
    let void = IntentState::Void { why: "late".into() };
    let moved = ledger.move_intent(c, &me, &launching, &void).await;
    assert_eq!(moved.unwrap(), Moved::No, "it is over");
    let made = intent("a", "t1");
    let adopted = ledger.adopt_intent(c, &made, Lane::Lifecycle, at(0)).await;
    assert_eq!(adopted.unwrap(), Moved::No, "A1: put-if-absent");
    assert!(matches!(
        state(ledger, c, "a").await,
        IntentState::Launched { .. }
    ));

    ledger.forget_claim(c, &a, at(200)).await.unwrap();
    assert_eq!(ledger.launched(c).await.unwrap(), []);
    assert_eq!(ledger.intent(c, &a).await.unwrap(), None);
}
