//! The fields of a YAML document in textual order.

use super::tree::{Node, Tree};

/// JSON pointers of all fields and items of a document, with the line on which each value begins, from 1; empty if the
/// text is not YAML.
pub fn outline(text: &str) -> Vec<(String, usize)> {
    let mut fields = Vec::new();
    if let Ok(tree) = serde_saphyr::from_str::<Tree>(text) {
        add(&tree, "", &mut fields);
    }
    fields
}

fn add(tree: &Tree, at: &str, fields: &mut Vec<(String, usize)>) {
    let mut below = |step: &str, tree: &Tree| {
        let pointer = format!("{at}/{step}");
        fields.push((pointer.clone(), tree.line));
        add(tree, &pointer, fields);
    };
    match &tree.node {
        Node::Scalar(_) => {}
        Node::Seq(items) => {
            for (number, item) in items.iter().enumerate() {
                below(&number.to_string(), item);
            }
        }
        Node::Map(map) => {
            for (key, value) in map {
                below(&key.replace('~', "~0").replace('/', "~1"), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_textual_order() {
        let fields = outline("b:\n  x/y: 1\na:\n- 2\n- k: 3\n");
        let fields: Vec<_> = fields
            .iter()
            .map(|(at, line)| (at.as_str(), *line))
            .collect();
        let expected = [
            ("/b", 2),
            ("/b/x~1y", 2),
            ("/a", 4),
            ("/a/0", 4),
            ("/a/1", 5),
            ("/a/1/k", 5),
        ];
        assert_eq!(fields, expected);
        assert!(outline("a: [").is_empty());
    }
}
