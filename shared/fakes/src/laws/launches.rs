//! Launching and collecting: intents, frozen calls, ownership (docs/protocol.md#launching, docs/protocol.md#collecting).

use model::{
    ClusterName, InstanceId, Lane, NodeClaimName,
    ids::LaunchToken,
    ledger::{Call, Holder, Intent, IntentState},
};
use ports::{Ledger, ledger::Moved};

use super::{activate, at, call, claim_two, claimed, commit, intent, lease, state, turn};

pub async fn intents_advance_only_under_their_lease(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    ledger.commit(c, &commit("p", 0, &["a"])).await.unwrap();
    let a = intent("a", "t1");
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::No,
        "not my lease"
    );
    assert_eq!(
        ledger
            .lease_intent(c, &"a".into(), &lease("t2", 90), at(10))
            .await
            .unwrap(),
        None,
        "a live lease"
    );
    let taken = ledger
        .lease_intent(c, &"a".into(), &lease("t2", 120), at(60))
        .await
        .unwrap();
    assert_eq!(taken.unwrap().lease, Some(lease("t2", 120)), "a lapsed one");
    assert_eq!(
        ledger
            .move_intent(c, &turn("t1"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::No,
        "the old holder"
    );
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::Yes
    );
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &a, &claimed("a"))
            .await
            .unwrap(),
        Moved::Yes,
        "as asked for already"
    );
    let void = IntentState::Void { why: "gone".into() };
    assert_eq!(
        ledger.move_intent(c, &turn("t2"), &a, &void).await.unwrap(),
        Moved::No,
        "not the state it was read in"
    );
    let now = Intent {
        state: claimed("a"),
        ..a.clone()
    };
    assert_eq!(
        ledger
            .move_intent(c, &turn("t2"), &now, &void)
            .await
            .unwrap(),
        Moved::Yes
    );
    let row = ledger.intent(c, &"a".into()).await.unwrap().unwrap();
    assert_eq!(
        (row.state, row.lease),
        (void, None),
        "terminal states release the lease"
    );
    ledger.forget_claim(c, &"a".into(), at(130)).await.unwrap();
    assert_eq!(ledger.intents(c).await.unwrap(), []);
    assert_eq!(
        ledger
            .lease_intent(c, &"a".into(), &lease("t2", 200), at(130))
            .await
            .unwrap(),
        None,
        "nothing to lease"
    );
}

pub async fn a1_manually_created_claim_is_adopted_once(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let mine = intent("hand-made", "t1");
    let theirs = intent("hand-made", "t2");
    assert_eq!(
        ledger
            .adopt_intent(c, &mine, Lane::Lifecycle, at(0))
            .await
            .unwrap(),
        Moved::Yes,
        "A1"
    );
    assert_eq!(
        ledger
            .adopt_intent(c, &theirs, Lane::Lifecycle, at(0))
            .await
            .unwrap(),
        Moved::No,
        "A1: put-if-absent"
    );
    assert_eq!(
        ledger
            .adopt_intent(c, &mine, Lane::Lifecycle, at(0))
            .await
            .unwrap(),
        Moved::Yes,
        "A1: mine already"
    );
    assert_eq!(
        ledger.intent(c, &"hand-made".into()).await.unwrap(),
        Some(mine)
    );
}

pub async fn a2_freezing_moves_all_members_or_none(ledger: &dyn Ledger, c: &ClusterName) {
    claim_two(ledger, c).await;
    let frozen = call("token", &["a", "b"]);
    assert_eq!(
        ledger.freeze(c, &turn("t2"), &frozen).await.unwrap(),
        Moved::No,
        "A2: my lease on each"
    );
    let three = call("token", &["a", "b", "missing"]);
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &three).await.unwrap(),
        Moved::No,
        "A2: all or none"
    );
    assert_eq!(state(ledger, c, "a").await, claimed("a"), "A2: all or none");
    let second = Call {
        attempt: 2,
        ..frozen.clone()
    };
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &second).await.unwrap(),
        Moved::No,
        "A2: another attempt"
    );
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &frozen).await.unwrap(),
        Moved::Yes,
        "A2"
    );
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &frozen).await.unwrap(),
        Moved::Yes,
        "A2: frozen already, by me"
    );
    let launching = IntentState::Launching {
        uid: "b-uid".into(),
        attempt: 1,
        token: "token".into(),
    };
    assert_eq!(state(ledger, c, "b").await, launching);
    assert_eq!(ledger.open_calls(c).await.unwrap(), vec![frozen.clone()]);
    let other = call("other", &["a"]);
    assert_eq!(
        ledger.freeze(c, &turn("t1"), &other).await.unwrap(),
        Moved::No,
        "A2: never regrouped"
    );

    let token = LaunchToken::from("token");
    assert_eq!(
        ledger
            .lease_call(c, &token, &lease("t2", 90), at(10))
            .await
            .unwrap(),
        None,
        "a live lease"
    );
    assert_eq!(
        ledger.close_call(c, &token, &turn("t2")).await.unwrap(),
        Moved::No,
        "not my lease"
    );
    assert!(
        ledger
            .lease_call(c, &token, &lease("t2", 120), at(61))
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        ledger.close_call(c, &token, &turn("t2")).await.unwrap(),
        Moved::Yes
    );
    assert_eq!(ledger.open_calls(c).await.unwrap(), []);
    assert_eq!(
        ledger
            .lease_call(c, &token, &lease("t3", 300), at(200))
            .await
            .unwrap(),
        None,
        "a closed call stays closed"
    );
    assert!(
        ledger.call(c, &token).await.unwrap().unwrap().closed,
        "G3: it still explains its instances"
    );
}

