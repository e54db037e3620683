//! Unit tests of image layouts.

use super::*;
use crate::image::Settings;

fn tree(content: &str) -> Tree<'static> {
    let mut tree = Tree::new();
    tree.add_bytes("usr/local/bin/program", 0o755, content);
    tree
}

fn write(
    directory: &Path,
    tag: &str,
    architectures: &[&'static str],
    content: &str,
) -> Result<String, Error> {
    let mut layout = Layout::create(directory, tag)?;
    let layers = vec![layout.add_compressed(&tree("program"))?, layout.add_stored(&tree(content))?];
    for architecture in architectures {
        let settings = Settings { user: "65532:65532".into(), ..Settings::default() };
        layout.add(&Image { architecture, layers: layers.clone(), settings })?;
    }
    Ok(layout.finish()?.0)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("the file exists")).expect("it is JSON")
}

/// Returns the blob of a descriptor, after a check of its length and digest.
fn blob(directory: &Path, descriptor: &Value) -> Vec<u8> {
    let name = descriptor["digest"].as_str().expect("it has a digest").replace(':', "/");
    let bytes = fs::read(directory.join("blobs").join(name)).expect("the blob exists");
    assert_eq!(format!("sha256:{}", Digest::of(&bytes)), descriptor["digest"]);
    assert_eq!(bytes.len() as u64, descriptor["size"]);
    bytes
}

fn json_blob(directory: &Path, descriptor: &Value) -> Value {
    serde_json::from_slice(&blob(directory, descriptor)).expect("it is JSON")
}

#[test]
fn tag_leads_to_every_blob() {
    let folder = tempfile::tempdir().expect("a directory");
    let digest = write(folder.path(), "latest", &["amd64"], "site").expect("it is written");

    assert_eq!(json(&folder.path().join(MARK))["imageLayoutVersion"], "1.0.0");
    let named = &json(&folder.path().join(INDEX))["manifests"][0];
    assert_eq!((&named["digest"], &named["annotations"][TAG]), (&json!(digest), &json!("latest")));
    let manifest = json_blob(folder.path(), named);
    let configuration = json_blob(folder.path(), &manifest["config"]);
    assert_eq!(configuration["architecture"], "amd64");
    assert_eq!(configuration["config"]["User"], "65532:65532");

    let stored = blob(folder.path(), &manifest["layers"][1]);
    let identifiers = configuration["rootfs"]["diff_ids"].as_array().expect("a list");
    assert_eq!(identifiers[1], format!("sha256:{}", Digest::of(&stored)));
    blob(folder.path(), &manifest["layers"][0]);
    let uncompressed = tree("program").to_tar(TIME).expect("memory has no errors");
    assert_eq!(identifiers[0], format!("sha256:{}", Digest::of(&uncompressed)));
}

#[test]
fn several_processors_have_an_index() {
    let folder = tempfile::tempdir().expect("a directory");
    write(folder.path(), "latest", &["amd64", "arm64"], "site").expect("it is written");
    let named = &json(&folder.path().join(INDEX))["manifests"][0];
    assert_eq!(named["mediaType"], INDEX_TYPE);
    let images = json_blob(folder.path(), named);
    for (index, architecture) in ["amd64", "arm64"].into_iter().enumerate() {
        let image = &images["manifests"][index];
        assert_eq!(image["platform"], json!({ "architecture": architecture, "os": "linux" }));
        json_blob(folder.path(), image);
    }
}

#[test]
fn same_contents_have_the_same_digest() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let digests =
        folders.each_ref().map(|folder| write(folder.path(), "a", &["amd64"], "site").expect("written"));
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn replaced_image_leaves_no_blobs() {
    let folder = tempfile::tempdir().expect("a directory");
    write(folder.path(), "latest", &["amd64", "arm64"], "old").expect("it is written");
    write(folder.path(), "latest", &["amd64"], "new").expect("it is written");
    let blobs = fs::read_dir(folder.path().join("blobs/sha256")).expect("a directory");
    assert_eq!(blobs.count(), 4, "manifest, configuration and two layers");
}

#[test]
fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("letter"), "dear").expect("it is written");
    let error = write(folder.path(), "latest", &["amd64"], "site").expect_err("it has a letter");
    assert!(matches!(error, Error::NotALayout { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).expect("a directory").count(), 1);
}

#[test]
fn image_with_another_tag_is_left_alone() {
    let folder = tempfile::tempdir().expect("a directory");
    write(folder.path(), "41", &["amd64"], "site").expect("it is written");
    let error = write(folder.path(), "42", &["amd64"], "site").expect_err("41 is there");
    assert!(matches!(&error, Error::OtherImage { tag, .. } if tag == "41"), "{error}");
}
