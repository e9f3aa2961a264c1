use std::fmt::Write as _;

/// A page of the OpenMetrics text format. It borrows its input, because a large cluster has a hundred thousand series.
pub(super) struct Exposition<'a> {
    text: &'a mut String,
    name: String,
}

impl<'a> Exposition<'a> {
    pub(super) fn new(text: &'a mut String) -> Self {
        Self {
            text,
            name: String::new(),
        }
    }

    /// Begins a family of gauges.
    pub(super) fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    /// Begins a family of summaries.
    pub(super) fn summary(&mut self, name: &str, help: &str) {
        self.family(name, "summary", help);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.name);
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    }

    /// Adds a series to the current family. Labels without a value are omitted, which Prometheus treats the same.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample_of("", labels, value);
    }

    /// Adds a series with a suffix of the family's name, such as `_sum`.
    pub(super) fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        let mut before = '{';
        for (label, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            self.text.push(before);
            self.text.push_str(label);
            self.text.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value:?}");
    }
}
