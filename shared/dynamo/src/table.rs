use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::{
    Client,
    error::{BuildError, ProvideErrorMetadata, SdkError},
    operation::{
        delete_item::DeleteItemError, put_item::PutItemError,
        transact_write_items::TransactWriteItemsError, update_item::UpdateItemError,
    },
    types::{
        AttributeValue, ConditionCheck, Delete, DeleteRequest, KeysAndAttributes, Put, PutRequest,
        ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update, WriteRequest,
    },
};
use ledger::table::{
    Batch, Item, Key, Page, Query, Table, TableError, Write, WriteKind, Written, longest_pause,
};
use ports::ledger::Moved;
use signed::describe;

use crate::attributes::{Attributes, attributes, key_attributes, key_of, row};

/// A DynamoDB table, accessed by the SDK, which retries throttled requests by itself.
pub struct DynamoTable {
    client: Client,
    name: String,
}

impl DynamoTable {
    pub fn new(config: &SdkConfig, name: &str) -> Self {
        Self {
            client: Client::new(config),
            name: name.to_owned(),
        }
    }

    async fn write_one(&self, write: &Write) -> Result<Option<Attributes>, Refusal> {
        let (names, values) = (names(write), values(write));
        let condition = write.condition.map(str::to_owned);
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        match &write.kind {
            WriteKind::Put(item) => self
                .client
                .put_item()
                .table_name(&self.name)
                .set_item(Some(attributes(item)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(all_old)
                .send()
                .await
                .map(|_| None)
                .map_err(|error| {
                    Refusal::of(error, |error| match error {
                        PutItemError::ConditionalCheckFailedException(refused) => {
                            Some(refused.item)
                        }
                        _ => None,
                    })
                }),
            WriteKind::Update(expression) => self
                .client
                .update_item()
                .table_name(&self.name)
                .set_key(Some(key_attributes(&write.key)))
                .update_expression(*expression)
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(all_old)
                .send()
                .await
                .map(|answer| answer.attributes)
                .map_err(|error| {
                    Refusal::of(error, |error| match error {
                        UpdateItemError::ConditionalCheckFailedException(refused) => {
                            Some(refused.item)
                        }
                        _ => None,
                    })
                }),
            WriteKind::Delete => self
                .client
                .delete_item()
                .table_name(&self.name)
                .set_key(Some(key_attributes(&write.key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(all_old)
                .send()
                .await
                .map(|_| None)
                .map_err(|error| {
                    Refusal::of(error, |error| match error {
                        DeleteItemError::ConditionalCheckFailedException(refused) => {
                            Some(refused.item)
                        }
                        _ => None,
                    })
                }),
            WriteKind::Check => Err(Refusal::Error(TableError::Invalid(
                "a check is a part of transactions only".to_owned(),
            ))),
        }
    }

    fn item(&self, write: &Write) -> Result<TransactWriteItem, BuildError> {
        let (names, values) = (names(write), values(write));
        let condition = write.condition.map(str::to_owned);
        let key = Some(key_attributes(&write.key));
        let item = TransactWriteItem::builder();
        Ok(match &write.kind {
            WriteKind::Put(row) => item.put(
                Put::builder()
                    .table_name(&self.name)
                    .set_item(Some(attributes(row)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()?,
            ),
            WriteKind::Update(expression) => item.update(
                Update::builder()
                    .table_name(&self.name)
                    .set_key(key)
                    .update_expression(*expression)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()?,
            ),
            WriteKind::Delete => item.delete(
                Delete::builder()
                    .table_name(&self.name)
                    .set_key(key)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()?,
            ),
            WriteKind::Check => item.condition_check(
                ConditionCheck::builder()
                    .table_name(&self.name)
                    .set_key(key)
                    .condition_expression(condition.unwrap_or_default())
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()?,
            ),
        }
        .build())
    }
}

#[async_trait]
impl Table for DynamoTable {
    async fn get(&self, key: &Key) -> Result<Option<Arc<Item>>, TableError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.name)
            .set_key(Some(key_attributes(key)))
            .consistent_read(true)
            .send()
            .await
            .map_err(failed)?;
        Ok(answer.item.map(row))
    }

    async fn batch_get(&self, keys: &[Key]) -> Result<Batch, TableError> {
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(keys.iter().map(key_attributes).collect()))
            .consistent_read(true)
            .build()
            .map_err(unbuilt)?;
        let answer = self
            .client
            .batch_get_item()
            .request_items(&self.name, wanted)
            .send()
            .await
            .map_err(failed)?;
        // The request names one table, so the answer has one too.
        let tables = answer.responses.into_iter().flatten();
        let rows = tables.flat_map(|(_, items)| items).map(row).collect();
        let tables = answer.unprocessed_keys.into_iter().flatten();
        let keys = tables.flat_map(|(_, wanted)| wanted.keys);
        Ok(Batch {
            rows,
            unprocessed: keys.filter_map(|key| key_of(&key)).collect(),
        })
    }

    async fn batch_write(&self, mut writes: Vec<Write>) -> Result<Vec<Write>, TableError> {
        let requests: Result<Vec<_>, _> = writes.iter().map(request).collect();
        let answer = self
            .client
            .batch_write_item()
            .request_items(&self.name, requests?)
            .send()
            .await
            .map_err(failed)?;
        let tables = answer.unprocessed_items.into_iter().flatten();
        let left = tables.flat_map(|(_, requests)| requests);
        let left: Vec<Key> = left
            .filter_map(|request| key_of_request(&request))
            .collect();
        writes.retain(|write| left.contains(&write.key));
        Ok(writes)
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let limit = query
            .limit
            .map(|most| i32::try_from(most).unwrap_or(i32::MAX));
        let answer = self
            .client
            .query()
            .table_name(&self.name)
            .consistent_read(true)
            .scan_index_forward(!query.backwards)
            .set_limit(limit)
            .set_exclusive_start_key(query.after.as_ref().map(key_attributes))
            .key_condition_expression("#pk = :pk AND #sk BETWEEN :from AND :to")
            .expression_attribute_names("#pk", "pk")
            .expression_attribute_names("#sk", "sk")
            .expression_attribute_values(":pk", text(&query.pk))
            .expression_attribute_values(":from", text(&query.from))
            .expression_attribute_values(":to", text(&query.to))
            .send()
            .await
            .map_err(failed)?;
        Ok(Page {
            next: answer.last_evaluated_key.as_ref().and_then(key_of),
            rows: answer.items.into_iter().flatten().map(row).collect(),
        })
    }

    async fn write(&self, write: &Write) -> Result<Written, TableError> {
        match self.write_one(write).await {
            Ok(item) => Ok(Written::Done(item.map(row))),
            Err(Refusal::Condition(item)) => Ok(Written::Refused(item.map(row))),
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    /// The SDK gives each request a ClientRequestToken and keeps it while it retries.
    async fn transact(&self, writes: &[Write]) -> Result<Moved, TableError> {
        let items: Result<Vec<_>, _> = writes.iter().map(|write| self.item(write)).collect();
        let answer = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items.map_err(unbuilt)?))
            .send()
            .await;
        let Err(error) = answer else {
            return Ok(Moved::Yes);
        };
        if let Some(TransactWriteItemsError::TransactionCanceledException(canceled)) =
            error.as_service_error()
        {
            let reasons = canceled.cancellation_reasons().iter();
            let codes: Vec<&str> = reasons.filter_map(|reason| reason.code()).collect();
            if let Some(moved) = of_cancellation(&codes, || describe(&error)) {
                return moved;
            }
        }
        Err(failed(error))
    }

    async fn pause(&self, tries: u32) {
        let most = longest_pause(tries).as_millis();
        let mut random = [0; 8];
        // Without random numbers the pause has its maximum.
        let part = getrandom::fill(&mut random).map_or(u64::MAX, |()| u64::from_le_bytes(random));
        // A quarter of the maximum at least, so that a conflict has time to end.
        let wait = most / 4 + most * 3 / 4 * u128::from(part >> 32) / u128::from(u32::MAX);
        tokio::time::sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
    }
}

/// The outcome of a transaction that was cancelled with these codes, one per row; `None` if no code is known. A failed condition takes
/// precedence, then errors that a retry cannot help, then errors that it may help.
fn of_cancellation(
    codes: &[&str],
    message: impl FnOnce() -> String,
) -> Option<Result<Moved, TableError>> {
    let has = |code| codes.contains(&code);
    if has("ConditionalCheckFailed") {
        return Some(Ok(Moved::No));
    }
    if has("ValidationError") || has("ItemCollectionSizeLimitExceeded") {
        return Some(Err(TableError::Invalid(message())));
    }
    if has("TransactionConflict") {
        return Some(Err(TableError::Conflict));
    }
    let is_throttled = has("ThrottlingError") || has("ProvisionedThroughputExceeded");
    is_throttled.then_some(Err(TableError::Throttled))
}

/// Names of attributes, as expressions refer to them.
#[expect(clippy::disallowed_types, reason = "the SDK's own type")]
fn names(write: &Write) -> Option<std::collections::HashMap<String, String>> {
    let names = write.attribute_names();
    let names: std::collections::HashMap<_, _> = names
        .map(|name| (format!("#{name}"), name.to_owned()))
        .collect();
    (!names.is_empty()).then_some(names)
}

fn values(write: &Write) -> Option<Attributes> {
    let values = write.values.iter();
    let values = attributes(values.map(|(name, value)| (format!(":{name}"), value)));
    (!values.is_empty()).then_some(values)
}

fn request(write: &Write) -> Result<WriteRequest, TableError> {
    let request = WriteRequest::builder();
    Ok(match &write.kind {
        WriteKind::Put(item) => {
            let put = PutRequest::builder().set_item(Some(attributes(item)));
            request.put_request(put.build().map_err(unbuilt)?)
        }
        WriteKind::Delete => {
            let key = key_attributes(&write.key);
            let delete = DeleteRequest::builder().set_key(Some(key));
            request.delete_request(delete.build().map_err(unbuilt)?)
        }
        WriteKind::Update(_) | WriteKind::Check => {
            return Err(TableError::Invalid(
                "a batch of writes puts and deletes only".to_owned(),
            ));
        }
    }
    .build())
}

fn key_of_request(request: &WriteRequest) -> Option<Key> {
    match (&request.put_request, &request.delete_request) {
        (Some(put), _) => key_of(&put.item),
        (None, Some(delete)) => key_of(&delete.key),
        (None, None) => None,
    }
}

enum Refusal {
    Condition(Option<Attributes>),
    Error(TableError),
}

impl Refusal {
    fn of<E>(error: SdkError<E>, condition: impl FnOnce(E) -> Option<Option<Attributes>>) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let sorted = sorted(error.code(), || describe(&error));
        match error {
            SdkError::ServiceError(service) => match condition(service.into_err()) {
                Some(item) => Self::Condition(item),
                None => Self::Error(sorted),
            },
            _ => Self::Error(sorted),
        }
    }
}

fn unbuilt(error: BuildError) -> TableError {
    TableError::Invalid(error.to_string())
}

fn failed<E>(error: SdkError<E>) -> TableError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    sorted(error.code(), || describe(&error))
}

fn sorted(code: Option<&str>, message: impl FnOnce() -> String) -> TableError {
    match code {
        Some(
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "RequestLimitExceeded",
        ) => TableError::Throttled,
        Some("TransactionConflictException") => TableError::Conflict,
        Some("ValidationException" | "ItemCollectionSizeLimitExceededException") => {
            TableError::Invalid(message())
        }
        Some("AccessDeniedException" | "UnrecognizedClientException" | "ExpiredTokenException") => {
            TableError::Denied(message())
        }
        _ => TableError::Unavailable(message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_of_a_single_write_is_recognized() {
        let sorted = |code| sorted(Some(code), String::new);
        assert_eq!(sorted("TransactionConflictException"), TableError::Conflict);
        assert_eq!(sorted("ThrottlingException"), TableError::Throttled);
        let invalid = sorted("ValidationException");
        assert!(matches!(invalid, TableError::Invalid(_)), "{invalid:?}");
    }

    #[test]
    fn cancellation_reasons_are_combined() {
        let came = |codes: &[&str]| of_cancellation(codes, || "row 2".to_owned());
        let throttled = || Some(Err(TableError::Throttled));
        let invalid = || Some(Err(TableError::Invalid("row 2".to_owned())));
        let conflict = || Some(Err(TableError::Conflict));
        for (codes, expected) in [
            (&["None", "TransactionConflict"][..], conflict()),
            (&["ThrottlingError", "None"], throttled()),
            (&["None", "ProvisionedThroughputExceeded"], throttled()),
            (&["ThrottlingError", "TransactionConflict"], conflict()),
            (&["ValidationError", "TransactionConflict"], invalid()),
            (&["None", "ItemCollectionSizeLimitExceeded"], invalid()),
            (
                &["TransactionConflict", "ConditionalCheckFailed"],
                Some(Ok(Moved::No)),
            ),
            (
                &["ConditionalCheckFailed", "ValidationError"],
                Some(Ok(Moved::No)),
            ),
            (&["None", "OfALaterApi"], None),
            (&[], None),
        ] {
            assert_eq!(came(codes), expected, "{codes:?}");
        }
    }
}
