//! One version of a view as stored in the bucket: lines of JSON in a zstd frame with a checksum. The first line is the header.

use std::io::{self, Read, Write};

use model::{ClusterName, PodKey, SharedShape};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::shape::Own;

/// Version of the format. Readers accept this one alone: other objects are not read, and the pods are listed.
pub const FORMAT: u32 = 2;
/// Upper bound on bytes of a stored full state: 50,000 pods are some 3 MiB, and Kubernetes supports three times as many.
pub const FULL_BYTES_MAX: usize = 32 << 20;
/// Upper bound on bytes of a version with changes: for more changes, listing is as fast.
pub const CHANGES_BYTES_MAX: usize = 2 << 20;
/// Upper bound on bytes after decompression: 50,000 pods are 15 MB.
const DOCUMENT_MAX: u64 = 64 << 20;
/// Upper bound on lines of one version, because even short lines take memory after decoding: 150,000 pods, and at most as
/// many shapes.
const LINES_MAX: usize = 300_000;
/// zstd's fastest level: it halves the time for a tenth more bytes.
const ZSTD_LEVEL: i32 = 1;

/// Header of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    pub cluster: ClusterName,
    pub epoch: String,
    pub version: u64,
    /// The version before this one; `None` for a full state.
    pub base: Option<Base>,
    /// Number of pods after this version.
    pub pods: usize,
    /// Number of lines that follow, by which a truncated object is noticed.
    pub lines: usize,
}

/// The version that another one continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub version: u64,
    pub digest: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A shape that is new with this version: a view numbers its shapes in the order of their appearance, from its full state
    /// on.
    Shape(SharedShape),
    /// A new or changed pod, with the number of its shape.
    Pod(PodKey, u32, Own),
    /// A deleted pod.
    Gone(PodKey),
}

/// [`Line`] as it is written, by reference.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LineRef<'a> {
    Shape(&'a SharedShape),
    Pod(&'a PodKey, u32, &'a Own),
    Gone(&'a PodKey),
}

/// Reason why an object is no version of a view.
#[derive(Debug, Error)]
pub enum DocumentError {
    #[error("it cannot be decompressed: {0}")]
    Compression(#[from] io::Error),
    #[error("line {line} cannot be read: {source}")]
    Line {
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("it is larger than {} MiB", DOCUMENT_MAX >> 20)]
    TooLarge,
    #[error("it has {found} lines: expected {promised}")]
    Cut { found: usize, promised: usize },
    #[error("its format is {0}: expected {FORMAT}")]
    Format(u32),
}

pub(crate) fn write<'a>(
    header: &Header,
    lines: impl Iterator<Item = LineRef<'a>>,
) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    put(&mut encoder, header)?;
    for line in lines {
        put(&mut encoder, &line)?;
    }
    encoder.finish()
}

fn put(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// Reads a version: its header and its lines.
pub fn read(object: &[u8]) -> Result<(Header, Vec<Line>), DocumentError> {
    let mut text = String::new();
    let decoder = zstd::Decoder::new(object)?;
    let read = decoder.take(DOCUMENT_MAX).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read >= DOCUMENT_MAX) {
        return Err(DocumentError::TooLarge);
    }
    let at = |line: usize| move |source| DocumentError::Line { line, source };
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap_or_default()).map_err(at(1))?;
    if header.format != FORMAT {
        return Err(DocumentError::Format(header.format));
    }
    // One line more than promised is enough to detect a wrong header.
    let most = header.lines.min(LINES_MAX);
    let lines = lines.take(most.saturating_add(1)).enumerate();
    let lines = lines.map(|(index, line)| serde_json::from_str(line).map_err(at(index + 2)));
    let lines: Vec<Line> = lines.collect::<Result<_, _>>()?;
    match lines.len() == header.lines {
        true => Ok((header, lines)),
        false => Err(DocumentError::Cut {
            found: lines.len(),
            promised: header.lines,
        }),
    }
}

/// Digest that identifies an object's content.
pub fn digest(object: &[u8]) -> String {
    let digest = Sha256::digest(object);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
