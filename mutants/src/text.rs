//! Source text and the insertions into it.

use std::ops::Range;

use proc_macro2::LineColumn;
use syn::spanned::Spanned;

pub struct Text<'a> {
    source: &'a str,
    /// Offset at which each line begins.
    lines: Vec<usize>,
    /// Insertions behind nodes. At one offset, insertions behind a node come before those in front of the next.
    ends: Vec<(usize, String)>,
    begins: Vec<(usize, String)>,
}

impl<'a> Text<'a> {
    pub fn new(source: &'a str) -> Self {
        let ends_of_lines = source.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            source,
            lines: std::iter::once(0).chain(ends_of_lines).collect(),
            ends: Vec::new(),
            begins: Vec::new(),
        }
    }

    pub fn range(&self, node: &impl Spanned) -> Range<usize> {
        let span = node.span();
        self.offset(span.start())..self.offset(span.end())
    }

    /// Byte offset of a position, whose column counts characters.
    fn offset(&self, at: LineColumn) -> usize {
        let begin = self.lines[at.line - 1];
        let line = &self.source[begin..];
        begin
            + line
                .char_indices()
                .nth(at.column)
                .map_or(line.len(), |(offset, _)| offset)
    }

    pub fn of(&self, node: &impl Spanned) -> &'a str {
        &self.source[self.range(node)]
    }

    /// Text of a range with a part of it replaced.
    pub fn replaced(&self, whole: Range<usize>, part: Range<usize>, other: &str) -> String {
        let before = &self.source[whole.start..part.start];
        format!("{before}{other}{}", &self.source[part.end..whole.end])
    }

    /// Inserts text in front of a node. Outer nodes must be inserted before inner ones.
    pub fn insert_before(&mut self, at: usize, what: String) {
        self.begins.push((at, what));
    }

    /// Inserts text on both sides of a node. Outer nodes must be inserted before inner ones.
    pub fn wrap(&mut self, range: Range<usize>, before: String, after: String) {
        self.begins.push((range.start, before));
        self.ends.push((range.end, after));
    }

    pub fn finish(mut self) -> String {
        self.ends.reverse();
        self.ends.sort_by_key(|(at, _)| *at);
        self.begins.sort_by_key(|(at, _)| *at);
        let (mut ends, mut begins) = (
            self.ends.into_iter().peekable(),
            self.begins.into_iter().peekable(),
        );
        let mut out = String::new();
        for at in 0..=self.source.len() {
            while let Some((_, what)) = ends.next_if(|(end, _)| *end == at) {
                out += &what;
            }
            while let Some((_, what)) = begins.next_if(|(begin, _)| *begin == at) {
                out += &what;
            }
            if let Some(rest) = self.source.get(at..)
                && let Some(character) = rest.chars().next()
            {
                out.push(character);
            }
        }
        out
    }
}
