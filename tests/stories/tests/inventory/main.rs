//! Maps groups of Karpenter's own tests to the tests here that cover them: generates `docs/lifecycle-tests.md` and checks that
//! every named test exists.

mod karpenter_1_15;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;

/// A group of Karpenter's tests, and the tests here: a file and the names of tests in it. A file without names is a scenario.
type Group = (
    &'static str,
    &'static [(&'static str, &'static [&'static str])],
);

const MACHINE: &str = "shared/planner/src/machine/tests.rs";
const LIFECYCLE: &str = "shared/planner/src/lifecycle/tests.rs";
const QUIET_TIME: &str = "shared/planner/src/lifecycle/tests/quiet_time.rs";
const TERMINATE: &str = "shared/planner/src/terminate/tests.rs";
const HEALTH: &str = "shared/planner/src/registration_health.rs";
const REGISTRATION: &str = "tests/stories/tests/lifecycle/registration.rs";
const TERMINATION: &str = "tests/stories/tests/lifecycle/termination.rs";
const BY_HAND: &str = "tests/stories/tests/lifecycle/by_hand.rs";
const BAD_INPUT: &str = "tests/stories/tests/lifecycle/bad_input.rs";
const COLLECTING: &str = "tests/stories/tests/lifecycle/collecting.rs";
const STATIC_CAPACITY: &str = "tests/stories/tests/lifecycle/static_capacity.rs";
const FEATURE_GATES: &str = "tests/stories/tests/lifecycle/feature_gates.rs";
const OVERLAYS: &str = "shared/planner/src/provision/overlays.rs";
const BUFFERS: &str = "shared/planner/src/provision/buffers.rs";
const STORIES: &str = "tests/stories/tests/stories.rs";
const DELETED: &str = "tests/stories/tests/lifecycle/deleted_clusters.rs";
const WARNINGS: &str = "tests/stories/tests/lifecycle/warnings.rs";
const GAUGES: &str = "shared/turns/src/report/status/gauges/tests.rs";
const METRICS: &str = "shared/turns/src/report/metrics/tests.rs";
const DO_NOT_DISRUPT: &str = "shared/planner/src/do_not_disrupt.rs";

