//! The table and queues of a stack, in moto.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use aws_sdk_sqs::types::MessageSystemAttributeName;
use model::{Lane, Wake};
use relay::config::{Config, QUEUES};

use crate::moto::{KEY, Moto, REGION};

pub(crate) const TABLE: &str = "whittle";

/// Moto with the table and queues of a stack.
pub(crate) struct Stack {
    pub(crate) moto: Moto,
    sqs: aws_sdk_sqs::Client,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    /// Environment that the chart sets for the relay.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Stack {
    pub(crate) async fn start() -> Self {
        let moto = Moto::start().await;
        let sqs = aws_sdk_sqs::Client::new(&moto.sdk);
        let dynamodb = aws_sdk_dynamodb::Client::new(&moto.sdk);
        let mut create = dynamodb
            .create_table()
            .table_name(TABLE)
            .billing_mode(BillingMode::PayPerRequest);
        for (name, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
            let attribute = AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(ScalarAttributeType::S);
            let key = KeySchemaElement::builder()
                .attribute_name(name)
                .key_type(kind);
            create = create
                .attribute_definitions(attribute.build().unwrap())
                .key_schema(key.build().unwrap());
        }
        create.send().await.unwrap();

        let mut environment: BTreeMap<String, String> = [
            ("WHITTLE_CLUSTER", "demo"),
            ("WHITTLE_TABLE", TABLE),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", KEY),
            ("AWS_ENDPOINT_URL", &moto.url),
            ("WHITTLE_BATCH_IDLE_DURATION", "50ms"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        for (lane, variable) in QUEUES {
            let queue = sqs
                .create_queue()
                .queue_name(format!("whittle-{lane}"))
                .send()
                .await
                .unwrap();
            environment.insert(variable.to_owned(), queue.queue_url.unwrap());
        }
        Self {
            moto,
            sqs,
            dynamodb,
            environment,
        }
    }

    pub(crate) fn config(&self) -> Config {
        Config::parse(&self.environment).unwrap()
    }

    pub(crate) async fn messages(&self, lane: Lane) -> Vec<Wake> {
        let received = self.received(lane).await;
        received.into_iter().map(|(wake, _)| wake).collect()
    }

    /// Receives wakes, each with its message group.
    pub(crate) async fn received(&self, lane: Lane) -> Vec<(Wake, Option<String>)> {
        let group = MessageSystemAttributeName::MessageGroupId;
        let received = self
            .sqs
            .receive_message()
            .queue_url(&self.config().queues[&lane])
            .message_system_attribute_names(group.clone())
            .send()
            .await
            .unwrap();
        let read = received.messages().iter().map(|message| {
            let wake = serde_json::from_str(message.body().unwrap()).unwrap();
            let attributes = message.attributes();
            let group = attributes.and_then(|attributes| attributes.get(&group));
            (wake, group.cloned())
        });
        read.collect()
    }

    pub(crate) async fn row(&self) -> Option<BTreeMap<String, AttributeValue>> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let read = self
            .dynamodb
            .get_item()
            .table_name(TABLE)
            .key("pk", text("RELAY#demo"))
            .key("sk", text("BEAT"));
        Some(read.send().await.unwrap().item?.into_iter().collect())
    }
}
