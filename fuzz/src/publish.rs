//! Arbitrary bytes as a recipe, and as what a client sends. Neither may panic, and nothing but a complete archive is published.

use std::fs::File;
use std::io;
use std::sync::Arc;

use cannery_archive::{Archive, Loading};
use cannery_publish::protocol::{Activate, Activated, Offer, Refusal, RefusalKind, Releases};
use cannery_publish::{BodyIndex, Host, Recipe, Source, rebuild, serve};

/// The sample archive of `archive_open`, whose bodies the recipes of the corpus need.
const BASE: &[u8] = include_bytes!("../corpus/archive_open/cdb");

fn base() -> Arc<Archive> {
    Arc::new(Archive::from_bytes(BASE.to_vec()).expect("the sample is an archive"))
}

/// Rebuilds an archive from arbitrary bytes as a recipe, compressed or not.
pub fn recipe(data: &[u8]) {
    let recipe = Recipe::decompress(data, None).or_else(|_| Recipe::parse(data.to_vec()));
    let Ok(recipe) = recipe else { return };
    let bodies = recipe.bodies().count();
    assert!(bodies <= recipe.bytes().len(), "each body takes at least a byte");

    let mut index = BodyIndex::default();
    index.add(base());
    let file = tempfile::tempfile().expect("there is room for temporary files");
    if let Ok((file, _)) = rebuild(&recipe, &index, &mut io::empty(), file) {
        let archive = Archive::from_file(&file, Loading::InMemory).expect("the archive is complete");
        archive.verify_digest().expect("the archive is what its facts say");
        assert_eq!(archive.facts().digest, recipe.digest());
    }
}

/// Serves a client that sends arbitrary bytes.
pub fn receive(data: &[u8]) {
    let mut host = SampleHost { base: base() };
    let mut input = data;
    let _ = serve(&mut input, &mut io::sink(), &mut host);
}

/// A host with one release, which checks what is published.
struct SampleHost {
    base: Arc<Archive>,
}

impl Host for SampleHost {
    fn releases(&mut self) -> Result<Releases, Refusal> {
        Ok(Releases { directory: "/srv".to_owned(), is_missing: false, releases: Vec::new(), trust: None })
    }

    fn open(&mut self, digest: &str) -> Result<Option<(String, Arc<Archive>)>, Refusal> {
        let is_base = self.base.facts().digest.to_string() == digest;
        Ok(is_base.then(|| ("1.cdb".to_owned(), Arc::clone(&self.base))))
    }

    fn admit(&mut self, _: &Offer) -> Result<(), Refusal> {
        Ok(())
    }

    fn sources(&mut self) -> Vec<Source> {
        vec![Source { name: "1.cdb".to_owned(), archive: Arc::clone(&self.base) }]
    }

    fn create(&mut self) -> Result<File, Refusal> {
        tempfile::tempfile().map_err(|error| Refusal::new(RefusalKind::Host, error.to_string()))
    }

    fn publish(&mut self, file: File) -> Result<String, Refusal> {
        let archive = Archive::from_file(&file, Loading::InMemory)
            .map_err(|error| Refusal::new(RefusalKind::Request, error.to_string()))?;
        archive.verify_digest().expect("only what was verified is published");
        Ok("2.cdb".to_owned())
    }

    fn activate(&mut self, _: &Activate) -> Result<Activated, Refusal> {
        Err(Refusal::new(RefusalKind::Request, "there is no such release"))
    }
}