const GROUPS: &[Group] = &[
    (
        "nodeclaim/lifecycle: launch",
        &[
            (
                STORIES,
                &[
                    "node_pool_without_capacity_leaves_no_node_claims_and_an_event_on_the_pod",
                    "denied_launch_is_a_condition_of_the_node_claim_and_retried",
                ],
            ),
            (
                BY_HAND,
                &[
                    "manual_node_claim_gets_its_finalizer_before_the_launch",
                    "invalid_node_claim_is_reported_and_deleted_without_a_launch",
                ],
            ),
        ],
    ),
    (
        "nodeclaim/lifecycle: registration",
        &[
            (
                LIFECYCLE,
                &[
                    "joining_node_is_registered_and_loses_only_the_unregistered_taint",
                    "startup_taints_are_not_added_again_after_registration",
                    "two_nodes_with_one_provider_id_are_rejected",
                ],
            ),
            (
                REGISTRATION,
                &["each_lifecycle_step_of_a_node_claim_emits_an_event"],
            ),
        ],
    ),
    (
        "nodeclaim/lifecycle: initialization",
        &[(
            LIFECYCLE,
            &[
                "initialization_condition_names_the_missing_requirement",
                "healthy_registered_node_is_initialized_and_labelled",
            ],
        )],
    ),
    (
        "nodeclaim/lifecycle: liveness",
        &[
            (LIFECYCLE, &["launch_and_registration_time_out"]),
            (
                REGISTRATION,
                &[
                    "instance_that_never_joins_times_out_and_two_make_the_node_pool_unhealthy",
                    "launch_and_registration_timeouts_are_configurable",
                ],
            ),
            (BAD_INPUT, &["five_minutes_of_clock_skew_delete_no_node"]),
        ],
    ),
    (
        "nodeclaim/lifecycle: termination",
        &[
            (
                MACHINE,
                &["instance_outlives_pods_and_finalizers_outlive_the_instance"],
            ),
            (
                TERMINATE,
                &[
                    "deleting_a_node_claim_deletes_its_node_first",
                    "finalizers_stay_until_the_instance_is_gone",
                    "node_claim_without_an_instance_is_released",
                ],
            ),
            (
                TERMINATION,
                &[
                    "deleted_node_claim_is_drained_and_its_pods_are_rescheduled",
                    "deleting_a_node_pool_removes_its_nodes",
                ],
            ),
        ],
    ),
    (
        "nodeclaim/disruption: consolidatable and drifted",
        &[
            (
                QUIET_TIME,
                &["node_becomes_consolidatable_after_consolidate_after"],
            ),
            (
                STORIES,
                &["nodes_drift_when_their_node_pool_or_node_class_changes"],
            ),
        ],
    ),
    (
        "nodeclaim/expiration",
        &[(
            REGISTRATION,
            &["expired_node_is_deleted_and_its_pods_are_rescheduled"],
        )],
    ),
    (
        "nodeclaim/garbagecollection",
        &[(
            COLLECTING,
            &[
                "node_claim_of_a_terminated_instance_is_deleted",
                "instance_without_a_node_claim_is_collected",
                "empty_instance_list_terminates_nothing",
                "failing_instance_list_terminates_nothing",
                "restored_etcd_without_the_newest_node_claims_terminates_nothing",
                "braked_instances_are_terminated_only_with_approval",
            ],
        )],
    ),
    (
        "nodeclaim/consistency",
        &[(
            REGISTRATION,
            &["node_with_less_capacity_than_its_instance_type_is_reported_and_kept"],
        )],
    ),
    (
        "nodeclaim/podevents",
        &[(
            QUIET_TIME,
            &["added_and_removed_pods_restart_consolidate_after"],
        )],
    ),
    (
        "node/termination",
        &[
            (
                TERMINATE,
                &[
                    "node_is_tainted_before_evictions",
                    "pods_are_evicted_in_tiers",
                    "drain_completes_after_five_seconds_without_pods",
                    "node_of_a_terminated_instance_is_not_drained",
                ],
            ),
            (
                TERMINATION,
                &[
                    "deleting_a_node_deletes_its_node_claim",
                    "externally_terminated_instance_removes_its_node_and_node_claim",
                    "vanished_node_object_registers_again",
                    "pods_that_tolerate_the_disruption_taint_are_not_evicted",
                    "stuck_terminating_pod_delays_termination_by_a_minute",
                    "volumes_are_detached_before_termination",
                ],
            ),
            (BAD_INPUT, &["foreign_finalizer_keeps_only_the_node_object"]),
        ],
    ),
    (
        "node/termination/terminator: eviction and force",
        &[(
            TERMINATION,
            &[
                "blocking_budget_delays_a_drain_with_few_retries",
                "pod_with_two_budgets_blocks_its_drain_and_is_an_event",
                "do_not_disrupt_pod_stays_until_the_termination_grace_period_ends",
            ],
        )],
    ),
    (
        "node/health",
        &[(
            REGISTRATION,
            &[
                "unready_node_is_repaired_regardless_of_its_pods",
                "many_unready_nodes_suspend_repair",
                "unready_node_stays_without_the_node_repair_gate",
            ],
        )],
    ),
    (
        "static/provisioning, static/deprovisioning, state/statenodepool",
        &[(
            STATIC_CAPACITY,
            &[
                "static_node_pool_has_its_nodes_without_pods",
                "removed_node_of_a_static_node_pool_is_replaced",
                "static_node_pool_limit_counts_terminating_nodes",
                "static_node_pool_has_no_nodes_without_the_gate",
            ],
        )],
    ),
    (
        "nodeoverlay",
        &[
            (
                OVERLAYS,
                &[
                    "heaviest_overlay_sets_the_price_of_selected_offerings",
                    "second_overlay_of_equal_weight_is_not_applied",
                ],
            ),
            (
                FEATURE_GATES,
                &[
                    "overlay_prices_decide_launches_and_invalid_overlays_have_a_condition",
                    "gated_kinds_without_gate_or_crd_are_ignored",
                ],
            ),
        ],
    ),
    (
        "capacitybuffer",
        &[
            (
                BUFFERS,
                &["buffer_is_the_larger_of_replicas_and_percentage_within_limits"],
            ),
            (
                FEATURE_GATES,
                &[
                    "capacity_buffer_has_a_node_before_any_pod_and_yields_to_pods",
                    "unresolvable_or_empty_capacity_buffer_has_a_condition",
                ],
            ),
        ],
    ),
    (
        "nodepool/hash",
        &[(STORIES, &["hash_version_change_drifts_nothing"])],
    ),
    (
        "nodepool/registrationhealth, state/nodepoolhealth",
        &[(
            HEALTH,
            &[
                "two_failures_among_the_last_four_are_unhealthy",
                "recreated_node_pool_has_no_outcomes",
                "condition_of_another_controller_counts_as_outcomes",
            ],
        )],
    ),
    (
        "nodepool/hash: covered fields",
        &[(
            "shared/planner/src/node_pool_hash.rs",
            &[
                "hash_covers_every_field_that_nodes_are_created_with",
                "hash_ignores_order_spelling_and_requirements",
            ],
        )],
    ),
    (
        "nodepool/readiness, nodepool/validation",
        &[
            (REGISTRATION, &["node_pool_readiness_is_an_event"]),
            (
                "shared/api/src/validation/node_pool.rs",
                &[
                    "labels_are_checked",
                    "taints_are_checked",
                    "requirements_are_checked_by_position",
                ],
            ),
            (
                "shared/api/src/validation/requirement.rs",
                &[
                    "restricted_keys_are_refused",
                    "unknown_capacity_types_matter_only_without_known_ones",
                    "bounds_are_one_non_negative_integer",
                ],
            ),
        ],
    ),
    (
        "nodeclaim/disruption: drift",
        &[(
            "shared/planner/src/lifecycle/drift_tests.rs",
            &[
                "only_hashes_of_equal_version_are_compared",
                "labels_must_satisfy_the_node_pools_requirements",
                "discontinued_instance_type_drifts_and_an_unavailable_one_does_not",
                "provider_drift_is_judged_last_and_missing_data_changes_nothing",
                "node_claim_without_an_instance_has_not_drifted",
            ],
        )],
    ),
    (
        "utils/pod: do-not-disrupt",
        &[(DO_NOT_DISRUPT, &["events_report_the_protection_of_pods"])],
    ),
    (
        "events: once, and none is lost",
        &[
            (
                REGISTRATION,
                &["events_beyond_the_share_of_a_turn_are_posted_by_later_turns"],
            ),
            (
                WARNINGS,
                &["exhausted_selector_results_are_one_event_and_block_nothing"],
            ),
        ],
    ),
    (
        "metrics: counters and durations",
        &[(
            METRICS,
            &[
                "deletion_is_counted_with_its_reason_and_the_pods_that_move",
                "termination_duration_of_a_node_is_measured",
                "eviction_is_counted_by_its_status_code",
            ],
        )],
    ),
    (
        "metrics/node, metrics/pod, metrics/nodepool: gauges, summed over equal labels",
        &[(
            GAUGES,
            &[
                "nodes_with_equal_labels_are_summed_in_base_units",
                "pods_are_counted_by_phase_and_node_labels",
                "node_pool_without_nodes_has_usage_and_limits",
                "budgets_are_published_by_reason",
            ],
        )],
    ),
    (
        "no counterpart in Karpenter: a deleted cluster",
        &[(
            DELETED,
            &[
                "instances_of_a_deleted_cluster_are_collected_after_a_day",
                "reappearing_cluster_keeps_its_instances",
                "unreachable_or_denied_cluster_is_not_deleted",
            ],
        )],
    ),
    (
        "apis/v1: CEL and defaults",
        &[(
            "shared/api/tests/crds.rs",
            &["fields_and_validation_equal_reference"],
        )],
    ),
];

