use model::Lane;
use serde_json::Value;

/// Resources of the template that cost money by the month.
pub(crate) struct Declared {
    pub(crate) alarms: usize,
    pub(crate) dashboards: usize,
    /// Event source mappings, each of which polls a queue.
    pub(crate) mappings: usize,
}

fn read_template() -> Value {
    harness::template("sam-template.yaml")
}

pub(crate) fn declared() -> Declared {
    let template = read_template();
    let resources = template["Resources"].as_object().unwrap();
    let count = |resource_type: &str| {
        resources
            .values()
            .filter(|resource| resource["Type"] == resource_type)
            .count()
    };
    let events = resources
        .values()
        .filter_map(|resource| resource["Properties"]["Events"].as_object());
    let sources = events.flat_map(|events| events.values());
    Declared {
        alarms: count("AWS::CloudWatch::Alarm"),
        dashboards: count("AWS::CloudWatch::Dashboard"),
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
    let template = read_template();
    let function = &template["Resources"][name]["Properties"]["MemorySize"];
    let global = &template["Globals"]["Function"]["MemorySize"];
    function.as_f64().or(global.as_f64()).unwrap() / 1024.0
}
