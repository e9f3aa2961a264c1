//! Which tests stand for which group of behaviours that Karpenter's own tests pin: `docs/lifecycle-tests.md` is made here,
//! and every test that it names exists.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use expect_test::expect_file;

/// A group of Karpenter's tests, and ours: folder or file, then the names of tests in it.
type Group = (
    &'static str,
    &'static [(&'static str, &'static [&'static str])],
);

const MACHINE: &str = "shared/planner/src/machine/tests.rs";
const LIFECYCLE: &str = "shared/planner/src/lifecycle/tests.rs";
const QUIET_TIME: &str = "shared/planner/src/lifecycle/tests/quiet_time.rs";
const TERMINATE: &str = "shared/planner/src/terminate/tests.rs";
const HEALTH: &str = "shared/planner/src/registration_health.rs";
const BIRTHS: &str = "tests/stories/tests/lifecycle/births.rs";
const BURIALS: &str = "tests/stories/tests/lifecycle/burials.rs";
const BY_HAND: &str = "tests/stories/tests/lifecycle/by_hand.rs";
const BAD_INPUT: &str = "tests/stories/tests/lifecycle/bad_input.rs";
const COLLECTING: &str = "tests/stories/tests/lifecycle/collecting.rs";
const FIXED: &str = "tests/stories/tests/lifecycle/fixed.rs";
const GATED: &str = "tests/stories/tests/lifecycle/gated.rs";
const OVERLAYS: &str = "shared/planner/src/provision/overlays.rs";
const BUFFERS: &str = "shared/planner/src/provision/buffers.rs";
const STORIES: &str = "tests/stories/tests/stories.rs";
const DELETED: &str = "tests/stories/tests/lifecycle/deleted_clusters.rs";
const WARNINGS: &str = "tests/stories/tests/lifecycle/warnings.rs";
const GAUGES: &str = "shared/turns/src/status/gauges/tests.rs";
const METRICS: &str = "shared/turns/src/metrics/tests.rs";
const DO_NOT_DISRUPT: &str = "shared/planner/src/do_not_disrupt.rs";

