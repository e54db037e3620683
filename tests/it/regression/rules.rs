//! Rules of a site: what they refuse, what they join, and which answers they hold for.

use crate::site::{Response, Server, pages, run, serve, write_folder};

/// Builds a folder literal, and returns the exit code and what the archiver printed.
fn build(files: &[(&'static str, &'static str)], flags: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (source, archive) = (folder.path().join("site"), folder.path().join("site.cdb"));
    write_folder(&source, &pages(files));
    let mut arguments = vec!["--sources", source.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    arguments.extend(flags);
    let output = run("cannery-archiver", &arguments);
    assert_eq!(output.status.success(), archive.exists());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn site(files: &[(&'static str, &'static str)]) -> Server {
    serve(&pages(files), &[])
}

/// The values of a field, one for each line.
fn values<'r>(response: &'r Response, name: &str) -> Vec<&'r str> {
    let fields = response.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    fields.map(|(_, value)| value.as_str()).collect()
}

/// An empty splat behind the first slash of a target made an authority of what followed.
#[test]
fn an_empty_splat_leads_to_no_other_host() {
    let rules = "/x/:a/* /:splat/:a 302\n/t/:a/* ./:splat/:a 302\n/u/* /:splat/page 302\n/y/* /:splat/ 302\n\
                 /w* /:splat 302\n/r .//evil.example/ 302\n";
    let server = site(&[("index.html", "home"), ("_redirects", rules)]);
    for (target, location) in [
        ("/x/evil.com/", "/evil.com"),
        ("/x/evil.com/%2e", "/evil.com"),
        ("/x/evil.com/a", "/a/evil.com"),
        ("/t/evil.com/", "/evil.com"),
        ("/u/", "/page"),
        ("/y/", "/"),
        ("/w/evil.com", "/evil.com"),
        ("/w%2fevil.com", "/%2Fevil.com"),
        ("/w%5cevil.com", "/%5Cevil.com"),
        ("/r", "/evil.example/"),
    ] {
        assert_eq!(server.get(target).field("Location"), Some(location), "{target}");
    }
}

/// The password was published, and the page stayed open.
#[test]
fn access_control_ends_the_build() {
    let cases: [(&[(&'static str, &'static str)], &str); 7] = [
        (&[("_headers", "/a/*\n  Basic-Auth: user:password\n")], "_headers:2: error: `Basic-Auth`"),
        (&[("_headers", "/a/*\n  X-A: 1\n  WWW-Authenticate: Basic\n")], "_headers:3: error:"),
        (&[("_headers", "/a/*\n  auth_basic on\n")], "_headers:2: error: `auth_basic`"),
        (
            &[("_redirects", "/a/* /b/:splat 200! Role=admin\n")],
            "_redirects:1: error: the condition `Role=admin`",
        ),
        (&[("_redirects", "\n/a/* /login 401!\n")], "_redirects:2: error: the code `401!`"),
        (&[("a/.htaccess", "# closed\nAuthType Basic\n")], "a/.htaccess:2: error: `AuthType`"),
        (&[("netlify.toml", "[[headers]]\n  Basic-Auth = \"u:p\"\n")], "netlify.toml:2: error: `Basic-Auth`"),
    ];
    for (files, expected) in cases {
        let files: Vec<_> =
            files.iter().chain(&[("index.html", "home"), ("a/b.html", "b")]).copied().collect();
        let (code, said) = build(&files, &[]);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains(expected), "{expected} is missing:\n{said}");
    }
    let open = [("index.html", "home"), (".htaccess", "Require all granted\nRewriteEngine on\n")];
    assert_eq!(build(&open, &["--strict"]).0, Some(0));
}

/// Only the last line was sent, and `no-store` was lost.
#[test]
fn the_lines_of_a_list_in_one_rule_are_joined() {
    let rules = "/*\n  Cache-Control: public\n/a.txt\n  cache-control: max-age=0\n  cache-control: no-cache\n  \
                 cache-control: no-store\n  cache-control: must-revalidate\n";
    let server = site(&[("a.txt", "a"), ("b.txt", "b"), ("index.html", "home"), ("_headers", rules)]);
    let answer = server.get("/a.txt");
    assert_eq!(values(&answer, "Cache-Control"), ["max-age=0, no-cache, no-store, must-revalidate"]);
    assert_eq!(values(&server.get("/b.txt"), "Cache-Control"), ["public"]);
    let twice = "/a.txt\n  X-Frame-Options: DENY\n  X-Frame-Options: SAMEORIGIN\n";
    let (code, said) = build(&[("a.txt", "a"), ("index.html", "home"), ("_headers", twice)], &["--strict"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("_headers:3: warning:") && said.contains("[header-twice]"), "{said}");
}

/// A missing script was answered with the application's page and status 200.
#[test]
fn a_page_for_everything_does_not_answer_for_a_missing_script() {
    let files = |rule| [("index.html", "home"), ("_redirects", rule)];
    let server = site(&files("/* /index.html 200\n"));
    assert_eq!(server.get("/some/page").body, b"home");
    assert_eq!(server.get("/assets/x.js").status, 404);
    assert_eq!(site(&files("/* /index.html 200!\n")).get("/assets/x.js").status, 200);
    let (_, said) = build(&files("# dialect: netlify\n/* /index.html 200\n"), &[]);
    assert!(said.contains("_redirects:2: warning:") && said.contains("[rewrite-assets]"), "{said}");
}

/// The dots led out of the folder that is served in the clear.
#[test]
fn a_challenge_is_what_its_path_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let (source, archive) = (folder.path().join("site"), folder.path().join("site.cdb"));
    write_folder(&source, &pages(&[("index.html", "home"), (".well-known/acme-challenge/t", "proof")]));
    crate::site::compile(&source, &archive, &[]);
    let named = format!("known.example={}", archive.display());
    let mut command = vec!["--archive", named.as_str(), "--https-redirect"];
    command.extend(crate::site::OVER_TLS);
    let server = Server::start(&command);
    let ask = |host, target| server.ask_host(host, "GET", target, "");
    assert_eq!(ask("known.example", "/.well-known/acme-challenge/t").body, b"proof");
    for target in
        ["/.well-known/acme-challenge/%2e%2e/%2e%2e/index.html", "/.well-known/acme-challenge/../t", "/"]
    {
        assert_eq!(ask("known.example", target).status, 308, "{target}");
    }
    assert_eq!(ask("other.example", "/").status, 421);
}

/// Browsers have dropped what it asks for, and it opened holes in older ones.
#[test]
fn the_field_for_filters_of_scripts_is_not_sent() {
    let answer = site(&[("index.html", "home")]).get("/");
    assert_eq!((values(&answer, "X-XSS-Protection").len(), values(&answer, "X-Frame-Options").len()), (0, 1));
}
