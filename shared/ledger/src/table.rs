//! Reads, conditional writes and transactions on the one table, with the SDK's errors sorted by what the caller can do.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    operation::{
        query::builders::QueryFluentBuilder, transact_write_items::TransactWriteItemsError,
    },
    types::{AttributeValue, ConditionCheck, KeysAndAttributes, Put, TransactWriteItem, Update},
};
use model::ledger::SCHEMA;
use ports::{LedgerError, ledger::Moved};

use crate::{
    key::Key,
    row::{Attributes, NewRow, Row, SCHEMA_OF_ROW, Value},
};

pub(crate) struct Table {
    client: Client,
    name: String,
    /// What is put on rows as the version of the records.
    schema: u32,
}

/// One conditional write. In expressions, `#word` is the attribute `word` and `:word` a value given here.
pub(crate) struct Write {
    key: Key,
    kind: Kind,
    condition: Option<&'static str>,
    values: BTreeMap<&'static str, Value>,
}

enum Kind {
    Put(Attributes),
    Update(&'static str),
    Delete,
    Check,
}

impl Write {
    pub(crate) fn put(key: &Key, row: NewRow) -> Self {
        Self::new(key, Kind::Put(row.0))
    }

    pub(crate) fn update(key: &Key, expression: &'static str) -> Self {
        Self::new(key, Kind::Update(expression))
    }

    pub(crate) fn delete(key: &Key) -> Self {
        Self::new(key, Kind::Delete)
    }

    /// Only in a transaction: a condition on a row that is not written.
    pub(crate) fn check(key: &Key) -> Self {
        Self::new(key, Kind::Check)
    }

    fn new(key: &Key, kind: Kind) -> Self {
        Self {
            key: key.clone(),
            kind,
            condition: None,
            values: BTreeMap::new(),
        }
    }

    pub(crate) fn when(mut self, condition: &'static str) -> Self {
        self.condition = Some(condition);
        self
    }

    pub(crate) fn value(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.values.insert(name, value.into());
        self
    }

    /// The attributes that the expressions name: all are written `#word`, so that reserved words need no care.
    #[expect(clippy::disallowed_types, reason = "the SDK's own type")]
    fn names(&self) -> Option<std::collections::HashMap<String, String>> {
        let update = match self.kind {
            Kind::Update(expression) => expression,
            Kind::Put(_) | Kind::Delete | Kind::Check => "",
        };
        let text = format!("{update} {}", self.condition.unwrap_or_default());
        let names: std::collections::HashMap<_, _> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '#')
            .filter_map(|word| word.strip_prefix('#'))
            .map(|name| (format!("#{name}"), name.to_owned()))
            .collect();
        (!names.is_empty()).then_some(names)
    }

    fn values(&self) -> Option<Attributes> {
        let values: Attributes = self
            .values
            .iter()
            .map(|(name, Value(value))| (format!(":{name}"), value.clone()))
            .collect();
        (!values.is_empty()).then_some(values)
    }
}

/// What became of a conditional write.
pub(crate) enum Written {
    /// With the row as asked for (only updates return one).
    Done(Option<Row>),
    /// The condition did not hold; the row as it is.
    Refused(Option<Row>),
}

impl From<Written> for Moved {
    fn from(written: Written) -> Self {
        match written {
            Written::Done(_) => Self::Yes,
            Written::Refused(_) => Self::No,
        }
    }
}

