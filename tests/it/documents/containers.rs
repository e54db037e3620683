//! Containers without an engine: a reader of Dockerfiles that does what they say in directories, and starts the command of an
//! image in one of them as its root.
//!
//! The first process of a container has its own namespaces of mounts and processes, a read-only root, and the numeric user of
//! the image. These tests need root.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{block, file};
use crate::harness::{Server, request_at, run, wait_until, write_folder};

/// The base image with glibc and libgcc, and nothing else that a program could load.
const BASE: &str = "gcr.io/distroless/cc-debian12";

/// Libraries in that image that a program may need.
const BASE_LIBRARIES: [&str; 4] = ["ld-linux", "libc.so.6", "libm.so.6", "libgcc_s.so.1"];

/// The user of all images, who isn't root.
const USER: &str = "65532:65532";

#[derive(Clone, Default)]
struct Image {
    root: PathBuf,
    user: String,
    ports: Vec<String>,
    entry_point: Vec<String>,
    command: Vec<String>,
}

/// Builds images below a directory.
struct Engine {
    place: tempfile::TempDir,
    /// Images and stages by name.
    images: BTreeMap<String, Image>,
}

impl Engine {
    fn new() -> Engine {
        // Below the programs, to link them instead of copying them.
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut engine = Engine { place, images: BTreeMap::new() };

        let base = engine.new_root();
        let program = env!("CARGO_BIN_EXE_cannery");
        let libraries = Command::new("ldd").arg(program).output().unwrap();
        let libraries = String::from_utf8(libraries.stdout).unwrap();
        for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            assert!(BASE_LIBRARIES.iter().any(|known| library.contains(known)), "{BASE} has no {library}");
            let copy = base.join(&library[1..]);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(library, copy).unwrap();
        }
        for folder in ["proc", "tmp", "srv"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        engine.images.insert(BASE.to_owned(), Image { root: base, ..Image::default() });
        engine
    }

    fn new_root(&self) -> PathBuf {
        let root = tempfile::tempdir_in(self.place.path()).unwrap().keep();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        root
    }

    /// Creates the result of a stage that compiles the programs or the site with other tools.
    fn give_stage(&mut self, name: &str) -> PathBuf {
        let root = self.new_root();
        self.images.insert(name.to_owned(), Image { root: root.clone(), ..Image::default() });
        root
    }

    /// Builds the image `cannery`.
    fn build_programs(&mut self) -> Image {
        let programs = self.give_stage("build").join("out/bin");
        fs::create_dir_all(&programs).unwrap();
        for program in [
            env!("CARGO_BIN_EXE_cannery"),
            env!("CARGO_BIN_EXE_cannery-archiver"),
            env!("CARGO_BIN_EXE_cannery-server"),
        ] {
            copy(Path::new(program), &programs.join(Path::new(program).file_name().unwrap()));
        }
        let image = self.build(&file("contrib/containers/Dockerfile"), Path::new("/nonexistent"));
        self.images.insert("cannery".to_owned(), image.clone());
        image
    }

    /// Builds the image of a site by the page's Dockerfile.
    fn build_site(&mut self) -> Image {
        self.build_programs();
        let output = self.give_stage("site").join("work/dist");
        write_folder(&output, &[(b"index.html", b"<p>in a container")]);
        self.build(&block("docs/containers.md", "npm ci"), Path::new("/nonexistent"))
    }

    /// Does what a Dockerfile says. Stages that were given aren't built.
    fn build(&mut self, dockerfile: &str, context: &Path) -> Image {
        let mut image = Image::default();
        let mut name = None;
        let mut is_given = false;
        let lines = dockerfile.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));

        for line in lines {
            let (instruction, rest) = line.split_once(' ').unwrap();
            let words: Vec<_> = rest.split_whitespace().collect();
            if instruction == "FROM" {
                self.images.extend(name.take().filter(|_| !is_given).map(|name| (name, image.clone())));
                name = words.get(2).map(|name| (*name).to_owned());
                is_given = name.as_ref().is_some_and(|name| self.images.contains_key(name));
                if !is_given {
                    image =
                        self.images.get(words[0]).unwrap_or_else(|| panic!("unknown image {rest}")).clone();
                    let root = self.new_root();
                    copy(&image.root, &root);
                    image.root = root;
                }
                continue;
            }
            if is_given {
                continue;
            }

            match instruction {
                "COPY" => self.copy_into(&image, context, &words),
                "RUN" => {
                    let output = start(&image, &strings(rest), "rw").output().unwrap();
                    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
                }
                "USER" => rest.clone_into(&mut image.user),
                "EXPOSE" => image.ports.extend(words.iter().map(|&port| port.to_owned())),
                "ENTRYPOINT" => (image.entry_point, image.command) = (strings(rest), Vec::new()),
                "CMD" => image.command = strings(rest),
                other => panic!("unknown instruction {other}"),
            }
        }
        image
    }

    fn copy_into(&self, image: &Image, context: &Path, words: &[&str]) {
        let (flags, paths): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
        let (target, sources) = paths.split_last().unwrap();
        let flag = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name));
        let origin = flag("--from=").map_or(context, |name| &self.images[name].root);

        for source in sources {
            let from = origin.join(source.trim_start_matches('/'));
            let mut to = image.root.join(&target[1..]);
            if target.ends_with('/') && from.is_file() {
                to = to.join(from.file_name().unwrap());
            }
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            copy(&from, &to);
            if let Some(owner) = flag("--chown=") {
                // Not through the link to another image's file.
                fs::remove_file(&to).unwrap();
                fs::copy(&from, &to).unwrap();
                let status = Command::new("chown").arg(owner).arg(&to).status().unwrap();
                assert!(status.success(), "chown {owner}");
            }
        }
    }
}

