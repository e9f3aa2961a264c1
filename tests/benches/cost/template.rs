use model::Lane;
use serde_json::Value;

/// What the template declares that is paid for by the month.
pub(crate) struct Declared {
    pub(crate) alarms: usize,
    pub(crate) dashboards: usize,
    /// Functions that poll a queue.
    pub(crate) mappings: usize,
}

fn read() -> Value {
    harness::template("sam-template.yaml")
}

pub(crate) fn declared() -> Declared {
    let template = read();
    let resources = template["Resources"].as_object().unwrap();
    let of = |kind: &str| resources.values().filter(|one| one["Type"] == kind).count();
    let events = resources
        .values()
        .filter_map(|one| one["Properties"]["Events"].as_object());
    let sources = events.flat_map(|events| events.values());
    Declared {
        alarms: of("AWS::CloudWatch::Alarm"),
        dashboards: of("AWS::CloudWatch::Dashboard"),
        mappings: sources.filter(|source| source["Type"] == "SQS").count(),
    }
}

/// Memory of a lane's function, in GB as Lambda bills it.
pub(crate) fn gigabytes(lane: Lane) -> f64 {
    let name = match lane {
        Lane::Provisioner => "ProvisionerFunction",
        Lane::Lifecycle => "LifecycleFunction",
        Lane::Disruption => "DisruptionFunction",
        Lane::Terminator => "TerminatorFunction",
        Lane::Interruption => "InterruptionFunction",
        Lane::Housekeeper => "HousekeeperFunction",
    };
    let template = read();
    let own = &template["Resources"][name]["Properties"]["MemorySize"];
    let all = &template["Globals"]["Function"]["MemorySize"];
    own.as_f64().or(all.as_f64()).unwrap() / 1024.0
}
