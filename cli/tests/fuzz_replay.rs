//! The fuzz target's corpus, replayed.

#[path = "../../fuzz/fuzz_targets/manifests.rs"]
mod manifests;

#[test]
fn every_input_of_the_corpus_gets_a_plan_that_passes_the_check() {
    let types = manifests::types();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/plan");
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        manifests::plan(&std::fs::read_to_string(&path).unwrap(), &types);
        replayed += 1;
    }
    assert!(replayed >= 30, "{replayed} inputs in {corpus}");
}