/// Copies a file or the content of a folder. Files become hard links.
fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        if fs::hard_link(from, to).is_err() {
            fs::copy(from, to).unwrap();
        }
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Parses the exec form: `["program", "argument"]`.
fn strings(list: &str) -> Vec<String> {
    assert!(list.starts_with("[\"") && list.ends_with("\"]"), "{list}: a shell would be needed");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the command that starts a program as the first process in an image, whose root is `ro` or `rw`.
fn start(image: &Image, arguments: &[String], access: &str) -> Command {
    let script = r#"mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount -o "remount,bind,$1" "$0" &&
        user=$2 && shift 2 && exec chroot --userspec="$user" "$0" "$@""#;
    let user = if image.user == "0" { "0:0" } else { &image.user };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]);
    command.arg(&image.root).args([access, user]).args(arguments);
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// Starts an image with these arguments in place of its command, if there are any.
fn start_image(image: &Image, arguments: &[String]) -> Server {
    assert_eq!(image.user, USER);
    assert_eq!(image.ports, ["8080"]);
    let command = if arguments.is_empty() { &image.command } else { arguments };
    let all = [&image.entry_point[..], command].concat();
    Server::run(start(image, &all, "ro"))
}

/// Returns the process ID, outside, of the first process of a container.
fn first_process(server: &Server) -> String {
    let pid = server.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().to_owned()
}

/// Stops a container like an engine: by SIGTERM for its first process, which must exit with code 0.
fn stop(mut server: Server) {
    let status = Command::new("kill").args(["-TERM", &first_process(&server)]).status().unwrap();
    assert!(status.success());
    assert_eq!(server.await_end(), Some(0));
}

