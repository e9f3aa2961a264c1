//! Limits of AWS and Kubernetes services: sizes and counts above which a service refuses a request or an object.
//!
//! Each constant gives its unit and its source in the service's documentation. Fakes refuse requests beyond these
//! limits, as the services do; adapters and plans stay within them.

/// Source unless stated otherwise: "Quotas in Amazon DynamoDB" (Constraints.html, ServiceQuotas.html) in the DynamoDB
/// developer guide.
pub mod dynamodb {
    /// Items per transaction. API reference, TransactWriteItems.
    pub const TRANSACTION_ITEMS: usize = 100;
    /// Total bytes of all items of a transaction. API reference, TransactWriteItems.
    pub const TRANSACTION_BYTES: usize = 4 << 20;
    /// Bytes per item: UTF-8 names and values of its attributes.
    pub const ITEM_BYTES: usize = 400 << 10;
    /// Keys per BatchGetItem. API reference, BatchGetItem.
    pub const BATCH_KEYS: usize = 100;
    /// Bytes that one BatchGetItem returns; the remaining keys are returned as unprocessed. API reference,
    /// BatchGetItem.
    pub const BATCH_GET_BYTES: usize = 16 << 20;
    /// Puts and deletes per BatchWriteItem. API reference, BatchWriteItem.
    pub const BATCH_WRITES: usize = 25;
    /// Bytes that one page of a query reads. "Paginating table query results".
    pub const PAGE_BYTES: usize = 1 << 20;
    /// Bytes per partition key.
    pub const PARTITION_KEY_BYTES: usize = 2_048;
    /// Bytes per sort key.
    pub const SORT_KEY_BYTES: usize = 1_024;
    /// Bytes per expression.
    pub const EXPRESSION_BYTES: usize = 4 << 10;
    /// Write units per partition and second. One unit is a kilobyte; a transaction uses two units per kilobyte.
    pub const PARTITION_WRITES: u64 = 1_000;
    /// Read units per partition and second. One unit is a consistent read of four kilobytes.
    pub const PARTITION_READS: u64 = 3_000;
    /// Bytes per write unit.
    pub const WRITE_UNIT_BYTES: usize = 1 << 10;
    /// Bytes per read unit.
    pub const READ_UNIT_BYTES: usize = 4 << 10;
}

/// "Amazon SQS message quotas" and API reference, SendMessage. The limit of ten entries per batch is absent because
/// Whittle sends no batches.
pub mod sqs {
    use jiff::SignedDuration;

    /// Bytes per message.
    pub const MESSAGE_BYTES: usize = 1 << 20;
    /// Longest delay of a message.
    pub const DELAY_MAX: SignedDuration = SignedDuration::from_secs(900);
}

pub mod ec2 {
    /// Tags per resource. EC2 user guide, "Tag restrictions".
    pub const TAGS: usize = 50;
    /// Bytes of user data before base64 encoding. EC2 user guide, "Run commands at launch".
    pub const USER_DATA_BYTES: usize = 16 << 10;
    /// Instance ids per TerminateInstances or DescribeInstances. API reference, DescribeInstances.
    pub const INSTANCE_IDS: usize = 1_000;
}

pub mod ssm {
    /// Bytes per parameter of the standard tier. Systems Manager user guide, "Managing parameter tiers".
    pub const PARAMETER_BYTES: usize = 4 << 10;
}

pub mod kubernetes {
    /// Bytes of a ConfigMap's data. Kubernetes documentation, "ConfigMaps".
    pub const CONFIG_MAP_BYTES: usize = 1 << 20;
}

/// EventBridge user guide, "PutEvents". The limit of ten entries is absent because each event is put on its own.
pub mod eventbridge {
    /// Bytes per entry: source, detail type and detail together.
    pub const ENTRY_BYTES: usize = 256 << 10;
}

/// API reference, Publish.
pub mod sns {
    /// Bytes per message.
    pub const MESSAGE_BYTES: usize = 256 << 10;
    /// Characters per subject, without line breaks and control characters. The documentation says "less than 100".
    pub const SUBJECT_CHARACTERS: usize = 99;
}
