//! Values of the chart for one cluster.

use serde_json::{Map, Value, json};

/// Content of the values file.
pub(crate) struct ChartValues<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) region: &'a str,
    pub(crate) table: &'a str,
    /// URLs of the queues by the chart's names.
    pub(crate) queues: &'a [(&'static str, String)],
    /// Repository of the relay's image; `None` for the image that the chart names.
    pub(crate) image: Option<&'a str>,
    /// `amd64`, `arm64`, or empty for a multi-architecture image.
    pub(crate) architecture: &'a str,
}

impl ChartValues<'_> {
    /// Renders the values as YAML.
    pub(crate) fn yaml(&self) -> anyhow::Result<String> {
        let queues = self.queues.iter();
        let queues: Map<String, Value> = queues
            .map(|(name, url)| ((*name).to_owned(), url.as_str().into()))
            .collect();
        let mut values = json!({
            "cluster": self.cluster,
            "stack": {"region": self.region, "table": self.table, "queues": queues},
        });
        if let (Some(image), Some(values)) = (self.image, values.as_object_mut()) {
            let image = json!({"repository": image, "architecture": self.architecture});
            values.insert("relay".to_owned(), json!({ "image": image }));
        }
        let yaml = serde_saphyr::to_string(&values)?;
        Ok(format!(
            "# Values of Whittle's chart for cluster {}. `whittle init` wrote this file.\n{yaml}",
            self.cluster
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_every_required_key_of_the_chart() {
        let queues = ["provision", "lifecycle", "disrupt", "terminate"]
            .map(|queue| (queue, format!("https://sqs/1/whittle-{queue}")));
        let values = ChartValues {
            cluster: "prod",
            region: "eu-central-1",
            table: "whittle-ledger",
            queues: &queues,
            image: Some("registry.example.com/relay"),
            architecture: "arm64",
        };
        let written: Value = serde_saphyr::from_str(&values.yaml().unwrap()).unwrap();
        let chart = include_str!("../../../infra/chart/example-values.yaml");
        let example: Value = serde_saphyr::from_str(chart).unwrap();
        for pointer in [
            "/cluster",
            "/stack/region",
            "/stack/table",
            "/stack/queues/provision",
            "/stack/queues/lifecycle",
            "/stack/queues/disrupt",
            "/stack/queues/terminate",
            "/relay/image/repository",
        ] {
            assert!(example.pointer(pointer).is_some(), "{pointer}");
            let value = written.pointer(pointer).and_then(Value::as_str);
            assert!(value.is_some_and(|value| !value.is_empty()), "{pointer}");
        }
        let of_release = ChartValues {
            image: None,
            ..values
        };
        let written: Value = serde_saphyr::from_str(&of_release.yaml().unwrap()).unwrap();
        assert_eq!(written.get("relay"), None);
    }
}
