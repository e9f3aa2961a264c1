//! Event loops of the functions: an event in, a turn, an answer out.

use std::{future::Future, sync::Arc};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use jiff::{SignedDuration, Timestamp};
use lambda_runtime::{Context, Error, LambdaEvent, service_fn};
use model::{
    Lane, Wake,
    ids::TurnId,
    interruption::{QueueMessage, StackLocation},
};
use ports::with_causes;
use turns::{Message, World};

use crate::{batch, world};

/// Serves one lane's wakes.
///
/// A wake is done when its turn's outcome is recorded, also a failed one; a wake whose outcome could not be recorded stays in the queue and
/// finally reaches its dead-letter queue. A message that is not a wake of this lane is logged and done: otherwise it would be received
/// again and again in the place of wakes, and a lost wake costs no more than the time until the next sweep.
pub async fn serve_wakes(lane: Lane) -> Result<(), Error> {
    serve(
        lane,
        move |world, event: LambdaEvent<SqsEvent>| async move {
            let ends = ends(&event.context);
            let turn = TurnId(event.context.request_id);
            let (world, turn) = (&world, &turn);
            let take = |message: Message| async move {
                take_turn(world, lane, turn, ends, &message.body).await
            };
            Ok::<SqsBatchResponse, Error>(batch::answer(event.payload, take).await)
        },
    )
    .await
}

/// The time at which Lambda ends the invocation.
fn ends(context: &Context) -> Timestamp {
    Timestamp::try_from(context.deadline()).unwrap_or(Timestamp::MAX)
}

/// Time reserved at the end of an invocation for recording the turn's outcome; no work begins in it.
const RECORDING_TIME: SignedDuration = SignedDuration::from_secs(10);

async fn take_turn(
    world: &World,
    lane: Lane,
    turn: &TurnId,
    ends: Timestamp,
    body: &str,
) -> Result<(), String> {
    let wake = match wake_of(lane, body) {
        Ok(wake) => wake,
        Err(error) => {
            tracing::error!(error, "wake cannot be decoded; message dropped");
            return Ok(());
        }
    };
    tracing::debug!(cluster = %wake.cluster, %lane, reason = wake.reason, hints = wake.hints.len(), "wake received");
    let deadline = (world.clock.now() + turns::budget(lane))
        .min(ends.saturating_sub(RECORDING_TIME).unwrap_or(ends));
    Box::pin(turns::woken(world, &wake, turn, deadline))
        .await
        .map(drop)
        .map_err(|error| with_causes(&error))
}

/// Parses the wake in a message of a lane's queue.
fn wake_of(lane: Lane, body: &str) -> Result<Wake, String> {
    let wake: Wake = serde_json::from_str(body)
        .map_err(|error| format!("the message is not a wake: {error}"))?;
    if wake.lane == lane {
        return Ok(wake);
    }
    Err(format!(
        "the wake is for {}, but this is {lane}: a queue is mapped to the wrong function",
        wake.lane
    ))
}

/// Serves the minute sweep.
pub async fn serve_sweeps() -> Result<(), Error> {
    serve(
        Lane::Housekeeper,
        |world, event: LambdaEvent<serde_json::Value>| async move {
            let turn = TurnId(event.context.request_id);
            let report = Box::pin(turns::housekeep(&world, &turn))
                .await
                .map_err(|error| Error::from(with_causes(&error)))?;
            serde_json::to_value(report).map_err(Error::from)
        },
    )
    .await
}

/// Serves events that carry facts: each is recorded before its message is done. `read` interprets a message.
pub async fn serve_facts<E>(
    read: fn(&str, &StackLocation, Timestamp) -> Result<QueueMessage, E>,
) -> Result<(), Error>
where
    E: std::error::Error + Send + Sync + 'static,
{
    serve(
        Lane::Interruption,
        move |world, event: LambdaEvent<SqsEvent>| async move {
            let turn = TurnId(event.context.request_id);
            let messages = batch::messages(event.payload);
            let delivery = Box::pin(turns::deliver(&world, &messages, read, &turn)).await;
            Ok::<SqsBatchResponse, Error>(batch::keeping(delivery.kept.into_keys()))
        },
    )
    .await
}

async fn serve<Event, Answer, F>(
    lane: Lane,
    handle: impl Fn(Arc<World>, LambdaEvent<Event>) -> F,
) -> Result<(), Error>
where
    Event: for<'de> serde::Deserialize<'de> + Send + 'static,
    Answer: serde::Serialize + Send + 'static,
    F: Future<Output = Result<Answer, Error>>,
{
    crate::init_tracing();
    let world = Arc::new(world::build(lane).await?);
    lambda_runtime::run(service_fn(|event| handle(Arc::clone(&world), event))).await
}