#[test]
fn every_group_has_tests_that_exist() {
    let page = format!(
        "# Karpenter's lifecycle tests and ours\n\n\
         Generated by `tests/stories/tests/inventory/main.rs`; `UPDATE_EXPECT=1 cargo test -p stories --test inventory` updates it.\n\n\
         | Karpenter's tests | ours |\n|---|---|\n{}\n\
         No counterpart is needed for: `state/*` and `nodeclaimgc`, which test a cache in memory (every turn reads again); `state/cost` and \
         `state/prediction`, which affect no decision; registration hooks, which have no implementation on AWS; conditions of Nodes, for \
         which Kubernetes posts events (`NodeReady`, `NodeNotReady`).\n\n\
         ## Behaviour of Karpenter 1.15\n\n\
         The rules are those of the [specification](spec/v1.15.md).\n\n\
         | Rules | Tests |\n|---|---|\n{}",
        rows(GROUPS),
        rows(karpenter_1_15::GROUPS),
    );
    expect_file![root().join("docs/lifecycle-tests.md")].assert_eq(&page);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rows of the page's table.
fn rows(groups: &[Group]) -> String {
    let mut rows = String::new();
    for (group, files) in groups {
        let mut ours = Vec::new();
        for (file, tests) in *files {
            let path = root().join(file);
            let text = fs::read_to_string(&path).unwrap_or_default();
            assert!(!text.is_empty(), "{file} does not exist");
            if tests.is_empty() {
                let scenario = path.file_stem().unwrap_or_default().to_string_lossy();
                ours.push(format!("[{scenario}](../{file})"));
            }
            for test in *tests {
                assert!(
                    text.contains(&format!("fn {test}(")),
                    "{file} has no {test}"
                );
                ours.push(format!("[{test}](../{file})"));
            }
        }
        let _ = writeln!(rows, "| {group} | {} |", ours.join("<br>"));
    }
    rows
}

/// Modules whose tests have no transcript: they compare end states, or their hundreds of nodes would make one unreadable.
const WITHOUT_TRANSCRIPTS: [&str; 8] = [
    "admission",
    "crashes",
    "main",
    "many",
    "frozen_pools",
    "refusals",
    "together",
    "unreadable",
];

#[test]
fn lifecycle_tests_and_transcripts_correspond() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut stories = BTreeSet::new();
    for file in fs::read_dir(root.join("tests/lifecycle")).unwrap() {
        let file = file.unwrap().path();
        let module = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if WITHOUT_TRANSCRIPTS.contains(&module.as_str()) {
            continue;
        }
        let text = fs::read_to_string(file).unwrap();
        let tests = text.split("#[tokio::test]").skip(1);
        let names = tests.filter_map(|test| test.split_once("fn ")?.1.split('(').next());
        stories.extend(names.map(|name| format!("{module}/{name}")));
    }
    let mut pages = BTreeSet::new();
    for folder in fs::read_dir(root.join("transcripts/lifecycle")).unwrap() {
        let folder = folder.unwrap().path();
        let module = folder.file_name().unwrap().to_str().unwrap().to_owned();
        for page in fs::read_dir(folder).unwrap() {
            let page = page.unwrap().file_name().into_string().unwrap();
            let story = page.split('.').next().unwrap_or_default();
            pages.insert(format!("{module}/{story}"));
        }
    }
    assert!(!stories.is_empty());
    let apart: Vec<_> = stories.symmetric_difference(&pages).collect();
    assert!(apart.is_empty(), "{apart:?}");
}
