//! Access control of other servers in files that were left out, can't be read, or are encoded in another way; and folders that can't
//! be read.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::run;

/// The user `nobody`, who can't read what is only for root.
const UNPRIVILEGED: u32 = 65_534;

/// A folder with a site: `index.html` and `admin/index.html`.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let site = Site { folder: tempfile::tempdir().unwrap() };
        site.write("index.html", "home");
        site.write("admin/index.html", "secret");
        site
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("site").join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn arguments(&self) -> [PathBuf; 2] {
        [self.path(""), self.folder.path().join("site.cdb")]
    }

    /// Builds the folder. Returns the exit code and standard error.
    fn build(&self, flags: &[&str]) -> (Option<i32>, String) {
        let [source, archive] = self.arguments();
        let places = ["--sources", source.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
        let output = run("cannery-archiver", &[&places[..], flags].concat());
        assert_eq!(output.status.success(), archive.exists());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Builds the folder as a user other than root. Returns `None` if that user may not run programs here.
    fn build_unprivileged(&self, flags: &[&str]) -> Option<(Option<i32>, String)> {
        if !rustix::process::getuid().is_root() {
            return Some(self.build(flags));
        }
        let program = Path::new(env!("CARGO_BIN_EXE_cannery")).with_file_name("cannery-archiver");
        let [source, archive] = self.arguments();
        fs::set_permissions(self.folder.path(), Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new(&program);
        command.arg("--sources").arg(source).arg("--archive").arg(archive).args(flags);
        let Ok(output) = command.uid(UNPRIVILEGED).gid(UNPRIVILEGED).output() else {
            println!("skipped: user {UNPRIVILEGED} may not run {}", program.display());
            return None;
        };
        Some((output.status.code(), String::from_utf8(output.stderr).unwrap()))
    }
}

#[track_caller]
fn assert_refused((code, printed): (Option<i32>, String), expected: &str) {
    assert_eq!(code, Some(3), "{expected}: {printed}");
    assert!(printed.contains(expected), "{expected} is missing:\n{printed}");
    assert!(!printed.contains("bob:pw"), "{printed}");
}

fn utf16(text: &str) -> Vec<u8> {
    format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Patterns left out the rule file, and the pages were published without a word.
#[test]
fn access_control_in_rule_files_that_are_left_out_fails_the_build() {
    let headers = "/admin/*\n  Basic-Auth: bob:pw\n";
    for (path, content, flags, expected) in [
        ("_headers", headers, &["--ignore", "_headers"][..], "_headers:2: error: `Basic-Auth`"),
        (
            "_redirects",
            "/admin/* /x 401\n",
            &["--ignore", "_redirects"],
            "_redirects:1: error: the code `401`",
        ),
        (
            "admin/_redirects",
            "./* /x 200 Role=a\n",
            &["--ignore", "_*"],
            "admin/_redirects:1: error: the cond",
        ),
        ("_redirects.txt", "/a /x 200 Role:a\n", &["--ignore", "*.txt"], "_redirects.txt:1: error: the cond"),
        (
            "_hosts/a.test/_headers",
            headers,
            &["--ignore", "_headers"],
            "a.test/_headers:2: error: `Basic-Auth`",
        ),
    ] {
        let site = Site::new();
        site.write(path, content);
        assert_refused(site.build(flags), expected);
    }

    let site = Site::new();
    site.write("_headers", headers);
    site.write(".canneryignore", "_*\n");
    assert_refused(site.build(&[]), "_headers:2: error: `Basic-Auth`");

    site.write("_headers", "/admin/*\n  X-A: 1\n");
    assert_eq!(site.build(&["--strict"]), (Some(0), String::new()));
}

/// Only files that were left out were searched, not the files in folders that were.
#[test]
fn access_control_in_folders_that_are_left_out_fails_the_build() {
    for (path, content, flags, expected) in [
        (
            "functions/_middleware.js",
            "return new Response('', {status: 401})",
            &["--ignore", "functions"][..],
            1,
        ),
        (
            "functions/a/_middleware.js",
            "return new Response('', {status: 401})",
            &["--ignore", "functions/a"],
            1,
        ),
        ("_worker.js/index.js", "\nh = {'WWW-Authenticate': 1}", &["--ignore", "_worker.js"], 2),
        ("netlify/edge-functions/a.ts", "new Response('', {status: 401})", &["--ignore", "netlify"], 1),
        ("conf.d/site.conf", "location / {\n auth_basic x;\n}", &["--ignore", "conf.d"], 2),
        ("_hosts/a.test/functions/x.js", "h = {'WWW-Authenticate': 1}", &["--ignore", "functions"], 1),
        (".vercel/output/config.json", "{\"routes\":[{\"src\":\"/admin\",\"status\":401}]}", &[], 1),
    ] {
        let site = Site::new();
        site.write("_hosts/a.test/index.html", "other");
        site.write(path, content);
        assert_refused(site.build(flags), &format!("{path}:{expected}: error: "));
    }

    let site = Site::new();
    // None of these protects a page that is published.
    site.write("functions/.htaccess", "Require all denied\n");
    site.write("functions/node_modules/x/_middleware.js", "new Response('', {status: 401})");
    site.write("functions/a.js", "export function onRequest() {}");
    site.write("config/web.config", "<deny users=\"?\"/>");
    assert_eq!(
        site.build(&["--strict", "--ignore", "functions", "--ignore", "config"]),
        (Some(0), String::new())
    );
}

/// Such a file counted as empty, or was read without end.
#[test]
fn configuration_that_is_no_readable_file_fails_the_build() {
    let site = Site::new();
    let path = site.path("admin/.htaccess");
    let expected = "admin/.htaccess: error: `admin/.htaccess` is ";
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_refused(site.build(&[]), &format!("{expected}a named pipe"));
    for (target, kind) in [("/dev/zero", "a device"), ("nowhere", "a symlink to nothing")] {
        fs::remove_file(&path).unwrap();
        symlink(target, &path).unwrap();
        assert_refused(site.build(&[]), &format!("{expected}{kind}"));
    }
    fs::remove_file(&path).unwrap();
    symlink("gone", site.path("_headers")).unwrap();
    assert_refused(site.build(&[]), "`_headers` is a symlink to nothing");
    fs::remove_file(site.path("_headers")).unwrap();

    site.write("admin/.htaccess", "# only root may read this\n");
    fs::set_permissions(&path, Permissions::from_mode(0o0)).unwrap();
    if let Some(built) = site.build_unprivileged(&[]) {
        assert_refused(built, "`admin/.htaccess` cannot be read (Permission denied");
    }
}

/// The first MiB was searched, and the rest was not mentioned.
#[test]
fn long_configuration_is_searched_to_its_end() {
    let site = Site::new();
    let long = "# a comment\n".repeat(200_000) + "Require valid-user\n";
    site.write(".htaccess", long);
    assert_refused(site.build(&[]), ".htaccess:200001: error: `Require`");
    let file = File::create(site.path(".htaccess")).unwrap();
    file.set_len(600 << 20).unwrap();
    assert_refused(site.build(&[]), "`.htaccess` has more than 16 MiB");
}

/// In UTF-16, no text was found.
#[test]
fn access_control_in_utf_16_fails_the_build() {
    for (path, content, line) in [
        ("admin/web.config", "<x>\r\n<authorization><deny users=\"?\"/></authorization>", 2),
        ("vercel.json", "{\"routes\": [{\"src\": \"/admin\", \"status\": 401}]}", 1),
        ("staticwebapp.config.json", "{\"allowedRoles\": [\"a\"]}", 1),
        ("_headers", "/admin/*\r\n  Basic-Auth: bob:pw\r\n", 2),
        ("_redirects", "/admin/* /x 401\r\n", 1),
    ] {
        let site = Site::new();
        site.write(path, utf16(content));
        assert_refused(site.build(&[]), &format!("{path}:{line}: error: "));
    }
}

/// These were warnings at most.
#[test]
fn access_control_in_odd_places_fails_the_build() {
    for (path, content) in [
        ("_headers", "/admin/* Basic-Auth: bob:pw\n"),
        ("_headers", "{\"/admin/*\": {\"Basic-Auth\": \"bob:pw\"}}\n"),
        ("_headers", "/a\n  X-A: 1\n{\n  \"/admin/*\": {\n    'Basic-Auth': 'bob:pw'\n}}\n"),
        ("_headers", "/admin/* Role=admin\n"),
        ("_redirects", "/admin/* /x 200 Role = admin\n"),
        ("_redirects", "/admin/* /x 200 Role:admin\n"),
        ("_redirects", "/admin/* /x 200 Role: admin\n"),
        ("_redirects", "/admin/* /x 200 conditions={Role=[\"admin\"]}\n"),
        ("_redirects", "/admin/* /x 200 conditions = {Role = [\"admin\"]}\n"),
        ("_redirects", "/admin/* /x 200\n  conditions = {Role = [\"admin\"]}\n"),
        ("admin/web.config", "<access sslFlags=\"Ssl, SslRequireCert\"/>"),
        ("admin/web.config", "<denyUrlSequences><add sequence=\"/admin\"/></denyUrlSequences>"),
        ("admin/web.config", "<action type=\"AbortRequest\"/>"),
    ] {
        let site = Site::new();
        site.write(path, content);
        assert_refused(site.build(&[]), "error: ");
    }

    let site = Site::new();
    site.write("_redirects", "/role /admin?role=1 302\n/roles/:role /admin/:role 301\n");
    site.write("_headers", "/admin/*\n  Link: </a.css>; rel=\"preload\"\n  X-Role: \"admin\"\n");
    assert_eq!(site.build(&["--strict"]), (Some(0), String::new()));
}

/// The folder was left out with a warning, so a site was deployed without its pages.
#[test]
fn unreadable_folder_fails_the_build() {
    for (folder, mode) in [("admin", 0), ("admin", 0o444), ("_hosts/a.test", 0)] {
        let site = Site::new();
        site.write("_hosts/a.test/index.html", "other");
        fs::set_permissions(site.path(folder), Permissions::from_mode(mode)).unwrap();
        let Some(built) = site.build_unprivileged(&[]) else { return };
        fs::set_permissions(site.path(folder), Permissions::from_mode(0o755)).unwrap();
        assert_refused(
            built,
            if mode == 0 { "` cannot be read (" } else { "`admin/index.html` cannot be examined (" },
        );
    }
}

/// Files that another host did not publish became public without a word.
#[test]
fn ignore_files_of_other_hosts_are_reported() {
    for name in [".assetsignore", ".gcloudignore", ".vercelignore"] {
        let site = Site::new();
        site.write(name, "# private\nadmin/\n");
        let (code, printed) = site.build(&[]);
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains(name) && printed.contains("`admin/index.html`"), "{printed}");
        site.write(".canneryignore", "admin/\n");
        assert_eq!(site.build(&["--strict"]), (Some(0), String::new()), "{name}");
    }
}

/// These messages had no subject, or said nothing about what to do.
#[test]
fn messages_say_what_to_do() {
    let site = Site::new();
    let [source, _] = site.arguments();
    let [source, folder] = [source.to_str().unwrap(), site.folder.path().to_str().unwrap()];
    let output = run("cannery-archiver", &["--sources", source, "--archive", folder]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains(&format!("the output {folder} is a folder; name a file")), "{printed}");

    let missing = site.folder.path().join("missing");
    let (code, printed) = site.build(&["--previous", missing.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("or build without `--previous`"), "{printed}");

    site.write("wrangler.toml", "name = \"site\"\n");
    site.write("_headers", "/a\r  X-A: 1\r");
    let (code, printed) = site.build(&[]);
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(printed.matches("wrangler.toml: warning").count(), 1, "{printed}");
    assert!(printed.contains("save the file with line ends"), "{printed}");
    site.write("_headers", utf16("/a\n  X-A: 1\n"));
    let (_, printed) = site.build(&[]);
    assert!(printed.contains("save the file as UTF-8"), "{printed}");
}

/// Only root may read this folder of a mounted file system, so builds failed.
#[test]
fn unreadable_folder_for_recovered_files_is_left_out() {
    let site = Site::new();
    site.write("lost+found/a", "a");
    fs::set_permissions(site.path("lost+found"), Permissions::from_mode(0o0)).unwrap();
    let built = site.build_unprivileged(&["--strict"]);
    fs::set_permissions(site.path("lost+found"), Permissions::from_mode(0o755)).unwrap();
    if let Some(built) = built {
        assert_eq!(built, (Some(0), String::new()));
    }
}