impl Table {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self {
            client,
            name,
            schema: SCHEMA,
        }
    }

    pub(crate) fn stamping(self, schema: u32) -> Self {
        Self { schema, ..self }
    }

    /// The row with the version of what is written to it.
    fn stamped(&self, mut row: Attributes) -> Attributes {
        let schema = AttributeValue::N(self.schema.to_string());
        row.insert(SCHEMA_OF_ROW.to_owned(), schema);
        row
    }

    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Row>, LedgerError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.name)
            .set_key(Some(key.attributes()))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| failed("get", key, error))?;
        Ok(answer.item.map(Row::new))
    }

    /// The rows that there are of these, in any order: all, or an error. Of more than [`TOGETHER`] DynamoDB reads none.
    pub(crate) async fn get_together(&self, keys: &[Key]) -> Result<Vec<Row>, LedgerError> {
        let Some(first) = keys.first() else {
            return Ok(Vec::new());
        };
        let mut left: Vec<Attributes> = keys.iter().map(Key::attributes).collect();
        let mut rows = Vec::new();
        let mut wait = UNPROCESSED_WAIT;
        for _ in 0..UNPROCESSED_TRIES {
            let wanted = KeysAndAttributes::builder()
                .set_keys(Some(left))
                .consistent_read(true)
                .build()
                .map_err(|error| LedgerError::Unavailable {
                    action: "build a read of many rows".into(),
                    message: error.to_string(),
                })?;
            let answer = self
                .client
                .batch_get_item()
                .request_items(&self.name, wanted)
                .send()
                .await
                .map_err(|error| failed("get rows together with", first, error))?;
            // There is one table in the request, so there is one in the answer.
            let tables = answer.responses.into_iter().flatten();
            rows.extend(tables.flat_map(|(_, items)| items).map(Row::new));
            let tables = answer.unprocessed_keys.into_iter().flatten();
            left = tables.flat_map(|(_, wanted)| wanted.keys).collect();
            if left.is_empty() {
                return Ok(rows);
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        Err(LedgerError::Throttled {
            action: format!(
                "get {} rows together with {} / {}: {} were left out {UNPROCESSED_TRIES} times",
                keys.len(),
                first.pk,
                first.sk,
                left.len()
            ),
        })
    }

    /// Every row of a partition whose sort key begins with `prefix`, in order.
    pub(crate) async fn query(&self, pk: &str, prefix: &str) -> Result<Vec<Row>, LedgerError> {
        // No sort key holds a character above the last one of UTF-8's basic plane.
        self.between(pk, prefix, &format!("{prefix}\u{ffff}")).await
    }

    /// Every row of a partition from one sort key to another, in order.
    pub(crate) async fn between(
        &self,
        pk: &str,
        from: &str,
        to: &str,
    ) -> Result<Vec<Row>, LedgerError> {
        let query = self.query_between(pk, from, to);
        let mut pages = query.into_paginator().items().send();
        let mut rows = Vec::new();
        while let Some(item) = pages.next().await {
            let key = Key {
                pk: pk.to_owned(),
                sk: from.to_owned(),
            };
            rows.push(Row::new(
                item.map_err(|error| failed("query", &key, error))?,
            ));
        }
        Ok(rows)
    }

    /// The last rows of a partition from one sort key to another, last first.
    pub(crate) async fn latest(
        &self,
        pk: &str,
        from: &str,
        to: &str,
        most: usize,
    ) -> Result<Vec<Row>, LedgerError> {
        let mut pages = self
            .query_between(pk, from, to)
            .scan_index_forward(false)
            .limit(i32::try_from(most).unwrap_or(i32::MAX).max(1))
            .into_paginator()
            .items()
            .send();
        let mut rows = Vec::new();
        while rows.len() < most
            && let Some(item) = pages.next().await
        {
            let key = Key {
                pk: pk.to_owned(),
                sk: to.to_owned(),
            };
            rows.push(Row::new(
                item.map_err(|error| failed("query", &key, error))?,
            ));
        }
        Ok(rows)
    }

    fn query_between(&self, pk: &str, from: &str, to: &str) -> QueryFluentBuilder {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        self.client
            .query()
            .table_name(&self.name)
            .consistent_read(true)
            .key_condition_expression("#pk = :pk AND #sk BETWEEN :from AND :to")
            .expression_attribute_names("#pk", "pk")
            .expression_attribute_names("#sk", "sk")
            .expression_attribute_values(":pk", text(pk))
            // A sort key is never empty.
            .expression_attribute_values(":from", text(if from.is_empty() { " " } else { from }))
            .expression_attribute_values(":to", text(to))
    }

    pub(crate) async fn write(&self, write: Write) -> Result<Written, LedgerError> {
        let (names, values) = (write.names(), write.values());
        let condition = write.condition.map(str::to_owned);
        let key = write.key;
        let all_old = aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
        let outcome = match write.kind {
            Kind::Put(item) => self
                .client
                .put_item()
                .table_name(&self.name)
                .set_item(Some(self.stamped(item)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(all_old)
                .send()
                .await
                .map(|_| None)
                .map_err(|error| Refusal::of(error, |error| match error {
                    aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(refused) => Some(refused.item),
                    _ => None,
                })),
            Kind::Update(expression) => self
                .client
                .update_item()
                .table_name(&self.name)
                .set_key(Some(key.attributes()))
                .update_expression(expression)
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values(aws_sdk_dynamodb::types::ReturnValue::AllNew)
                .return_values_on_condition_check_failure(all_old)
                .send()
                .await
                .map(|answer| answer.attributes)
                .map_err(|error| Refusal::of(error, |error| match error {
                    aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException(refused) => Some(refused.item),
                    _ => None,
                })),
            Kind::Delete | Kind::Check => self
                .client
                .delete_item()
                .table_name(&self.name)
                .set_key(Some(key.attributes()))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(all_old)
                .send()
                .await
                .map(|_| None)
                .map_err(|error| Refusal::of(error, |error| match error {
                    aws_sdk_dynamodb::operation::delete_item::DeleteItemError::ConditionalCheckFailedException(refused) => Some(refused.item),
                    _ => None,
                })),
        };
        match outcome {
            Ok(attributes) => Ok(Written::Done(attributes.map(Row::new))),
            Err(Refusal::Condition(item)) => Ok(Written::Refused(item.map(Row::new))),
            Err(Refusal::Error(code, message)) => {
                Err(sorted("write", &key, code.as_deref(), message))
            }
        }
    }

    /// All or nothing. `No` says that some condition did not hold; the caller reads back to learn which.
    ///
    /// The SDK gives each request a ClientRequestToken and keeps it while it retries. Another call is another request, even
    /// with the same content: its conditions are judged anew.
    pub(crate) async fn transact(&self, writes: Vec<Write>) -> Result<Moved, LedgerError> {
        let Some(key) = writes.first().map(|write| write.key.clone()) else {
            return Ok(Moved::Yes);
        };
        let items: Result<Vec<_>, _> = writes.into_iter().map(|write| self.item(write)).collect();
        let items = items.map_err(|error| LedgerError::Unavailable {
            action: "build a transaction".into(),
            message: error.to_string(),
        })?;
        for _ in 0..CONFLICT_TRIES {
            let answer = self
                .client
                .transact_write_items()
                .set_transact_items(Some(items.clone()))
                .send()
                .await;
            match answer {
                Ok(_) => return Ok(Moved::Yes),
                Err(error) => match error.as_service_error() {
                    Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
                        let codes: Vec<_> = canceled
                            .cancellation_reasons()
                            .iter()
                            .filter_map(|reason| reason.code())
                            .collect();
                        if codes.contains(&"ConditionalCheckFailed") {
                            return Ok(Moved::No);
                        }
                        if !codes.contains(&"TransactionConflict") {
                            return Err(failed("transact", &key, error));
                        }
                    }
                    _ => return Err(failed("transact", &key, error)),
                },
            }
        }
        Err(LedgerError::Throttled {
            action: format!(
                "a transaction on {} / {}: other writers were faster",
                key.pk, key.sk
            ),
        })
    }

    fn item(&self, write: Write) -> Result<TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
        let (names, values) = (write.names(), write.values());
        let condition = write.condition.map(str::to_owned);
        let key = Some(write.key.attributes());
        let item = TransactWriteItem::builder();
        Ok(match write.kind {
            Kind::Put(attributes) => item.put(
                Put::builder()
                    .table_name(&self.name)
                    .set_item(Some(self.stamped(attributes)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()?,
            ),
            Kind::Update(expression) => item.update(
                Update::builder()
                    .table_name(&self.name)
                    .set_key(key)
                    .update_expression(expression)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()?,
            ),
            Kind::Delete => item.delete(
                aws_sdk_dynamodb::types::Delete::builder()
                    .table_name(&self.name)
                    .set_key(key)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()?,
            ),
            Kind::Check => item.condition_check(
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

/// BatchGetItem reads no more at once.
pub(crate) const TOGETHER: usize = 100;
/// It may leave some of them out, to be asked for again after a while that grows.
const UNPROCESSED_TRIES: usize = 5;
const UNPROCESSED_WAIT: Duration = Duration::from_millis(50);

/// Two transactions on one row cancel each other now and then; each is short.
const CONFLICT_TRIES: usize = 5;

enum Refusal {
    Condition(Option<Attributes>),
    Error(Option<String>, String),
}

impl Refusal {
    fn of<E>(error: SdkError<E>, condition: impl FnOnce(E) -> Option<Option<Attributes>>) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let code = error.code().map(str::to_owned);
        let message = DisplayErrorContext(&error).to_string();
        match error {
            SdkError::ServiceError(service) => match condition(service.into_err()) {
                Some(item) => Self::Condition(item),
                None => Self::Error(code, message),
            },
            _ => Self::Error(code, message),
        }
    }
}

fn failed<E>(action: &str, key: &Key, error: SdkError<E>) -> LedgerError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let code = error.code().map(str::to_owned);
    sorted(
        action,
        key,
        code.as_deref(),
        DisplayErrorContext(&error).to_string(),
    )
}

fn sorted(action: &str, key: &Key, code: Option<&str>, message: String) -> LedgerError {
    let action = format!("{action} {} / {}", key.pk, key.sk);
    match code {
        Some(
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "RequestLimitExceeded",
        ) => LedgerError::Throttled { action },
        Some("AccessDeniedException" | "UnrecognizedClientException" | "ExpiredTokenException") => {
            LedgerError::Denied { action, message }
        }
        _ => LedgerError::Unavailable { action, message },
    }
}
