//! `cannery image`: writes a container image that contains both the server and an archive, or pushes it to a registry.
//!
//! The image has two layers. The server's is the same for all sites and releases, so a registry stores it once. The archive's isn't
//! compressed, since its contents are.

use std::borrow::Cow;
use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, program_bytes};
use cannery_base::date::format_rfc3339;
use cannery_image::{Content, Entry, Error, Executable, Image, Layer, Layout, Settings, Tree};
use cannery_store::Address;
use serde::Serialize;

use super::workplace::Workplace;
use super::{store_access, verify};
use crate::flags::tools;
use crate::format;
use crate::output::{self, Failure, Paint};

/// Where packages install a statically linked server, relative to the folder of this program.
const STATIC_SERVER: &str = "../lib/cannery/static/cannery-server";

/// Name of the server program. It may be statically linked itself.
const SERVER: &str = "cannery-server";

/// Paths of both in the image.
const SERVER_PATH: &str = "usr/local/bin/cannery-server";
const ARCHIVE_PATH: &str = "srv/site.cdb";

/// User and group of containers, and owner of the archive: the server may then lease and map it. The number is customary for images
/// without `root`.
const USER: u32 = 65532;

/// The end of the year 9999, the last one of RFC 3339.
const LAST_SECOND: u64 = 253_402_300_799;

/// The tag, if neither `--tag` nor an address names one.
const TAG: &str = "latest";

/// The longest tag of a registry, in bytes (OCI Distribution Specification, "Pulling manifests").
const TAG_BYTES_MAX: usize = 128;

/// JSON output.
#[derive(Serialize)]
struct WrittenImage {
    digest: String,
    bytes: u64,
    architectures: Vec<&'static str>,
    /// Bytes that were sent to the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    transferred: Option<u64>,
}

/// Where an image goes.
enum Destination {
    /// A folder, as an image layout.
    Folder(PathBuf),
    /// A repository in a registry.
    Registry(Address),
}

/// Runs `cannery image`.
///
/// # Errors
///
/// Returns an error if the archive is damaged, if a server isn't a statically linked program, or if the image can't be
/// written.
pub fn run(flags: &tools::Image) -> Result<(), Failure> {
    let tag = flags.tag.as_deref().unwrap_or(TAG);
    check_tag(tag)?;
    let destination = destination(flags, tag)?;
    let created = created()?;
    let servers = servers(&flags.servers)?;
    // Without this, a damaged archive would not be noticed before a container is started.
    let (archive, seen) = verify::whole(&flags.archive)?;

    let architectures: Vec<_> = servers.iter().map(|server| server.architecture).collect();
    let write = |folder: &Path| {
        write(folder, tag, &archive, servers, created.as_deref()).map_err(|error| failure(&error))
    };
    let (digest, bytes, transferred) = match &destination {
        Destination::Folder(folder) => {
            let (digest, bytes) = write(folder)?;
            (digest, bytes, None)
        }
        Destination::Registry(address) => {
            let folder = Workplace::new(tempfile::tempdir())?;
            let (digest, bytes) = write(folder.path())?;
            let report = store_access::push_image(address, flags.registry_roots.as_deref(), folder.path())?;
            (digest, bytes, Some(report.sent))
        }
    };

    if flags.json {
        return output::print_json(&WrittenImage { digest, bytes, architectures, transferred });
    }
    let name = match &destination {
        Destination::Folder(folder) => folder.display().to_string(),
        Destination::Registry(address) => address.to_string(),
    };
    let transferred =
        transferred.map(|sent| format!("; transferred {}", format::bytes(sent))).unwrap_or_default();
    output::print(format_args!(
        "{}  {} for {}: the server and {}{transferred}\n  digest {digest}\n",
        Paint::for_results().strong(&name),
        format::bytes(bytes),
        architectures.join(", "),
        format::counted(seen.paths, "path"),
    ))
}

/// Returns where the image goes. Addresses have a scheme, unlike folders.
fn destination(flags: &tools::Image, tag: &str) -> Result<Destination, Failure> {
    let text = flags.output.to_string_lossy();
    let Some((scheme, name)) = text.split_once("://") else {
        if flags.registry_roots.is_some() {
            return Err(Failure::usage("`--registry-roots` has no effect on a folder")
                .hint("`--output oci://REGISTRY/NAME` pushes to a registry"));
        }
        return Ok(Destination::Folder(flags.output.clone()));
    };
    if scheme != "oci" {
        return Err(Failure::usage(format!("`{text}` is neither a folder nor a repository in a registry"))
            .hint("write oci://REGISTRY/NAME:TAG"));
    }
    // A colon in the first component is in front of a port.
    let has_tag = name.split('/').skip(1).any(|component| component.contains(':'));
    if has_tag && flags.tag.is_some() {
        return Err(Failure::usage(format!("`{text}` has a tag, and `--tag` names another one"))
            .hint("leave one of them out"));
    }
    let address = if has_tag { text.into_owned() } else { format!("{text}:{tag}") };
    let address = store_access::parse(&address)?;
    address.map(Destination::Registry).ok_or_else(|| Failure::usage("the output is not a repository"))
}

