//! Announcements of AWS about instances: events of EventBridge, and what DescribeInstanceStatus shows (docs/spec/aws.md#interruptions).

mod event;
mod reading;
mod status;

pub use self::{
    event::{Message, message},
    reading::{Unreadable, read},
    status::{
        EVENT_CODES, InstanceStatusFact, ScheduledEvent, StatusDetail, StatusSummary, impairments,
    },
};
