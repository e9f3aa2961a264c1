//! Output of the AWS CLI: one JSON document, several of them one after the other, or YAML.

use anyhow::{Context, Result};
use serde_json::{Deserializer, Value};

/// The documents of a file. The error is that of JSON, which the AWS CLI prints by default.
pub(crate) fn documents(file: &str, text: &str) -> Result<Vec<Value>> {
    let documents = Deserializer::from_str(text).into_iter().collect();
    let documents: Result<Vec<Value>, _> = documents;
    documents
        .or_else(|error| {
            let read = serde_saphyr::from_multiple::<Value>(text).ok();
            read.filter(|documents| documents.iter().all(Value::is_object))
                .ok_or(error)
        })
        .with_context(|| {
            format!("{file} is not JSON: give what the AWS CLI prints with --output json")
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_one_after_the_other_and_as_yaml() {
        for text in ["{\"a\": 1}\n{\"b\": 2}", "a: 1\n---\nb: 2\n"] {
            let read = documents("groups", text).unwrap();
            assert_eq!(read, [json!({"a": 1}), json!({"b": 2})], "{text}");
        }
        for text in ["|  a  |\n+-----+\n", "{\"a\": 1", "web\t3\n"] {
            let error = documents("groups", text).unwrap_err().to_string();
            assert!(error.contains("groups is not JSON: give"), "{error}");
        }
    }
}
