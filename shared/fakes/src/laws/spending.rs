use model::{
    ClusterName, NanosPerHour,
    caps::{AccountSpending, Spending},
};
use ports::{
    Ledger,
    ledger::{Commit, Committed, Moved},
};

use super::{activate, commit};

/// Both clusters have read the same revision: the second must learn of the first's launches before it launches.
pub async fn concurrent_commits_of_two_clusters_conflict_on_spending(
    ledger: &dyn Ledger,
    a: &ClusterName,
    b: &ClusterName,
) {
    activate(ledger, a).await;
    activate(ledger, b).await;
    let before = ledger.spending().await.unwrap();
    let node = Spending {
        price: NanosPerHour(96_000_000),
        nodes: 1,
    };
    let launches = |id: &str, account: &AccountSpending, cluster: &ClusterName| Commit {
        spending: Some(account.with(cluster, node)),
        ..commit(id, 0, &[id])
    };
    let of_a = launches("spends-a", &before, a);
    assert_eq!(ledger.commit(a, &of_a).await.unwrap(), Committed::At(1));
    let between = ledger.spending().await.unwrap();
    assert_eq!(between, before.with(a, node), "written with the launches");
    assert_eq!(ledger.meta(b).await.unwrap().unwrap().account, between);
    assert_eq!(
        ledger.commit(a, &of_a).await.unwrap(),
        Committed::At(1),
        "retry after a lost response"
    );
    let late = ledger.commit(b, &launches("spends-late", &before, b)).await;
    let account = between.clone();
    assert_eq!(late.unwrap(), Committed::Overtaken { account });
    assert!(ledger.intents(b).await.unwrap().is_empty());
    let judged = launches("spends-b", &between, b);
    assert_eq!(ledger.commit(b, &judged).await.unwrap(), Committed::At(1));

    let both = ledger.spending().await.unwrap();
    let stale = between.with(b, Spending::default());
    assert_eq!(ledger.store_spending(&stale).await.unwrap(), Moved::No);
    let without_a = both.with(a, Spending::default());
    let without = without_a.with(b, Spending::default());
    for next in [&without_a, &without_a, &without] {
        let stored = ledger.store_spending(next).await.unwrap();
        assert_eq!(stored, Moved::Yes, "also as a retry after a lost response");
    }
    assert_eq!(ledger.spending().await.unwrap(), without);
}
