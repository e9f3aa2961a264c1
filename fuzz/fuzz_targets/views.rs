#![no_main]

// A relay may be wrong, or somebody else's.
libfuzzer_sys::fuzz_target!(|object: &[u8]| {
    let packed = zstd::encode_all(object, 1).unwrap_or_default();
    for object in [object, &packed] {
        let _doubted = view::View::open(&"demo".into(), "epoch", 1, object);
    }
});
