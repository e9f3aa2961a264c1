const HOUR: f64 = 3_600.0;
const DAY: f64 = 24.0 * HOUR;

/// Bucket bounds, in seconds where the metric has that unit, that dashboards for Karpenter expect of a histogram
/// (docs/spec/lifecycle.md#metrics).
pub(super) fn bucket_bounds(name: &str) -> &'static [f64] {
    match name {
        "karpenter_nodes_lifetime_duration_seconds" => &LIFETIMES,
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
        | "karpenter_scheduler_scheduling_duration_seconds"
        | "karpenter_cloudprovider_duration_seconds" => &DECISIONS,
        "karpenter_consolidation_score" => &SCORES,
        "karpenter_nodes_reboot_duration_seconds"
        | "karpenter_nodes_reboot_recovery_duration_seconds" => &REBOOTS,
        _ => &ENDINGS,
    }
}

const ENDINGS: [f64; 12] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0,
];

const REBOOTS: [f64; 8] = [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1_280.0];

const LIFETIMES: [f64; 21] = [
    0.25 * HOUR,
    0.5 * HOUR,
    0.75 * HOUR,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    6.0 * HOUR,
    8.0 * HOUR,
    10.0 * HOUR,
    12.0 * HOUR,
    16.0 * HOUR,
    20.0 * HOUR,
    DAY,
    2.0 * DAY,
    3.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    15.0 * DAY,
    20.0 * DAY,
    25.0 * DAY,
    30.0 * DAY,
];

/// Ratio of a move's share of savings to its share of disruption; 0.5 is enough.
const SCORES: [f64; 8] = [0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];

/// An evaluation or a request takes milliseconds, and seconds in a large cluster or if EC2 throttles.
const DECISIONS: [f64; 12] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
