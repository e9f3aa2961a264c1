//! ARC zonal shifts of EKS clusters.

use std::time::SystemTime;

use aws_config::SdkConfig;
use aws_rules::zonal_shift::ManagedResource;
use model::{ClusterName, experience::ZonalShift};
use ports::CloudError;
use serde_json::Value;

use signed::{Request, domain, escaped, send};

use crate::{Account, errors::cloud_error};

const ACTION: &str = "arc-zonal-shift:GetManagedResource";
const SERVICE: &str = "arc-zonal-shift";

impl Account {
    /// The zonal shifts of a cluster. EKS registers its clusters with ARC by their ARN; other clusters have none.
    pub(crate) async fn shifts_of(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<Vec<ZonalShift>, CloudError> {
        if entry.get("type").and_then(Value::as_str) != Some("eks") {
            return Err(CloudError::Invalid {
                action: ACTION.to_owned(),
                code: "InvalidEntry".to_owned(),
                message: format!(
                    "settings.enableZonalShift is true, but cluster {cluster} is not of type \"eks\": only EKS clusters have zonal shifts"
                ),
            });
        }
        let arn = self.eks_cluster(cluster).await?.arn.unwrap_or_default();
        let path = format!("/managedresources/{}", escaped(&arn, ""));
        let answer = get(&self.config, &self.region, path, self.clock.now().into()).await?;
        match serde_json::from_str::<ManagedResource>(&answer) {
            Ok(resource) => Ok(resource.shifts(self.clock.now())),
            Err(error) => Err(unknown(format!("the answer cannot be read: {error}"))),
        }
    }
}

fn unknown(message: String) -> CloudError {
    CloudError::Unknown {
        action: ACTION.to_owned(),
        message,
    }
}

async fn get(
    config: &SdkConfig,
    region: &str,
    path: String,
    now: SystemTime,
) -> Result<String, CloudError> {
    let endpoint = config.endpoint_url().map_or_else(
        || format!("https://{SERVICE}.{region}.{}", domain(region)),
        |url| url.trim_end_matches('/').to_owned(),
    );
    let request = Request {
        operation: ACTION,
        service: Some(SERVICE),
        method: "GET",
        endpoint,
        path,
        headers: Vec::new(),
        body: Vec::new(),
    };
    let answer = send(config, region, now, request).await;
    let (status, body) = answer.map_err(unknown)?;
    if (200..300).contains(&status) {
        return Ok(body);
    }
    let said: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |names: [&str; 2]| {
        let mut found = names.iter().filter_map(|name| said.get(name)?.as_str());
        found.next().unwrap_or_default().to_owned()
    };
    let code = text(["__type", "code"]);
    if code.is_empty() || status >= 500 {
        return Err(unknown(format!("HTTP {status}: {body}")));
    }
    Err(cloud_error(ACTION, code, text(["message", "Message"])))
}
