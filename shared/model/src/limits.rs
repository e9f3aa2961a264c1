//! Limits of the services that Whittle uses, in one place: what a request or an object may come to before the service refuses it.
//!
//! Each constant says its unit and its source, a page of the service's documentation. Fakes refuse what is beyond them, as the
//! service does; adapters and plans stay below them.

/// "Quotas in Amazon DynamoDB" (Constraints.html, ServiceQuotas.html) in the DynamoDB developer guide, where nothing else is named.
pub mod dynamodb {
    /// Items of one transaction. API reference, TransactWriteItems.
    pub const TRANSACTION_ITEMS: usize = 100;
    /// Bytes of all items of a transaction together. API reference, TransactWriteItems.
    pub const TRANSACTION_BYTES: usize = 4 << 20;
    /// Bytes of an item: names and values of its attributes in UTF-8.
    pub const ITEM_BYTES: usize = 400 << 10;
    /// Keys of one BatchGetItem. API reference, BatchGetItem.
    pub const BATCH_KEYS: usize = 100;
    /// Bytes that one BatchGetItem answers; the rest is left unprocessed. API reference, BatchGetItem.
    pub const BATCH_GET_BYTES: usize = 16 << 20;
    /// Puts and deletes of one BatchWriteItem. API reference, BatchWriteItem.
    pub const BATCH_WRITES: usize = 25;
    /// Bytes that one page of a query reads. "Paginating table query results".
    pub const PAGE_BYTES: usize = 1 << 20;
    /// Bytes of a partition key.
    pub const PARTITION_KEY_BYTES: usize = 2_048;
    /// Bytes of a sort key.
    pub const SORT_KEY_BYTES: usize = 1_024;
    /// Bytes of an expression.
    pub const EXPRESSION_BYTES: usize = 4 << 10;
    /// Write units that a partition takes in a second; one unit is a kilobyte, and a transaction takes two for each.
    pub const PARTITION_WRITES: u64 = 1_000;
    /// Read units that a partition takes in a second; one unit is a consistent read of four kilobytes.
    pub const PARTITION_READS: u64 = 3_000;
    /// Bytes of a write unit.
    pub const WRITE_UNIT_BYTES: usize = 1 << 10;
    /// Bytes of a read unit.
    pub const READ_UNIT_BYTES: usize = 4 << 10;
}

/// "Amazon SQS message quotas" and API reference, SendMessage. Nothing here sends batches, so the limit of ten entries has no row.
pub mod sqs {
    use jiff::SignedDuration;

    /// Bytes of a message.
    pub const MESSAGE_BYTES: usize = 1 << 20;
    /// Longest time that a message is kept back before it is delivered.
    pub const DELAY_MAX: SignedDuration = SignedDuration::from_secs(900);
}

pub mod ec2 {
    /// Tags of a resource. EC2 user guide, "Tag restrictions".
    pub const TAGS: usize = 50;
    /// Bytes of user data before it is encoded in base64. EC2 user guide, "Run commands at launch".
    pub const USER_DATA_BYTES: usize = 16 << 10;
    /// Instances that one TerminateInstances or DescribeInstances names. API reference, DescribeInstances.
    pub const INSTANCE_IDS: usize = 1_000;
}

pub mod ssm {
    /// Bytes of a parameter of the standard tier. Systems Manager user guide, "Managing parameter tiers".
    pub const PARAMETER_BYTES: usize = 4 << 10;
}

pub mod kubernetes {
    /// Bytes of the data of a ConfigMap. Kubernetes documentation, "ConfigMaps".
    pub const CONFIG_MAP_BYTES: usize = 1 << 20;
}

/// EventBridge user guide, "PutEvents". An event is put alone, so the limit of ten entries has no row.
pub mod eventbridge {
    /// Bytes of an entry: source, detail type and detail together.
    pub const ENTRY_BYTES: usize = 256 << 10;
}

/// API reference, Publish.
pub mod sns {
    /// Bytes of a message.
    pub const MESSAGE_BYTES: usize = 256 << 10;
    /// Characters of a subject, which has no line breaks and no control characters: "less than 100".
    pub const SUBJECT_CHARACTERS: usize = 99;
}