fn write(
    folder: &Path,
    tag: &str,
    archive: &Archive,
    servers: Vec<Server>,
    created: Option<&str>,
) -> Result<(String, u64), Error> {
    let mut layout = Layout::create(folder, tag)?;

    let content = Content::File(Cow::Borrowed(archive.bytes()));
    let mut site = Tree::new();
    site.add(ARCHIVE_PATH, Entry { content, mode: 0o644, owner: USER });
    let site = layout.add_stored(&site)?;

    for server in servers {
        let mut program = Tree::new();
        program.add_bytes(SERVER_PATH, 0o755, server.bytes);
        let program = layout.add_compressed(&program)?;
        layout.add(&image(server.architecture, program, site.clone(), archive, created))?;
    }
    layout.finish()
}

fn image(
    architecture: &'static str,
    program: Layer,
    site: Layer,
    archive: &Archive,
    created: Option<&str>,
) -> Image {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let label = |name: &str, value: String| (format!("org.opencontainers.image.{name}"), value);
    let mut labels = vec![
        ("io.cannery.digest".into(), archive.facts().digest.to_string()),
        ("io.cannery.version".into(), env!("CARGO_PKG_VERSION").into()),
    ];
    labels.extend(created.map(|created| label("created", created.to_owned())));
    Image {
        architecture,
        layers: vec![program, site],
        settings: Settings {
            entrypoint: words(&[&format!("/{SERVER_PATH}"), &format!("/{ARCHIVE_PATH}")]),
            arguments: words(&["--bind", ":8080"]),
            user: format!("{USER}:{USER}"),
            ports: words(&["8080/tcp"]),
            labels,
            created: created.map(str::to_owned),
        },
    }
}

/// Checks the characters that registries accept in a tag.
fn check_tag(tag: &str) -> Result<(), Failure> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_valid = tag.len() <= TAG_BYTES_MAX
        && tag.bytes().all(is_inner)
        && tag.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    if is_valid {
        return Ok(());
    }
    Err(Failure::usage(format!("`{tag}` is not a tag")).hint(format!(
        "use up to {TAG_BYTES_MAX} letters, digits, `_`, `.` and `-`; `--output oci://REGISTRY/NAME:TAG` pushes to a registry"
    )))
}

/// Returns the date of creation, from the variable that reproducible builds use. The clock would change the image.
fn created() -> Result<Option<String>, Failure> {
    const VARIABLE: &str = "SOURCE_DATE_EPOCH";
    let Some(value) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(None) };
    let seconds =
        value.to_str().and_then(|value| value.parse().ok()).filter(|&seconds| seconds <= LAST_SECOND);
    let seconds = seconds.ok_or_else(|| {
        Failure::usage(format!("{VARIABLE}={} is not a date in seconds since 1970", value.display()))
    })?;
    Ok(Some(String::from_utf8_lossy(&format_rfc3339(seconds)).into_owned()))
}

/// A server program for one processor.
struct Server {
    architecture: &'static str,
    bytes: Vec<u8>,
}

/// Reads the servers, or the installed one.
fn servers(paths: &[PathBuf]) -> Result<Vec<Server>, Failure> {
    if paths.is_empty() {
        let own = env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
        let directory = own.parent().unwrap_or(Path::new("/"));
        let installed = directory.join(STATIC_SERVER);
        let path = if installed.is_file() { installed } else { directory.join(SERVER) };
        return Ok(vec![server(&path)?]);
    }
    let mut servers: Vec<Server> = Vec::new();
    for path in paths {
        let added = server(path)?;
        if servers.iter().any(|other| other.architecture == added.architecture) {
            let message =
                format!("{}: there is another `--server` for {}", path.display(), added.architecture);
            return Err(Failure::usage(message).hint("name one server for each processor"));
        }
        servers.push(added);
    }
    Ok(servers)
}

fn server(path: &Path) -> Result<Server, Failure> {
    const REMEDY: &str = "`--server FILE` names a statically linked cannery-server, as in the archive for \
        `x86_64-unknown-linux-musl`";
    let name = path.display();
    let unreadable = |error| Failure::input(format!("{name}: cannot read the server: {error}")).hint(REMEDY);
    // Opening a FIFO would wait for a writer.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(Failure::input(format!("{name} isn't a file with a program")).hint(REMEDY));
    }
    let file = File::open(path).map_err(unreadable)?;
    let Some(executable) = Executable::read(&file).map_err(unreadable)? else {
        let message = format!("{name} is not a program for Linux and a 64-bit processor");
        return Err(Failure::input(message).hint(REMEDY));
    };
    if executable.is_dynamic {
        let message = format!("{name} needs shared libraries, which the image doesn't have");
        return Err(Failure::input(message).hint(REMEDY));
    }
    // An executable with an archive would bring its own site.
    let program_bytes = program_bytes(&file).map_err(unreadable)?.unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(program_bytes).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(Server { architecture: executable.architecture, bytes })
}

fn failure(error: &Error) -> Failure {
    let failure = Failure::output(error.to_string());
    match error {
        Error::File { .. } => failure,
        Error::NotALayout { .. } | Error::OtherImage { .. } => {
            failure.hint("name another folder: `--output DIR`")
        }
    }
}
