//! Output formats of commands that list or show something: `-o table|wide|yaml|json|name`.
//!
//! Tables look like kubectl's: headers in capitals, columns apart by three spaces, neither lines nor colors.

use std::io::Write;

use anyhow::Result;
use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Sentences
    #[default]
    Text,
    /// Table with the most important columns
    Table,
    /// Table with all columns
    Wide,
    /// YAML document
    Yaml,
    /// JSON document
    Json,
    /// Names only, one per line
    Name,
}

/// Output options of a command that lists objects.
#[derive(Args)]
pub(crate) struct ListOutput {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = list_format())]
    output: Format,
    /// Print tables without headers
    #[arg(long)]
    no_headers: bool,
}

/// Output options of a command that explains its result in sentences, unless another format is selected.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct TextOutput {
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Print tables without headers
    #[arg(long)]
    no_headers: bool,
}

fn list_format() -> impl TypedValueParser<Value = Format> {
    let formats = Format::value_variants().iter();
    let formats = formats.filter(|format| **format != Format::Text);
    let values: Vec<_> = formats.filter_map(Format::to_possible_value).collect();
    PossibleValuesParser::new(values)
        .try_map(|name| Format::from_str(&name, false).map_err(anyhow::Error::msg))
}

/// Objects of one kind in a table.
pub(crate) trait Row {
    /// Headers of the columns, those of `-o table` first.
    const HEADERS: &'static [&'static str];
    /// Number of the columns of `-o table`; `-o wide` shows all.
    const NARROW: usize;

    /// Cells in the order of the headers.
    fn cells(&self) -> Vec<String>;

    /// Name of the object, as other commands take it.
    fn name(&self) -> String;
}

#[cfg(feature = "aws")]
impl ListOutput {
    /// Prints the objects.
    pub(crate) fn print<R: Row + Serialize>(&self, rows: &[R]) -> Result<()> {
        print(self.output, !self.no_headers, rows, &rows)
    }

    /// Whether the output is a table.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.output, Format::Table | Format::Wide)
    }
}

impl TextOutput {
    pub(crate) fn format(&self) -> Format {
        self.output
    }

    /// Returns the format without headers, for rows that continue a table.
    pub(crate) fn without_headers(&self) -> Self {
        Self {
            no_headers: true,
            ..*self
        }
    }

    /// Whether the output is a table.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.output, Format::Table | Format::Wide)
    }

    /// Prints `text` in the text format; rows as a table or as names; and `document` as JSON or YAML.
    pub(crate) fn print<R: Row>(
        &self,
        text: &str,
        rows: &[R],
        document: &impl Serialize,
    ) -> Result<()> {
        if self.output == Format::Text {
            return Ok(std::io::stdout().lock().write_all(text.as_bytes())?);
        }
        print(self.output, !self.no_headers, rows, document)
    }
}

/// Prints rows or the document, in a format other than text.
pub(crate) fn print<R: Row>(
    format: Format,
    has_headers: bool,
    rows: &[R],
    document: &impl Serialize,
) -> Result<()> {
    let text = match format {
        Format::Text | Format::Table => table(rows, R::NARROW, has_headers),
        Format::Wide => table(rows, R::HEADERS.len(), has_headers),
        Format::Json => return DocumentFormat::Json.print(document),
        Format::Yaml => return DocumentFormat::Yaml.print(document),
        Format::Name => {
            let names = rows.iter().map(|row| format!("{}\n", row.name()));
            names.collect()
        }
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// Spaces between columns.
const GAP: u16 = 3;

/// The first columns of the rows; empty without rows.
pub(crate) fn table<R: Row>(rows: &[R], columns: usize, has_headers: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    if has_headers {
        table.set_header(R::HEADERS.iter().take(columns));
    }
    for row in rows {
        table.add_row(row.cells().into_iter().take(columns));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    table.trim_fmt() + "\n"
}

/// Formats of documents for programs.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum DocumentFormat {
    Yaml,
    Json,
}

impl DocumentFormat {
    pub(crate) fn print(self, document: &impl Serialize) -> Result<()> {
        let text = match self {
            Self::Yaml => serde_saphyr::to_string(document)?,
            Self::Json => serde_json::to_string_pretty(document)? + "\n",
        };
        Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cluster(&'static str, &'static str, &'static str);

    impl Row for Cluster {
        const HEADERS: &'static [&'static str] = &["NAME", "MODE", "NETWORK"];
        const NARROW: usize = 2;

        fn cells(&self) -> Vec<String> {
            [self.0, self.1, self.2].map(str::to_owned).to_vec()
        }

        fn name(&self) -> String {
            self.0.to_owned()
        }
    }

    #[test]
    fn tables_have_kubectls_layout() {
        let rows = [
            Cluster("production", "active", "public"),
            Cluster("dev", "shadow", "vpc:vpc-1"),
        ];
        assert_eq!(
            table(&rows, Cluster::NARROW, true),
            "NAME         MODE\nproduction   active\ndev          shadow\n"
        );
        assert_eq!(
            table(&rows, 3, false),
            "production   active   public\ndev          shadow   vpc:vpc-1\n"
        );
        assert_eq!(table::<Cluster>(&[], 3, true), "");
    }
}
