//! An image of the server, without a system around it: one layer for each processor, written as an image layout.
//!
//! It also has the archiver, because the server needs it for folders, and a stage of a build for archives. Both are one file.
//! `cannery` would double the size, and people run it elsewhere.

use cannery_image::{Content, Entry, Executable, Image, Layout, Settings, Tree};

use crate::dist::archive;
use crate::dist::programs::{COMBINED, Programs};
use crate::dist::{Release, files, read};
use crate::error::Error;
use crate::project;

/// The names of the program.
const ARCHIVER: &str = "usr/local/bin/cannery-archiver";
const SERVER: &str = "usr/local/bin/cannery-server";

/// The user of containers, without a name: the image has no `/etc/passwd`.
const USER: &str = "65532:65532";

/// Writes the image as a layout, and the layout as one file.
pub(super) fn write<'a>(
    release: &Release,
    programs: impl Iterator<Item = &'a Programs>,
) -> Result<(), Error> {
    let directory = release.result("-image");
    let failed = |error: cannery_image::Error| Error::file(&directory, std::io::Error::other(error));
    let mut layout = Layout::create(&directory, &release.version).map_err(failed)?;
    for programs in programs {
        let program = programs.program(COMBINED);
        let file = std::fs::File::open(&program).map_err(|source| Error::file(&program, source))?;
        let executable = Executable::read(&file).map_err(|source| Error::file(&program, source))?;
        let executable = executable.filter(|executable| !executable.is_dynamic);
        let executable = executable.ok_or_else(|| Error::Unexpected {
            what: program.display().to_string(),
            expected: "a statically linked program".into(),
            got: "a program that needs a dynamic linker, or none at all".into(),
        })?;

        let mut files = Tree::new();
        files.add_bytes(ARCHIVER, 0o755, read(&program)?);
        // The archiver restarts its own process by the path that Linux reports. With a symbolic link, this would be the server's.
        files.add(SERVER, Entry { content: Content::HardLink(ARCHIVER.into()), mode: 0o755, owner: 0 });
        let layers = vec![layout.add_compressed(&files).map_err(failed)?];
        let image = Image { architecture: executable.architecture, layers, settings: settings(release)? };
        layout.add(&image).map_err(failed)?;
    }
    let (digest, bytes) = layout.finish().map_err(failed)?;
    println!("image: {bytes} bytes, {digest}");

    // The layout is at the root of the file, as in an archive of skopeo.
    let mut packed = Tree::new();
    for path in files(&directory)? {
        let name = path.strip_prefix(&directory).unwrap_or(&path).display().to_string();
        packed.add_bytes(name, 0o644, read(&path)?);
    }
    archive::pack(release, &packed, &format!("cannery-{}-image", release.version))
}

/// As in `contrib/containers/Dockerfile`.
fn settings(release: &Release) -> Result<Settings, Error> {
    let date = |format: &str| {
        let mut date = std::process::Command::new("date");
        project::output(date.args(["--utc", format, "--date"]).arg(format!("@{}", release.time)))
    };
    let created = date("+%Y-%m-%dT%H:%M:%SZ")?.trim().to_owned();
    let label = |name: &str, value: &str| (format!("org.opencontainers.image.{name}"), value.to_owned());
    let arguments = ["/usr/local/bin/cannery-server", "--folder", "/site", "--bind", ":8080"];
    Ok(Settings {
        entrypoint: Vec::new(),
        arguments: arguments.map(str::to_owned).to_vec(),
        user: USER.into(),
        ports: vec!["8080/tcp".into()],
        labels: vec![
            label("title", "cannery"),
            label("version", &release.version),
            label("revision", &release.commit),
            label("source", "https://github.com/cannery/cannery"),
            label("licenses", "MIT OR Apache-2.0"),
            label("created", &created),
        ],
        created: Some(created),
    })
}
