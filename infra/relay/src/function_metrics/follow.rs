use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client};
use model::status::CONFIG_MAP;
use ports::with_causes;
use tracing::{debug, info, warn};

use super::FunctionMetrics;
use crate::metrics::Metrics;

/// Watches the functions' ConfigMap for as long as the relay runs. A failure is logged once, and retried.
pub async fn follow(client: Client, namespace: String, metrics: Metrics) {
    let maps = Api::<ConfigMap>::namespaced(client, &namespace);
    let mut updates = pin!(watch_object(maps, CONFIG_MAP).default_backoff());
    let mut failing = false;
    while let Some(update) = updates.next().await {
        match update {
            Ok(map) => {
                if std::mem::take(&mut failing) {
                    info!(namespace, "watch of the functions' metrics recovered");
                }
                let data: BTreeMap<String, String> =
                    map.and_then(|map| map.data).unwrap_or_default();
                metrics.show(FunctionMetrics::read(&data));
            }
            // The watch resumes at its last resource version, without a warning.
            Err(error) if !is_lasting(&error) => {
                debug!(
                    namespace,
                    error = with_causes(&error),
                    "watch of the functions' metrics restarts"
                );
            }
            Err(error) => {
                let error = format!("{}{}", with_causes(&error), remedy(&error));
                if !std::mem::replace(&mut failing, true) {
                    warn!(
                        namespace,
                        error, "metrics of the functions cannot be read; retrying"
                    );
                }
                metrics.set_functions_error(error);
            }
        }
    }
}

/// Returns whether the error seems to prevent reading newer documents.
fn is_lasting(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(_)) || is_forbidden(error)
}

fn is_forbidden(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => {
            if let kube::Error::Api(status) = error {
                status
            } else {
                return false;
            }
        }
        watcher::Error::WatchError(status) => status,
        watcher::Error::NoResourceVersion => return false,
    };
    status.code == 403
}

fn remedy(error: &watcher::Error) -> &'static str {
    match is_forbidden(error) {
        true => {
            " (is the Role whittle:status-reader of the chart bound to the relay's service account?)"
        }
        false => "",
    }
}
