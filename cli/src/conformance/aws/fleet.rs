//! EC2 in the cases: launches the cheapest override without an error, and reports a failure for each override with one.

use std::collections::VecDeque;

use model::launch::{FleetOverride, FleetRequest, FleetResponse, Launched, OfferingFailure};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ec2 {
    fleet_errors: Vec<FleetError>,
    /// Errors of whole calls, in order.
    pub(super) create_fleet_call_errors: VecDeque<CallError>,
    pub(super) create_launch_template_errors: VecDeque<CallError>,
    #[serde(skip)]
    launched: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FleetError {
    code: String,
    message: String,
    /// `None` affects every type.
    instance_types: Option<Vec<String>>,
    zones: Option<Vec<String>>,
    #[serde(default)]
    with_subnet_id: bool,
}

#[derive(Clone, Deserialize)]
pub(super) struct CallError {
    pub(super) code: String,
    message: String,
}

impl CallError {
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }
}

impl FleetError {
    fn hits(&self, choice: &FleetOverride) -> bool {
        let among = |names: &Option<Vec<String>>, name| {
            names.as_ref().is_none_or(|names| names.contains(name))
        };
        among(&self.instance_types, &choice.instance_type) && among(&self.zones, &choice.zone)
    }
}

impl Ec2 {
    pub(super) fn answer(&mut self, request: &FleetRequest) -> FleetResponse {
        let mut answer = FleetResponse::default();
        let mut launchable: Vec<&FleetOverride> = Vec::new();
        for choice in request
            .templates
            .iter()
            .flat_map(|config| &config.overrides)
        {
            match self.fleet_errors.iter().find(|error| error.hits(choice)) {
                None => launchable.push(choice),
                Some(error) => answer.failures.push(OfferingFailure {
                    instance_type: choice.instance_type.clone(),
                    zone: choice.zone.clone(),
                    subnet: choice.subnet.clone().filter(|_| error.with_subnet_id),
                    code: error.code.clone(),
                    message: error.message.clone(),
                }),
            }
        }
        let cheapest = launchable.into_iter().min_by_key(|choice| {
            (
                choice.priority,
                format!("{}{}", choice.instance_type, choice.zone),
            )
        });
        if let Some(choice) = cheapest {
            for _ in 0..request.target_capacity {
                self.launched += 1;
                answer.instances.push(Launched {
                    instance: format!("i-{:017}", self.launched).into(),
                    instance_type: choice.instance_type.clone(),
                    zone: choice.zone.clone(),
                    capacity_type: request.capacity_type,
                    image: choice.image.clone(),
                    subnet: choice.subnet.clone(),
                });
            }
        }
        answer
    }
}
