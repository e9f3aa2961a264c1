use std::collections::{BTreeMap, VecDeque};

use model::{NodeClaimName, ledger::Call};
use ports::ledger::Moved;

use crate::{Executor, Trouble, members::Member, settle::Facts};

impl Executor<'_> {
    /// A4: ids sorted go to claims sorted, leftover ids to leftover claims, one transaction per pair. What others have
    /// assigned already stands.
    pub(crate) async fn assign(
        &self,
        call: &Call,
        members: &[Member],
        instances: &[Facts],
    ) -> Result<BTreeMap<NodeClaimName, Facts>, Trouble> {
        let mut owned: BTreeMap<NodeClaimName, Facts> = BTreeMap::new();
        let mut waiting: Vec<&Member> = Vec::new();
        for member in members {
            match self.row(member, instances).await? {
                Row::Absent => waiting.push(member),
                Row::Has(instance) => {
                    owned.insert(member.name().clone(), instance);
                }
                Row::Elsewhere => {}
            }
        }
        waiting.sort_by(|a, b| a.name().cmp(b.name()));
        let mut free: Vec<&Facts> = instances
            .iter()
            .filter(|instance| owned.values().all(|taken| taken.id != instance.id))
            .collect();
        free.sort_by(|a, b| a.id.cmp(&b.id));
        let mut free: VecDeque<&Facts> = free.into();
        for member in waiting {
            while let Some(instance) = free.pop_front() {
                let token = &call.request.token;
                if self
                    .ledger
                    .own(self.cluster, member.name(), &instance.id, token)
                    .await?
                    == Moved::Yes
                {
                    owned.insert(member.name().clone(), instance.clone());
                    break;
                }
                // Somebody was faster: with this member, or with this instance.
                match self.row(member, instances).await? {
                    Row::Absent => {
                        let intent = self.ledger.intent(self.cluster, member.name()).await?;
                        if intent.is_some_and(|intent| intent.state == member.intent.state) {
                            continue;
                        }
                    }
                    Row::Has(other) => {
                        owned.insert(member.name().clone(), other);
                    }
                    Row::Elsewhere => {}
                }
                free.push_front(instance);
                break;
            }
        }
        Ok(owned)
    }

    /// The instance that a member owns already.
    async fn row(&self, member: &Member, instances: &[Facts]) -> Result<Row, Trouble> {
        let Some(row) = self.ledger.claim(self.cluster, member.name()).await? else {
            return Ok(Row::Absent);
        };
        if let Some(instance) = instances
            .iter()
            .find(|instance| instance.id == row.instance)
        {
            return Ok(Row::Has(instance.clone()));
        }
        let described = self.cloud.describe_instances(&[row.instance]).await?;
        let alive = described.iter().find(|instance| instance.state.is_alive());
        Ok(alive.map_or(Row::Elsewhere, |instance| Row::Has(instance.into())))
    }
}

/// What the ledger has about a member's instance.
enum Row {
    Absent,
    Has(Facts),
    /// One that EC2 does not show, or that is dead.
    Elsewhere,
}
