#![no_main]

// A view is untrusted: a relay may be faulty, or belong to another stack.
libfuzzer_sys::fuzz_target!(|object: &[u8]| {
    let packed = zstd::encode_all(object, 1).unwrap_or_default();
    for object in [object, &packed] {
        let _untrusted = view::View::open(&"demo".into(), "epoch", 1, object);
    }
});
