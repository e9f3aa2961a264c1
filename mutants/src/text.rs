//! A source text and what is to be put into it.

use std::ops::Range;

use proc_macro2::LineColumn;
use syn::spanned::Spanned;

pub struct Text<'a> {
    source: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// At one place, what ends there comes before what begins there.
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

    /// Columns count characters.
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

    /// What a range holds, with another text in place of a part of it.
    pub fn with(&self, whole: Range<usize>, part: Range<usize>, other: &str) -> String {
        let before = &self.source[whole.start..part.start];
        format!("{before}{other}{}", &self.source[part.end..whole.end])
    }

    /// Outer nodes are put in before what they hold.
    pub fn begin(&mut self, at: usize, what: String) {
        self.begins.push((at, what));
    }

    /// The same for both ends of a node: before what it holds.
    pub fn around(&mut self, range: Range<usize>, before: String, after: String) {
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
