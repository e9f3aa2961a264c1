//! Instance types from files, plain or gzipped.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use model::InstanceType;

/// On-demand and spot prices, capacity and labels of every instance type of us-east-1, from public sources.
const US_EAST_1: &[u8] = include_bytes!("../data/us-east-1.json.gz");

/// The bundled instance types.
pub(crate) fn us_east_1() -> Result<Vec<InstanceType>> {
    Ok(api::convert::catalog_file::read(&unpacked(US_EAST_1)?)?)
}

/// Catalogs by name, each read once.
pub(crate) struct Catalogs {
    folders: Vec<PathBuf>,
    known: BTreeMap<String, Arc<Vec<InstanceType>>>,
}

impl Catalogs {
    /// Reads `catalogs/<name>.json.gz` from the first of these folders that has it.
    pub(crate) fn new(folders: Vec<PathBuf>) -> Self {
        Self {
            folders,
            known: BTreeMap::new(),
        }
    }

    pub(crate) fn named(&mut self, name: &str) -> Result<Arc<Vec<InstanceType>>> {
        if let Some(known) = self.known.get(name) {
            return Ok(Arc::clone(known));
        }
        let file = format!("catalogs/{name}.json.gz");
        let mut places = self.folders.iter().map(|folder| folder.join(&file));
        let Some(path) = places.find(|path| path.exists()) else {
            bail!("catalog {name}: there is no {file} beside the cases or in --data");
        };
        let types = Arc::new(read(&path)?);
        self.known.insert(name.to_owned(), Arc::clone(&types));
        Ok(types)
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<InstanceType>> {
    let bytes = bytes(path)?;
    api::convert::catalog_file::read(&bytes).with_context(|| path.display().to_string())
}

/// Opens a file, and decompresses it on the fly if it is gzipped.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let mut file = File::open(path)
        .map(BufReader::new)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let is_packed = file.fill_buf()?.starts_with(&GZIP);
    Ok(if is_packed {
        Box::new(BufReader::new(GzDecoder::new(file)))
    } else {
        Box::new(file)
    })
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

fn unpacked(packed: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes)?;
    Ok(bytes)
}
