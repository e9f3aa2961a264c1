//! Items of a `kind: List` as texts of their own, with the comments around them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::layout::without_comment;

/// The text of each item of a list in block style. Comments above the items go to the first one, comments below to the last. An item has no
/// text where its lines alone mean something else, as in a list in flow style or with an alias of another item's anchor.
pub(super) fn texts(list: &str, items: &[Value]) -> Vec<Option<String>> {
    let lines: Vec<&str> = list.lines().collect();
    let Some(starts) = starts(list, &lines, items.len()) else {
        return vec![None; items.len()];
    };
    let mut above: Vec<String> = Vec::new();
    for line in lines.iter().take(starts.first().copied().unwrap_or(0)) {
        above.extend(without_comment(line.trim()).1.map(str::to_owned));
    }
    let mut texts = Vec::new();
    for (number, (start, item)) in starts.iter().zip(items).enumerate() {
        let next = starts.get(number + 1).copied();
        let end = next.unwrap_or(lines.len());
        let body = lines.get(*start..end).unwrap_or_default();
        let (body, rest) = body.split_at(own_lines(body, next.is_none()));
        let rest = rest
            .iter()
            .filter_map(|line| without_comment(line.trim()).1)
            .map(str::to_owned);
        let mut text = std::mem::take(&mut above);
        text.extend(dedented(body));
        match next {
            Some(_) => above.extend(rest),
            None => text.extend(rest),
        }
        let text = format!("{}\n", text.join("\n").trim_end());
        let is_item = |read: Value| read == *item;
        texts.push(Some(text).filter(|text| serde_saphyr::from_str(text).is_ok_and(is_item)));
    }
    texts
}

/// Whether a text may contain comments.
pub(super) fn has_comments(list: &str) -> bool {
    list.lines()
        .any(|line| without_comment(line.trim()).1.is_some())
}

/// The first lines of the items; `None` if an item does not begin a line.
fn starts(list: &str, lines: &[&str], items: usize) -> Option<Vec<usize>> {
    let fields: BTreeMap<String, usize> = api::manifests::outline(list).into_iter().collect();
    let start = |number: usize| {
        // A dash may stand alone above the first field of its item.
        let first = fields.get(&format!("/items/{number}"))?.checked_sub(1)?;
        let above = lines.get(..=first)?.iter().rposition(|line| {
            let line = line.trim();
            !(line.is_empty() || line.starts_with('#')) && (line == "-" || line.starts_with("- "))
        });
        above.filter(|start| {
            let between = lines.get(start + 1..first).unwrap_or_default();
            let says_nothing = |line: &&str| line.trim().is_empty() || line.trim().starts_with('#');
            between.iter().all(says_nothing)
        })
    };
    let starts: Vec<usize> = (0..items).map(start).collect::<Option<_>>()?;
    // Lines of another list may look like items when the list is in flow style.
    let is_in_order = starts.is_sorted_by(|start, next| start < next);
    is_in_order.then_some(starts)
}

/// Number of lines of an item: a line that is indented no more than the item's dash belongs to the next item, or to the list.
fn own_lines(body: &[&str], is_last: bool) -> usize {
    let dash = body.first().map_or(0, |line| indentation(line));
    let is_outside = |line: &str| !line.trim().is_empty() && indentation(line) <= dash;
    let below = || body.iter().enumerate().skip(1);
    if is_last {
        let is_key = |line: &str| is_outside(line) && !line.trim().starts_with('#');
        let key = below().find(|(_, line)| is_key(line));
        let body = body.get(..key.map_or(body.len(), |(at, _)| at));
        return own_lines(body.unwrap_or_default(), false);
    }
    let mut own = below().rev();
    let last = own.find(|(_, line)| !line.trim().is_empty() && !is_outside(line));
    last.map_or(1, |(at, _)| at + 1)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The lines of an item without its dash and its indentation.
fn dedented(body: &[&str]) -> Vec<String> {
    let mut body: Vec<String> = body.iter().map(|line| (*line).to_owned()).collect();
    if let Some(first) = body.first_mut() {
        *first = first.replacen('-', " ", 1);
    }
    let says_something = |line: &&String| !line.trim().is_empty() && !line.trim().starts_with('#');
    let depth = body.iter().find(says_something);
    let depth = depth.map_or(0, |line| indentation(line));
    for line in &mut body {
        let less = depth.min(indentation(line));
        *line = line.get(less..).unwrap_or_default().to_owned();
    }
    if body.first().is_some_and(|first| first.trim().is_empty()) {
        body.remove(0);
    }
    body
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts_of(list: &str) -> Vec<Option<String>> {
        let read: Value = serde_saphyr::from_str(list).unwrap();
        let items = read.get("items").and_then(Value::as_array).unwrap();
        texts(list, items)
    }

    #[test]
    fn list_item_keeps_its_comments() {
        let list = "# all\nkind: List # of two\nitems:\n# first\n- a: 1 # tail\n  b: |\n    # text\n    - c\n  # in it\n# second\n-\n  # own\n  a: 2\nmetadata: {} # end\n";
        let [first, second] = [
            "# all\n# of two\n# first\na: 1 # tail\nb: |\n  # text\n  - c\n# in it\n",
            "# second\n# own\na: 2\n# end\n",
        ];
        assert_eq!(
            texts_of(list),
            [first, second].map(|text| Some(text.to_owned()))
        );
    }

    #[test]
    fn list_item_with_ambiguous_lines_has_no_text() {
        assert_eq!(texts_of("items: [{a: 1}, # one\n{a: 2}]\n"), [None, None]);
        let list = "items:\n- a: &x 1\n- a: *x\n";
        assert_eq!(texts_of(list), [Some("a: &x 1\n".to_owned()), None]);
        let other = "kind: List\nmetadata:\n  finalizers:\n  - x\nitems: [{a: 1}, {a: 2}]\n";
        assert_eq!(texts_of(other), [None, None]);
        assert_eq!(texts("items: []", &[]), Vec::<Option<String>>::new());
        assert_eq!(texts("items: 1", &[json!(1)]), [None]);
        assert!(has_comments("a: 1 # one\n") && !has_comments("a: '# one'\n"));
    }
}