pub async fn a4_owner_and_claim_name_each_other_or_nothing_is_written(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    claim_two(ledger, c).await;
    let (a, b) = (NodeClaimName::from("a"), NodeClaimName::from("b"));
    let one = InstanceId(format!("i-{c}-1"));
    let two = InstanceId(format!("i-{c}-2"));
    let token = LaunchToken::from("token");
    assert_eq!(
        ledger.own(c, &a, &one, &token).await.unwrap(),
        Moved::No,
        "A4: not launching"
    );
    ledger
        .freeze(c, &turn("t1"), &call("token", &["a", "b"]))
        .await
        .unwrap();
    assert_eq!(
        ledger.own(c, &a, &one, &"other".into()).await.unwrap(),
        Moved::No,
        "A4: not this attempt"
    );
    assert_eq!(ledger.owner(&one).await.unwrap(), None);
    assert_eq!(
        ledger.own(c, &a, &one, &token).await.unwrap(),
        Moved::Yes,
        "A4"
    );
    assert_eq!(
        ledger.own(c, &a, &one, &token).await.unwrap(),
        Moved::Yes,
        "A4: the same again"
    );
    assert_eq!(
        ledger.own(c, &b, &one, &token).await.unwrap(),
        Moved::No,
        "A4: owned by another"
    );
    assert_eq!(
        ledger.own(c, &a, &two, &token).await.unwrap(),
        Moved::No,
        "A4: the claim has one"
    );
    assert_eq!(
        ledger.owner(&two).await.unwrap(),
        None,
        "A4: nothing is half written"
    );
    assert_eq!(
        ledger.claim(c, &b).await.unwrap(),
        None,
        "A4: nothing is half written"
    );
    assert_eq!(
        ledger.owner(&one).await.unwrap().unwrap().holder,
        Holder::Claim(a.clone())
    );
    assert_eq!(ledger.claim(c, &a).await.unwrap().unwrap().instance, one);
}

pub async fn g1_adopter_and_collector_exclude_each_other(ledger: &dyn Ledger, c: &ClusterName) {
    claim_two(ledger, c).await;
    ledger
        .freeze(c, &turn("t1"), &call("token", &["a", "b"]))
        .await
        .unwrap();
    let (a, token) = (NodeClaimName::from("a"), LaunchToken::from("token"));
    let adopted = InstanceId(format!("i-{c}-1"));
    let orphan = InstanceId(format!("i-{c}-2"));
    ledger.own(c, &a, &adopted, &token).await.unwrap();
    assert_eq!(
        ledger.collect(c, &adopted, at(0)).await.unwrap(),
        Moved::No,
        "G1: its claim is open"
    );
    assert_eq!(
        ledger.collect(c, &orphan, at(0)).await.unwrap(),
        Moved::Yes,
        "G1: put-if-absent"
    );
    assert_eq!(
        ledger.collect(c, &orphan, at(0)).await.unwrap(),
        Moved::Yes,
        "G1: taken already"
    );
    assert_eq!(
        ledger.own(c, &"b".into(), &orphan, &token).await.unwrap(),
        Moved::No,
        "G1: it can no longer be adopted"
    );
    ledger.close_claim(c, &a).await.unwrap();
    assert_eq!(
        ledger.collect(c, &adopted, at(0)).await.unwrap(),
        Moved::Yes,
        "G1: its claim is closed"
    );
    assert_eq!(
        ledger.owner(&adopted).await.unwrap().unwrap().holder,
        Holder::Collector
    );
}