/// Runs `check` in a network of its own, in which all ports are free. Skips the test, and prints a note, without root.
fn on_a_host_of_its_own(test: &str, check: impl FnOnce()) {
    const INSIDE: &str = "CANNERY_CONTAINER_HOST";
    if std::env::var_os(INSIDE).is_some() {
        return check();
    }

    let mut trial = Command::new("unshare");
    trial.args(["--net", "--mount", "--pid", "--fork", "chroot", "--userspec", USER, "/", "true"]);
    if !trial.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: this test needs root, to create namespaces and to switch users");
        return;
    }

    let mut again = Command::new("unshare");
    again.args(["--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
    again.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    let output = again.env(INSIDE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{errors}");
}

#[test]
fn site_image_serves_as_a_numeric_user() {
    on_a_host_of_its_own("documents::containers::site_image_serves_as_a_numeric_user", || {
        let mut engine = Engine::new();
        let image = engine.build_site();
        let server = start_image(&image, &[]);
        let response = request_at("127.0.0.1:8080", "GET", "/", "");
        assert_eq!((response.status, &response.body[..]), (200, &b"<p>in a container"[..]));
        assert_eq!(request_at("127.0.0.1:8080", "GET", "/__/heartbeat", "").status, 200);

        let status = fs::read_to_string(format!("/proc/{}/status", first_process(&server))).unwrap();
        assert!(status.contains("Uid:\t65532\t65532\t65532\t65532"), "{status}");
        stop(server);

        // The next image carries files of this one.
        let next = block("docs/containers.md", "--previous");
        engine.images.insert("registry.example/site:41".to_owned(), image);
        engine.images.remove("archive");
        let image = engine.build(&next, Path::new("/nonexistent"));
        assert!(image.root.join("previous.cdb").is_file() && image.root.join("srv/site.cdb").is_file());
    });
}

#[test]
fn site_image_serves_https_with_mounted_certificates() {
    on_a_host_of_its_own("documents::containers::site_image_serves_https_with_mounted_certificates", || {
        let mut engine = Engine::new();
        let image = engine.build_site();
        let certificates = image.root.join("tls");
        fs::create_dir(&certificates).unwrap();
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
        openssl.args(["-keyout", "key.pem", "-out", "cert.pem"]).current_dir(&certificates);
        assert!(openssl.stderr(Stdio::null()).status().unwrap().success());
        assert!(Command::new("chown").args(["-R", USER]).arg(&certificates).status().unwrap().success());

        let command = block("docs/containers.md", "--http3-alt-svc").replace("\\\n", "");
        let (_, arguments) = command.split_once(" site ").unwrap();
        let server =
            start_image(&image, &arguments.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let response = request_at("127.0.0.1:8080", "GET", "/", "Host: example.com\r\n");
        assert_eq!(response.field("Location"), Some("https://example.com/"));
        let curl = Command::new("curl").args(["-sSik", "https://127.0.0.1:8443/"]).output().unwrap();
        let printed = String::from_utf8_lossy(&curl.stdout).to_lowercase();
        assert!(printed.contains(" 200") && printed.contains("alt-svc: h3=\":443\""), "{printed}");
        stop(server);
    });
}

#[test]
fn image_of_one_executable_serves_its_site() {
    on_a_host_of_its_own("documents::containers::image_of_one_executable_serves_its_site", || {
        let engine = &mut Engine::new();
        let context = engine.new_root();
        write_folder(&context, &[(b"public/index.html", b"<p>in one file")]);
        let commands = block("docs/containers.md", "cannery bundle");
        let (made, built) = commands.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(built, "docker build --tag site .");
        let path =
            format!("{}:/usr/bin:/bin", Path::new(env!("CARGO_BIN_EXE_cannery")).parent().unwrap().display());
        let mut shell = Command::new("sh");
        let output = shell.args(["-ec", made]).current_dir(&context).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let image = engine.build(&block("docs/containers.md", "COPY app"), &context);
        let server = start_image(&image, &[]);
        assert_eq!(request_at("127.0.0.1:8080", "GET", "/", "").body, b"<p>in one file");
        stop(server);
    });
}

#[test]
fn image_of_the_programs_follows_a_mounted_folder() {
    on_a_host_of_its_own("documents::containers::image_of_the_programs_follows_a_mounted_folder", || {
        let mut engine = Engine::new();
        let image = engine.build_programs();
        write_folder(&image.root, &[(b"site/index.html", b"<p>one")]);
        let server = start_image(&image, &[]);
        let content = || request_at("127.0.0.1:8080", "GET", "/", "").body;
        assert_eq!(content(), b"<p>one");
        fs::write(image.root.join("site/index.html"), "<p>two").unwrap();
        wait_until("the changed page", || content() == b"<p>two");
        stop(server);
    });
}

#[test]
fn deployment_has_flags_and_probes_that_work() {
    on_a_host_of_its_own("documents::containers::deployment_has_flags_and_probes_that_work", || {
        let text = file("contrib/kubernetes/deployment.yaml");
        let arguments: Vec<String> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- --"))
            .map(|flag| format!("--{flag}"))
            .collect();
        assert!(arguments.len() > 5, "{arguments:?}");
        let number = |words: &str| -> u32 {
            let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no {words:?}"));
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap();
            rest[..digits].parse().unwrap()
        };
        assert!(
            number("sleep: { seconds: ") + number("--drain=") < number("terminationGracePeriodSeconds: ")
        );
        assert!(number("--limit-memory=") < number("limits: { memory: "));

        let mut engine = Engine::new();
        let server = start_image(&engine.build_site(), &arguments);
        let probes: Vec<_> =
            text.lines().filter_map(|line| line.trim().strip_prefix("httpGet: { path: ")).collect();
        assert_eq!(probes.len(), 3);
        for probe in probes {
            let (path, port) = probe.trim_end_matches(" }").split_once(", port: ").unwrap();
            let address = format!("127.0.0.1:{}", number(&format!("name: {port}, containerPort: ")));
            // The kubelet sends the address of the pod.
            let response = request_at(&address, "GET", path, "Host: 10.1.2.3:8080\r\n");
            assert_eq!(response.status, 200, "{probe}");
        }
        stop(server);
    });
}

/// Returns the command lines of the containers in a manifest.
fn command_lines(manifest: &str) -> Vec<Vec<String>> {
    let blocks = manifest.split("args:\n").skip(1);
    let words = |block: &str| {
        block.lines().map_while(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect::<Vec<_>>()
    };
    blocks.map(words).collect()
}

/// Pods can't be started here, but each program refuses flags that it doesn't know, even if help is asked for.
#[test]
fn containers_that_follow_a_store_have_flags_that_exist() {
    let lines = command_lines(&file("contrib/kubernetes/follow.yaml"));
    let programs: Vec<_> = lines.iter().map(|line| Path::new(&line[0]).file_name().unwrap()).collect();
    assert_eq!(programs, ["cannery", "cannery", "cannery-server"]);
    for line in &lines {
        let program = Path::new(&line[0]).file_name().unwrap().to_str().unwrap();
        let help = |flags: &[&str]| {
            let words: Vec<_> = line[1..].iter().map(String::as_str).collect();
            run(program, &[&words[..], flags, &["--help"]].concat())
        };
        let output = help(&[]);
        assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(help(&["--renamed=1"]).status.code(), Some(2), "{line:?}");
    }
}
