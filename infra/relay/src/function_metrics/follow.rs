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

use super::Told;
use crate::metrics::Metrics;

/// Shows what the functions tell, for as long as the relay runs. What fails is said once, and tried again.
pub async fn follow(client: Client, namespace: String, metrics: Metrics) {
    let maps = Api::<ConfigMap>::namespaced(client, &namespace);
    let mut seen = pin!(watch_object(maps, CONFIG_MAP).default_backoff());
    let mut troubled = false;
    while let Some(seen) = seen.next().await {
        match seen {
            Ok(map) => {
                if std::mem::take(&mut troubled) {
                    info!(namespace, "what the functions tell is seen again");
                }
                let data: BTreeMap<String, String> =
                    map.and_then(|map| map.data).unwrap_or_default();
                metrics.show(Told::read(&data));
            }
            // The watch goes on from where it was, without a word.
            Err(error) if !is_lasting(&error) => {
                debug!(
                    namespace,
                    error = with_causes(&error),
                    "the watch of the functions' metrics starts again"
                );
            }
            Err(error) => {
                let trouble = format!("{}{}", with_causes(&error), remedy(&error));
                if !std::mem::replace(&mut troubled, true) {
                    warn!(
                        namespace,
                        trouble, "what the functions tell is not seen; trying again"
                    );
                }
                metrics.show_trouble(trouble);
            }
        }
    }
}

/// Whether it keeps newer documents from being seen, as far as one can tell.
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
