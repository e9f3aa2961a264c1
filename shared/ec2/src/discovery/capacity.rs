//! Capacity reservations and placement groups.

use api::EC2NodeClass;
use aws_rules::{
    node_class::{ReservationFact, ReservationQuery, reservation_queries},
    placement::PlacementGroupFact,
};
use ports::CloudError;

use crate::{
    Account,
    errors::refused,
    filters::{filter, filters, timestamp},
};

/// EC2's largest page size of reservations; a call that names ids takes no page size.
const PAGE: i32 = 1000;
const DESCRIBE_RESERVATIONS: &str = "ec2:DescribeCapacityReservations";

impl Account {
    /// The reservations that the NodeClass's terms select.
    pub(super) async fn capacity_reservations(
        &self,
        class: &EC2NodeClass,
    ) -> Result<Vec<ReservationFact>, CloudError> {
        let terms = class.spec.capacity_reservation_selector_terms.as_deref();
        let mut found = Vec::new();
        for query in reservation_queries(terms.unwrap_or_default()) {
            found.extend(self.described_reservations(query).await?);
        }
        Ok(found)
    }

    /// The reservations in the NodeClass's status, with the number of instances left in each.
    pub(crate) async fn reservations_in_status(
        &self,
        class: &EC2NodeClass,
    ) -> Result<Vec<ReservationFact>, CloudError> {
        let status = class.status.as_ref();
        let listed = status.and_then(|status| status.capacity_reservations.as_deref());
        let ids: Vec<_> = listed
            .unwrap_or_default()
            .iter()
            .map(|r| r.id.clone())
            .collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query = ReservationQuery {
            ids,
            ..ReservationQuery::default()
        };
        self.described_reservations(query).await
    }

    async fn described_reservations(
        &self,
        query: ReservationQuery,
    ) -> Result<Vec<ReservationFact>, CloudError> {
        let names_ids = !query.ids.is_empty();
        let call = self
            .ec2
            .describe_capacity_reservations()
            .set_capacity_reservation_ids(names_ids.then_some(query.ids))
            .set_filters(Some(filters(&query.filters)))
            .set_max_results((!names_ids).then_some(PAGE));
        let mut pages = call.into_paginator().items().send();
        let mut found = Vec::new();
        while let Some(reservation) = pages.next().await {
            let reservation = match reservation.map_err(refused(DESCRIBE_RESERVATIONS)) {
                // A reservation that no longer exists is left out.
                Err(CloudError::NotFound { .. }) => break,
                reservation => reservation?,
            };
            let kind = reservation.reservation_type;
            let criteria = reservation.instance_match_criteria;
            found.push(ReservationFact {
                capacity_reservation_id: reservation.capacity_reservation_id.unwrap_or_default(),
                availability_zone: reservation.availability_zone.unwrap_or_default(),
                instance_type: reservation.instance_type.unwrap_or_default(),
                owner_id: reservation.owner_id.unwrap_or_default(),
                instance_match_criteria: criteria
                    .map(|criteria| criteria.as_str().to_owned())
                    .unwrap_or_default(),
                reservation_type: kind
                    .map(|kind| kind.as_str().to_owned())
                    .unwrap_or_default(),
                end_date: reservation.end_date.as_ref().and_then(timestamp),
                interruptible: reservation.interruptible.unwrap_or(false),
                available_instance_count: reservation
                    .available_instance_count
                    .and_then(|count| u32::try_from(count).ok())
                    .unwrap_or(0),
            });
        }
        Ok(found)
    }

    /// The placement group that the NodeClass selects, if it exists and is available.
    pub(crate) async fn placement_group(
        &self,
        class: &EC2NodeClass,
    ) -> Result<Option<PlacementGroupFact>, CloudError> {
        let Some(selector) = &class.spec.placement_group_selector else {
            return Ok(None);
        };
        let call = self
            .ec2
            .describe_placement_groups()
            .set_group_ids(selector.id.clone().map(|id| vec![id]))
            .set_group_names(selector.name.clone().map(|name| vec![name]))
            .filters(filter("state", ["available"]));
        let groups = match call
            .send()
            .await
            .map_err(refused("ec2:DescribePlacementGroups"))
        {
            Ok(answer) => answer.placement_groups.unwrap_or_default(),
            Err(CloudError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(groups.into_iter().next().map(|group| PlacementGroupFact {
            group_id: group.group_id.unwrap_or_default(),
            group_name: group.group_name.unwrap_or_default(),
            strategy: group
                .strategy
                .map(|strategy| strategy.as_str().to_owned())
                .unwrap_or_default(),
            state: group
                .state
                .map(|state| state.as_str().to_owned())
                .unwrap_or_default(),
            partition_count: group.partition_count,
        }))
    }
}
