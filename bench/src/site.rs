//! Sites: a folder of files, the same folder with compressed siblings for the peers, and Cannery's archive.
//!
//! They are below `target/` and have the same bytes on every machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cannery_testkit::tiles::{COUNT, Pyramid, SEED};

use crate::contents;
use crate::process;
use crate::programs::{self, PYTHON_DOCS};
use crate::project::{self, files_below};
use crate::results::Sample;
use crate::scenario::{Content, Generated, SiteSpec};

/// The number of tiles in quick runs.
const QUICK_TILES: u64 = 10_000;

/// A site that is ready to be served.
#[derive(Clone)]
pub(crate) struct Site {
    /// The files as an author writes them.
    pub(crate) sources: PathBuf,
    /// The same with `NAME.gz` and `NAME.br` next to each file, or the sources if no server needs siblings.
    pub(crate) with_siblings: PathBuf,
    pub(crate) archive: PathBuf,
    /// The requested paths.
    pub(crate) targets: Vec<String>,
}

impl Site {
    /// Creates a site. Large sites that exist already are reused.
    pub(crate) fn prepare(name: &str, spec: &SiteSpec, is_quick: bool) -> Result<Site> {
        let sources = sources(name, spec, is_quick)?;
        let targets =
            if spec.targets.is_empty() { targets(&sources, spec, is_quick)? } else { spec.targets.clone() };

        let file = if is_quick { "quick.cdb" } else { "site.cdb" };
        let archive = project::scratch(&format!("sites/{name}/{file}"))?;
        if spec.generated.is_none() || !is_newer(&archive, &programs::cannery("cannery-archiver")) {
            build(&sources, &archive, spec.compress.as_deref())?;
        }
        let with_siblings = if spec.siblings { with_siblings(name, &sources)? } else { sources.clone() };
        Ok(Site { sources, with_siblings, archive, targets })
    }

    /// Returns a site that is served from its files.
    pub(crate) fn from_files(sources: PathBuf, targets: Vec<String>) -> Site {
        Site { with_siblings: sources.clone(), archive: PathBuf::new(), sources, targets }
    }

    /// Returns the executable with Cannery's server and the archive, after creating it if one of them is newer.
    pub(crate) fn bundle(&self) -> Result<PathBuf> {
        let bundle = self.archive.with_extension("bundle");
        let server = programs::cannery("cannery-server");
        if !is_newer(&bundle, &self.archive) || !is_newer(&bundle, &server) {
            let mut command = Command::new(programs::cannery("cannery"));
            command.args(["bundle", "--quiet", "--server"]).arg(server).arg("--output").arg(&bundle);
            project::run(command.arg(&self.archive))?;
        }
        Ok(bundle)
    }

    /// Returns the content of a target.
    pub(crate) fn content(&self, target: &str) -> Result<Vec<u8>> {
        let path = self.file(target);
        fs::read(&path).with_context(|| path.display().to_string())
    }

    /// Returns the path of a target's file.
    pub(crate) fn file(&self, target: &str) -> PathBuf {
        let name = if target == "/" { "index.html" } else { target.trim_start_matches('/') };
        self.sources.join(name)
    }
}

/// Returns the folder of a site's files, after creating them.
pub(crate) fn sources(name: &str, spec: &SiteSpec, is_quick: bool) -> Result<PathBuf> {
    match spec.generated {
        Some(Generated::Documentation) => return fs::canonicalize(PYTHON_DOCS).context(PYTHON_DOCS),
        Some(Generated::Tiles) => return tiles(&pyramid(is_quick)),
        None => {}
    }

    let folder = project::empty_folder(&format!("sites/{name}/sources"))?;
    for (name, content) in &spec.files {
        fs::write(folder.join(name), bytes(content)?)?;
    }
    Ok(folder)
}

fn bytes(content: &Content) -> Result<Vec<u8>> {
    Ok(match content {
        Content::Text(text) => text.clone().into_bytes(),
        Content::Repeat(text, times) => text.repeat(*times).into_bytes(),
        Content::Copy(path) => fs::read(path).with_context(|| path.display().to_string())?,
        Content::Letters(length) => contents::letters(*length),
        Content::Words(length, seed) => contents::words(*seed, *length),
        Content::Noise(length, seed) => contents::noise(*seed, *length),
    })
}

/// Returns the map tiles, fewer in a quick run.
pub(crate) fn pyramid(is_quick: bool) -> Pyramid {
    Pyramid::new(if is_quick { QUICK_TILES } else { COUNT }, SEED)
}

/// Returns the folder of the tiles, after writing them once.
fn tiles(pyramid: &Pyramid) -> Result<PathBuf> {
    let folder = format!("tiles-{}-{SEED}", pyramid.count());
    project::filled_once(&folder, |folder| Ok(pyramid.write_to(folder).map(drop)?))
}

/// Returns the paths of all files, `/` for `index.html`.
fn targets(sources: &Path, spec: &SiteSpec, is_quick: bool) -> Result<Vec<String>> {
    if spec.generated == Some(Generated::Tiles) {
        let pyramid = pyramid(is_quick);
        return Ok((0..pyramid.count()).map(|tile| format!("/{}", pyramid.path(tile))).collect());
    }

    let is_documentation = spec.generated == Some(Generated::Documentation);
    let mut targets = Vec::new();
    for file in files_below(sources)? {
        let target = format!("/{}", file.strip_prefix(sources)?.display());
        // Browsers don't request the hidden files of the documentation, and some servers don't serve them.
        let is_hidden = target.contains("/.") || target.contains("/_") || !target.is_ascii();
        if is_documentation {
            targets.extend((!is_hidden).then_some(target));
        } else {
            targets.push(if target == "/index.html" { "/".into() } else { target });
        }
    }
    Ok(targets)
}

/// Returns `true` if a file exists and was written after another. Large archives are rebuilt only for a new archiver.
fn is_newer(file: &Path, other: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    modified(file) > modified(other)
}

/// Builds an archive. Returns the resources that the archiver used.
pub(crate) fn build(sources: &Path, archive: &Path, compress: Option<&str>) -> Result<Sample> {
    let mut archiver = Command::new(programs::cannery("cannery-archiver"));
    // Some scenarios have no page for `/`.
    archiver.arg("--sources").arg(sources).arg("--archive").arg(archive).arg("--allow-empty");
    if let Some(codings) = compress {
        archiver.args(["--compress", codings]);
    }
    process::measure_build(&mut archiver)
}

/// Compresses the texts below the current folder; publishers don't compress pictures and fonts.
const COMPRESS: &str = r#"
    texts() { find . -type f -regextype egrep -regex '.*\.(html|css|js|txt|json|svg|xml)' -print0; }
    each() { xargs --null --no-run-if-empty --max-procs "$(nproc)" --max-args 16 "$@"; }
    texts | each gzip -9 -k -n -f && texts | each brotli -q 11 -k -f"#;

/// Returns a copy of the folder with the smallest gzip and brotli siblings, after creating it once.
fn with_siblings(name: &str, sources: &Path) -> Result<PathBuf> {
    project::filled_once(&format!("sites/{name}/with-siblings"), |folder| {
        project::run(Command::new("cp").arg("-rL").arg(sources).arg(folder))?;
        project::run(Command::new("sh").args(["-c", COMPRESS]).current_dir(folder))
    })
}