const GROUPS: &[Group] = &[
    (
        "nodeclaim/lifecycle: launch",
        &[
            (
                STORIES,
                &[
                    "a_pool_without_any_capacity_leaves_no_claims_and_says_so_on_the_pod",
                    "a_denied_launch_is_explained_on_the_node_claim_and_tried_again",
                ],
            ),
            (
                BY_HAND,
                &[
                    "it_is_protected_before_anything_is_launched_for_it",
                    "nonsense_is_told_and_deleted_and_nothing_is_launched",
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
            (BIRTHS, &["a_node_is_told_of_step_by_step"]),
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
                BIRTHS,
                &[
                    "an_instance_that_never_joins_is_given_up_and_two_make_the_node_pool_unhealthy",
                    "time_outs_are_settings",
                ],
            ),
            (
                BAD_INPUT,
                &["clocks_that_differ_by_five_minutes_keep_nodes_alive"],
            ),
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
                BURIALS,
                &[
                    "what_a_user_deletes_is_drained_first_and_its_pods_find_another_node",
                    "a_deleted_node_pool_takes_its_nodes_with_it_and_leaves_nothing",
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
                &["nodes_drift_when_what_they_were_made_with_changes"],
            ),
        ],
    ),
    (
        "nodeclaim/expiration",
        &[(
            BIRTHS,
            &["an_expired_node_goes_at_its_time_and_its_pods_find_another"],
        )],
    ),
    (
        "nodeclaim/garbagecollection",
        &[(
            COLLECTING,
            &[
                "a_node_claim_whose_instance_is_gone_goes",
                "an_instance_that_no_node_claim_names_is_collected",
                "an_empty_list_ends_nothing",
                "a_list_that_failed_half_way_or_an_error_that_was_misread_ends_nothing",
                "a_restored_etcd_that_lacks_the_newest_node_claims_ends_nothing",
                "what_the_brake_held_goes_once_a_person_approves_and_only_until_then",
            ],
        )],
    ),
    (
        "nodeclaim/consistency",
        &[(
            BIRTHS,
            &["a_node_with_less_than_was_bought_is_told_of_and_stays"],
        )],
    ),
    (
        "nodeclaim/podevents",
        &[(
            QUIET_TIME,
            &["arriving_and_leaving_pods_restart_consolidate_after"],
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
                BURIALS,
                &[
                    "deleting_a_node_is_deleting_its_node_claim",
                    "an_instance_that_ends_under_our_feet_takes_its_node_with_it",
                    "a_node_that_vanishes_under_our_feet_joins_again",
                    "pods_that_tolerate_the_taint_stay_to_the_end",
                    "a_pod_that_ignores_its_end_holds_its_node_a_minute_longer",
                    "volumes_leave_before_the_instance_does",
                ],
            ),
            (
                BAD_INPUT,
                &["the_finalizer_of_an_uninstalled_product_keeps_its_node_object_and_nothing_else"],
            ),
        ],
    ),
    (
        "node/termination/terminator: eviction and force",
        &[(
            BURIALS,
            &[
                "a_budget_that_never_allows_holds_up_a_drain_for_next_to_nothing",
                "two_budgets_on_one_pod_hold_up_its_node_and_are_told_of",
                "do_not_disrupt_holds_until_the_termination_grace_period_demands_the_node",
            ],
        )],
    ),
    (
        "node/health",
        &[(
            BIRTHS,
            &[
                "a_node_that_stays_silent_is_replaced_whatever_runs_on_it",
                "when_many_nodes_fall_silent_none_is_replaced",
                "without_the_gate_a_silent_node_stays",
            ],
        )],
    ),
    (
        "static/provisioning, static/deprovisioning, state/statenodepool",
        &[(
            FIXED,
            &[
                "a_static_node_pool_has_its_nodes_without_any_pod",
                "a_node_that_goes_is_made_good",
                "its_limit_counts_nodes_that_are_leaving",
                "without_the_gate_it_has_none",
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
                GATED,
                &[
                    "an_overlay_decides_what_is_cheapest_and_a_wrong_or_conflicting_one_says_so",
                    "without_its_gate_or_its_crd_a_kind_counts_for_nothing_and_stops_nothing",
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
                GATED,
                &[
                    "a_buffer_has_its_node_before_any_pod_and_gives_its_room_to_pods_that_come",
                    "a_buffer_that_cannot_be_resolved_or_is_empty_says_so",
                ],
            ),
        ],
    ),
    (
        "nodepool/hash",
        &[(
            STORIES,
            &["taking_over_from_another_version_drifts_nothing"],
        )],
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
        "nodepool/hash: what counts",
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
            (BIRTHS, &["a_node_pool_that_becomes_ready_is_told_of"]),
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
                BIRTHS,
                &["events_that_one_turn_leaves_are_posted_by_later_ones"],
            ),
            (
                WARNINGS,
                &["what_a_selector_finds_exhausted_is_told_once_and_stops_nothing"],
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
        "metrics/node, metrics/pod, metrics/nodepool: gauges, summed up over what is alike",
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
        "nothing there: a cluster that was deleted",
        &[(
            DELETED,
            &[
                "what_it_leaves_is_collected_after_a_day",
                "one_that_is_there_again_loses_nothing",
                "one_that_does_not_answer_or_lets_nobody_in_is_not_gone",
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut page = String::from(
        "# Karpenter's lifecycle tests and ours\n\n\
         Made by `tests/stories/tests/inventory.rs`; `UPDATE_EXPECT=1 cargo test -p stories --test inventory` writes it again.\n\n\
         | Karpenter's tests | ours |\n|---|---|\n",
    );
    for (group, files) in GROUPS {
        let mut ours = Vec::new();
        for (file, tests) in *files {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            for test in *tests {
                assert!(
                    text.contains(&format!("fn {test}(")),
                    "{file} has no {test}"
                );
                ours.push(format!("[{test}](../{file})"));
            }
        }
        let _ = writeln!(page, "| {group} | {} |", ours.join("<br>"));
    }
    page.push_str(
        "\nWhat has no counterpart here: `state/*` and `nodeclaimgc` test a cache in memory, of which there is none (every turn reads \
         afresh); `state/cost` and `state/prediction` feed no decision; the registration hooks and the claims of dynamic resource \
         allocation have no implementation on AWS; conditions of Nodes are told by Kubernetes itself (`NodeReady`, `NodeNotReady`).\n",
    );
    expect_file![root.join("docs/lifecycle-tests.md")].assert_eq(&page);
}

/// Sweeps, interleavings and refusals compare ends, which need no page; stories of hundreds of nodes would fill one.
const WITHOUT_PAGES: [&str; 7] = [
    "admission",
    "crashes",
    "main",
    "many",
    "refusals",
    "together",
    "unreadable",
];

#[test]
fn every_lifecycle_story_has_its_page_and_every_page_its_story() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut stories = BTreeSet::new();
    for file in fs::read_dir(root.join("tests/lifecycle")).unwrap() {
        let file = file.unwrap().path();
        let module = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if WITHOUT_PAGES.contains(&module.as_str()) {
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
