use jiff::Timestamp;
use model::{
    ClusterName,
    ledger::{ApprovalScope, Mode, Pause, PauseLevel, PauseScope, Request},
};
use ports::{
    Ledger,
    ledger::{Commit, Committed, Moved},
};

use super::{activate, at, commit};

fn pause(owner: &str, scope: PauseScope, level: PauseLevel, until: Timestamp) -> Pause {
    Pause {
        scope,
        owner: owner.into(),
        level,
        reason: "a migration".into(),
        since: at(0),
        until,
    }
}

pub async fn c4_pause_rejects_commits_of_its_level_until_it_ends(
    ledger: &dyn Ledger,
    c: &ClusterName,
) {
    let all = [pause("ann", PauseScope::Cluster, PauseLevel::All, at(10))];
    assert_eq!(
        ledger.store_pauses(Some(c), &[], &all).await.unwrap(),
        Moved::No,
        "an unknown cluster has no pauses"
    );
    assert!(ledger.meta(c).await.unwrap().is_none());
    activate(ledger, c).await;
    assert_eq!(
        ledger.store_pauses(Some(c), &[], &all).await.unwrap(),
        Moved::Yes
    );
    let refused = ledger.commit(c, &commit("p", 0, &["a"])).await.unwrap();
    assert_eq!(refused, Committed::NotActive, "C4");
    assert!(ledger.intents(c).await.unwrap().is_empty());
    ledger
        .mirror_registry(c, &serde_json::json!({}), &Mode::Active)
        .await
        .unwrap();
    assert_eq!(
        ledger.meta(c).await.unwrap().unwrap().pauses,
        all,
        "the mirror leaves pauses as they are"
    );

    let voluntary = [pause(
        "ann",
        PauseScope::Cluster,
        PauseLevel::Voluntary,
        at(10),
    )];
    ledger
        .store_pauses(Some(c), &all, &voluntary)
        .await
        .unwrap();
    let of = |id: &str, base, held_by, now| Commit {
        held_by,
        now,
        ..commit(id, base, &[])
    };
    let chosen = of("chosen", 0, PauseLevel::Voluntary, at(9));
    assert_eq!(
        ledger.commit(c, &chosen).await.unwrap(),
        Committed::NotActive,
        "C4: voluntary acts are held back by either level"
    );
    let launches = of("launches", 0, PauseLevel::All, at(9));
    assert_eq!(
        ledger.commit(c, &launches).await.unwrap(),
        Committed::At(1),
        "C4: launches are held back only by level All"
    );
    let later = of("later", 1, PauseLevel::Voluntary, at(10));
    assert_eq!(
        ledger.commit(c, &later).await.unwrap(),
        Committed::At(2),
        "C4: it ends by itself"
    );

    let pool = [pause(
        "ann",
        PauseScope::NodePool("web".into()),
        PauseLevel::All,
        at(99),
    )];
    ledger
        .store_pauses(Some(c), &voluntary, &pool)
        .await
        .unwrap();
    let other = of("other", 2, PauseLevel::Voluntary, at(11));
    assert_eq!(
        ledger.commit(c, &other).await.unwrap(),
        Committed::At(3),
        "a NodePool's pause refuses no commit: plans do without that NodePool"
    );
}

pub async fn concurrent_pauses_do_not_overwrite_each_other(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let ann = [pause("ann", PauseScope::Cluster, PauseLevel::All, at(10))];
    let ben = [pause("ben", PauseScope::Cluster, PauseLevel::All, at(20))];
    let c = Some(c);
    assert_eq!(ledger.store_pauses(c, &[], &ann).await.unwrap(), Moved::Yes);
    assert_eq!(
        ledger.store_pauses(c, &[], &ann).await.unwrap(),
        Moved::Yes,
        "retry after a lost response"
    );
    assert_eq!(ledger.store_pauses(c, &[], &ben).await.unwrap(), Moved::No);
    assert_eq!(ledger.pauses(c).await.unwrap(), ann);
    let both = [ann.clone(), ben.clone()].concat();
    assert_eq!(
        ledger.store_pauses(c, &ann, &both).await.unwrap(),
        Moved::Yes
    );
    assert_eq!(
        ledger.store_pauses(c, &both, &ben).await.unwrap(),
        Moved::Yes
    );
    assert_eq!(ledger.pauses(c).await.unwrap(), ben);
    assert_eq!(ledger.store_pauses(c, &ben, &[]).await.unwrap(), Moved::Yes);
    assert_eq!(ledger.store_pauses(c, &[], &ann).await.unwrap(), Moved::Yes);
}

pub async fn account_pauses_apply_to_every_cluster(ledger: &dyn Ledger, c: &ClusterName) {
    activate(ledger, c).await;
    let before = ledger.pauses(None).await.unwrap();
    let account = [pause("ann", PauseScope::Account, PauseLevel::All, at(10))];
    let put = ledger.store_pauses(None, &before, &account).await.unwrap();
    assert_eq!(put, Moved::Yes);
    assert_eq!(ledger.meta(c).await.unwrap().unwrap().pauses, account);
    assert!(ledger.pauses(Some(c)).await.unwrap().is_empty());
    ledger.store_pauses(None, &account, &before).await.unwrap();
}

pub async fn requests_are_replaced_only_if_unchanged(ledger: &dyn Ledger, c: &ClusterName) {
    let request = |id: &str| Request {
        id: id.into(),
        asks: ApprovalScope::Disruption {
            delete: ["uid-1".into()].into(),
            evicts: 9,
        },
        description: "evict 9 pods".into(),
        until: at(60),
        approved: None,
    };
    let (a, b) = ([request("a")], [request("b")]);
    let refused = ledger.store_requests(c, &[], &a).await.unwrap();
    assert_eq!(refused, Moved::No, "an unknown cluster has no requests");
    activate(ledger, c).await;
    for _ in 0..2 {
        let stored = ledger.store_requests(c, &[], &a).await.unwrap();
        assert_eq!(stored, Moved::Yes, "also as a retry after a lost response");
    }
    assert_eq!(ledger.meta(c).await.unwrap().unwrap().requests, a);
    let stale = ledger.store_requests(c, &[], &b).await.unwrap();
    assert_eq!(stale, Moved::No);
    assert_eq!(ledger.store_requests(c, &a, &b).await.unwrap(), Moved::Yes);
    activate(ledger, c).await;
    let meta = ledger.meta(c).await.unwrap().unwrap();
    assert_eq!(meta.requests, b, "the mirror leaves them as they are");
}
