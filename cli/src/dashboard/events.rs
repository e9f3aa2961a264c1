//! Events of the programs that provide nodes, as far as the page shows their decisions.

use anyhow::{Context, Result};
use serde_json::Value;

/// Components whose events are read: Whittle, or a Karpenter beside it.
const COMPONENTS: [&str; 2] = ["whittle", "karpenter"];
/// Events per request, the default of kubectl.
const PAGE: usize = 500;
/// Upper bound on the pages of a component, which are read again with every observation. Kubernetes lists events by name, so newer events may
/// be on the pages that are left out.
const PAGES_MAX: usize = 6;

/// Returns events, and a warning for each component with more events than are read.
pub(super) async fn read(client: &k8s::Client) -> Result<(Vec<Value>, Vec<String>)> {
    let (mut events, mut warnings) = (Vec::new(), Vec::new());
    for component in COMPONENTS {
        if !read_component(client, component, &mut events).await? {
            let most = PAGE * PAGES_MAX;
            warnings.push(format!(
                "only {most} events of {component} are read: decisions, or their reasons, may be missing"
            ));
        }
    }
    Ok((events, warnings))
}

/// Adds the events of a component; returns whether these are all.
async fn read_component(
    client: &k8s::Client,
    component: &str,
    events: &mut Vec<Value>,
) -> Result<bool> {
    let first = format!("/api/v1/events?limit={PAGE}&fieldSelector=source%3D{component}");
    let mut path = first.clone();
    for _ in 0..PAGES_MAX {
        let request = http::Request::get(&path).body(Vec::new())?;
        let answer: Result<Value, _> = client.request(request).await;
        let mut page = answer.with_context(|| format!("cannot read {path}"))?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            events.extend(items);
        }
        let token = page.pointer("/metadata/continue").and_then(Value::as_str);
        let Some(token) = token.filter(|token| !token.is_empty()) else {
            return Ok(true);
        };
        let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        path = format!("{first}&continue={token}");
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use sandbox::{Sandbox, SandboxOptions, server::WriteOptions};
    use serde_json::json;

    use super::*;

    fn create(server: &Sandbox, component: &str, numbers: std::ops::Range<usize>) {
        server.with(|world, now| {
            let events = world.server.kinds.by_kind("v1", "Event").unwrap().clone();
            for number in numbers {
                let name = format!("{component}-{number:05}");
                let event = json!({
                    "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "source": {"component": component},
                    "involvedObject": {"kind": "Node", "name": "web"}, "reason": "Unconsolidatable", "message": "cheapest", "type": "Normal",
                });
                let options = WriteOptions::default();
                world
                    .server
                    .create(&events, "default", event, &options, now)
                    .unwrap();
            }
        });
    }

    #[tokio::test]
    async fn all_pages_are_read_up_to_a_bound_that_is_reported() {
        let server = Sandbox::start(SandboxOptions::default()).await.unwrap();
        let access = k8s::Access {
            endpoint: server.url(),
            certificate_authority: None,
            credentials: k8s::Credentials::BearerToken(server.token().into()),
        };
        let client = access.client().unwrap();
        let most = PAGE * PAGES_MAX;
        create(&server, "karpenter", 0..2);
        create(&server, "kubelet", 0..2);
        create(&server, "whittle", 0..most);
        let (events, warnings) = read(&client).await.unwrap();
        assert_eq!(events.len(), most + 2);
        assert_eq!(warnings, Vec::<String>::new());

        create(&server, "whittle", most..most + 1);
        let (events, warnings) = read(&client).await.unwrap();
        assert_eq!(events.len(), most + 2);
        assert_eq!(
            warnings,
            ["only 3000 events of whittle are read: decisions, or their reasons, may be missing"]
        );
        server.stop().await;
    }
}
