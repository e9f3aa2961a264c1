//! MIME archives (`multipart/mixed`) as cloud-init reads them: parts with a content type, `\n` line endings.

use super::UserDataError;

pub const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";
pub const NODE_CONFIG: &str = "application/node.eks.aws";
const BOUNDARY: &str = "//";

/// One part of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Header lines, including the content type.
    pub headers: Vec<(String, String)>,
    pub content: String,
}

impl Part {
    pub fn new(content_type: &str, content: impl Into<String>) -> Self {
        Self {
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            content: content.into().replace("\r\n", "\n"),
        }
    }

    pub fn content_type(&self) -> Option<&str> {
        header(&self.headers, "content-type")
    }
}

/// Whether user data declares itself an archive.
pub fn is_archive(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

/// The parts as one archive, with a boundary that none of them holds.
pub fn write(parts: &[Part]) -> String {
    let boundary = boundary_between(parts);
    let mut archive =
        format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n");
    for part in parts {
        archive.push_str(&format!("--{boundary}\n"));
        for (name, value) in &part.headers {
            archive.push_str(&format!("{name}: {value}\n"));
        }
        archive.push_str(&format!("\n{}\n", part.content));
    }
    archive.push_str(&format!("--{boundary}--\n"));
    archive
}

/// A boundary: text that no line of a part begins with, since such a line would end its part.
fn boundary_between(parts: &[Part]) -> String {
    let lines = || parts.iter().flat_map(|part| part.content.lines());
    let numbered = (1_u64..).map(|number| format!("{BOUNDARY}{number}"));
    let mut candidates = std::iter::once(BOUNDARY.to_owned()).chain(numbered);
    let is_free = |candidate: &String| {
        let marker = format!("--{candidate}");
        !lines().any(|line| line.starts_with(&marker))
    };
    candidates.find(is_free).unwrap_or_default()
}

/// Parses an archive into its parts; the error names the problem.
pub fn parse(text: &str) -> Result<Vec<Part>, UserDataError> {
    let text = text.trim_start().replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let headers = headers(head)?;
    let content_type =
        header(&headers, "content-type").ok_or_else(|| wrong("it has no Content-Type header"))?;
    let boundary =
        boundary(content_type).ok_or_else(|| wrong("its Content-Type names no boundary"))?;
    let (open, close) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    for line in body.split('\n') {
        let marker = line.trim_end();
        if marker == open || marker == close {
            if let Some(lines) = current.take() {
                parts.push(part(&lines.join("\n"))?);
            }
            if marker == close {
                return Ok(parts);
            }
            current = Some(Vec::new());
        } else if let Some(lines) = &mut current {
            lines.push(line);
        }
    }
    Err(wrong(&format!("the closing boundary {close} is missing")))
}

fn part(text: &str) -> Result<Part, UserDataError> {
    let (head, content) = match text.strip_prefix('\n') {
        Some(content) => ("", content),
        None => text.split_once("\n\n").unwrap_or((text, "")),
    };
    Ok(Part {
        headers: headers(head)?,
        content: content.to_owned(),
    })
}

/// Header lines, with continuation lines joined.
fn headers(head: &str) -> Result<Vec<(String, String)>, UserDataError> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in head.lines() {
        if line.starts_with([' ', '\t'])
            && let Some((_, value)) = headers.last_mut()
        {
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| wrong(&format!("\"{line}\" is not a header")))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(headers)
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

fn boundary(content_type: &str) -> Option<&str> {
    let parameter = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("boundary")
            .then_some(value.trim())
    })?;
    let boundary = parameter.trim_matches('"');
    (!boundary.is_empty()).then_some(boundary)
}

fn wrong(problem: &str) -> UserDataError {
    UserDataError::Mime(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_may_contain_a_line_like_a_boundary() {
        let script = "#!/bin/bash\ncat <<END\n--//\n--//1--\nEND";
        let parts = [
            Part::new(SHELL_SCRIPT, script),
            Part::new(NODE_CONFIG, "kind: NodeConfig"),
        ];
        let archive = write(&parts);
        assert!(archive.contains("boundary=\"//2\""), "{archive}");
        let read: Vec<String> = parse(&archive)
            .unwrap()
            .into_iter()
            .map(|part| part.content)
            .collect();
        assert_eq!(read, [script, "kind: NodeConfig"]);
    }
}
