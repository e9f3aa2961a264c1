//! Domains of endpoints, as botocore lists them for every partition.

use std::fs;

use serde_json::Value;

#[test]
fn domain_of_every_region_is_that_of_its_partition() {
    let packages = harness::tool("moto/lib");
    let mut versions = fs::read_dir(packages).unwrap();
    let python = versions.next().unwrap().unwrap().path();
    let path = python.join("site-packages/botocore/data/endpoints.json");
    let endpoints: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut regions = 0;
    for partition in endpoints["partitions"].as_array().unwrap() {
        for region in partition["regions"].as_object().unwrap().keys() {
            regions += 1;
            assert_eq!(signed::domain(region), partition["dnsSuffix"], "{region}");
        }
    }
    assert!(regions > 30, "{regions}");
}
