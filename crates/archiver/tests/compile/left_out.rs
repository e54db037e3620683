//! Names may be left out, shortened, or published by mistake. All of this should be reported by the build.

use std::fs;

use cannery_archive::Origin;
use cannery_archiver::{LinkCheck, LinkException};

use crate::site::{Answer, Site};

fn remarks(files: &[(&str, &str)]) -> Vec<String> {
    Site::new(files).build().remarks()
}

#[test]
fn metadata_of_each_host_is_published() {
    let built = Site::new(&[
        (".well-known/security.txt", "default"),
        ("_hosts/a.test/.well-known/security.txt", "host"),
        ("_hosts/*.b.test/.well-known/security.txt", "wildcard"),
        ("_hosts/_wildcard.c.test/.well-known/security.txt", "folder"),
        ("docs/.well-known/security.txt", "no"),
    ])
    .build();
    let path = "/.well-known/security.txt";
    assert_eq!(built.page(path).text(), "default");
    for (host, text) in [("a.test", "host"), ("*.b.test", "wildcard"), ("*.c.test", "folder")] {
        assert_eq!(built.page_on(Some(host), path).text(), text, "{host}");
    }
    assert_eq!(built.answer("/docs/.well-known/security.txt"), None);
}

#[test]
fn short_name_of_a_text_file_yields() {
    let text = [("index.html", "home"), ("security.txt", "text"), ("deep/llms.txt", "text")];
    let with = |others: &[(&'static str, &'static str)]| Site::new(&[&text, others].concat()).build();
    let built = with(&[]);
    assert_eq!((built.page("/security").text(), built.page("/deep/llms").text()), ("text", "text"));

    // A folder, and the redirect to it.
    let built = with(&[("security/index.html", "page"), ("deep/llms/a.css", "")]);
    assert_eq!((built.answer("/security"), built.answer("/deep/llms")), (None, None));
    assert_eq!(built.page("/security/").text(), "page");
    // A single-page app.
    let built = with(&[("200.html", "app")]);
    assert_eq!((built.answer("/security"), built.answer("/deep/llms")), (None, None));
    let built = with(&[("_redirects", "/* /index.html 200")]);
    assert_eq!((built.answer("/security"), built.answer("/deep/llms")), (None, None));
    let built = with(&[("deep/200.html", "app")]);
    assert!(built.answer("/security").is_some() && built.answer("/deep/llms").is_none());
    // Rules.
    let built = with(&[("_redirects", "/security /a\n/deep/:x /b/:x")]);
    assert_eq!(built.answer("/security"), Some(Answer::Redirect(301, "/a".to_owned())));
    assert_eq!((built.answer("/deep/llms"), built.remarks()), (None, Vec::new()));
    // Pages keep short names, and there's a note.
    let built =
        Site::new(&[("a.html", "page"), ("a/index.html", "folder"), ("b.html", ""), ("b/c.css", "")]).build();
    let page = built.page("/a");
    assert_eq!((page.text(), page.origin), ("page", Origin::Alias));
    assert_eq!(built.remarks(), ["a.html: short-name"]);
}

#[test]
fn pages_that_are_left_out_are_warnings_with_a_remedy_that_works() {
    let files = [
        ("index.html", "home"),
        ("tags/.net/index.html", "tag"),
        ("tags/.net/deep/page.htm", "page"),
        ("tags/c#/index.html", "tag"),
        (".draft.html", "page"),
        (".hidden/a.css", ""),
        (".git/hooks/x.html", ""),
        ("._index.html", ""),
        ("docs.tmp", ""),
    ];
    let mut site = Site::new(&files);
    let built = site.build();
    let expected = [".draft.html: pages-left-out", "tags/.net: pages-left-out", "tags/c#: pages-left-out"];
    assert_eq!(built.remarks(), expected);
    let message = &built.report.diagnostics.iter().find(|found| found.file == "tags/.net").unwrap().message;
    assert!(message.contains("2 pages") && message.contains("`--ignore '!.net'`"), "{message}");

    site.options.ignore = vec!["!.net".to_owned(), "c#".to_owned(), ".draft.html".to_owned()];
    let built = site.build();
    assert_eq!(built.remarks(), [""; 0]);
    assert_eq!(built.page("/tags/.net/").text(), "tag");
}

#[test]
fn name_that_is_left_out_although_linked_is_a_warning() {
    let page = "<a href=/files/.config>1</a><a href=.data/x.csv>2</a><img src=ok.log><a href=.private>3</a>";
    let mut site = Site::new(&[
        ("index.html", page),
        ("files/.config", ""),
        (".data/x.csv", ""),
        ("ok.log", ""),
        (".private", ""),
        (".other", ""),
    ]);
    site.options.check_links = LinkCheck::Count;
    site.options.ignore = vec![".private".to_owned()];
    let warned: Vec<String> =
        site.build().remarks().into_iter().filter(|remark| remark.contains("linked")).collect();
    let expected = [".data: linked-left-out", "files/.config: linked-left-out", "ok.log: linked-left-out"];
    assert_eq!(warned, expected);
}

#[test]
fn temporary_files_of_programs_are_left_out() {
    for name in [
        "~$report.docx",
        "film.mp4.part",
        "film.mp4.crdownload",
        "a.html___jb_tmp___",
        "a.html___jb_old___",
        ".~lock.report.odt#",
        "desktop.ini",
        "4913",
        "__MACOSX/a.html",
    ] {
        let built = Site::new(&[("index.html", "home"), (name, "")]).build();
        assert_eq!((built.report.files, built.remarks()), (1, Vec::new()), "{name}");
    }
    assert_eq!(Site::new(&[("4913", "a page"), ("part", ""), ("$a", "")]).build().report.files, 3);
}

#[test]
fn code_and_configuration_for_other_hosts_are_warnings() {
    for (path, content, remark) in [
        ("_worker.js", "export default {}", "_worker.js: foreign-configuration"),
        ("_routes.json", "{}", "_routes.json: foreign-configuration"),
        ("functions/api.js", "x", "functions: foreign-configuration"),
        ("netlify/functions/a.ts", "x", "netlify/functions: foreign-configuration"),
        ("api/hello.js", "export default function () {}", "api: foreign-configuration"),
        ("wp-config.php", "<?php", "wp-config.php: foreign-configuration"),
        ("blog/index.php", "x", "blog/index.php: foreign-configuration"),
        ("web.config", "<configuration/>", "web.config: foreign-configuration"),
        ("_hosts/a.test/Caddyfile", ":80", "_hosts/a.test/Caddyfile: foreign-configuration"),
        ("nginx.conf", "http {}", "nginx.conf: foreign-configuration"),
        ("Dockerfile", "FROM x", "Dockerfile: private-file"),
        ("docker-compose.yml", "x", "docker-compose.yml: private-file"),
        ("compose.yaml", "x", "compose.yaml: private-file"),
        ("composer.json", "{}", "composer.json: private-file"),
        ("index.html.bak", "x", "index.html.bak: private-file"),
        ("a/page.html.orig", "x", "a/page.html.orig: private-file"),
        ("a.html.swp", "x", "a.html.swp: private-file"),
        (
            ".htaccess",
            "# x\nRewriteEngine on\nRedirect 301 /a /b\nErrorDocument 404 /404.html",
            ".htaccess:3: foreign-configuration",
        ),
        ("docs/.canneryignore", "x", "docs/.canneryignore: near-miss"),
    ] {
        assert_eq!(remarks(&[("index.html", "home"), (path, content)]), [remark], "{path}");
    }
}

#[test]
fn ordinary_sites_are_not_suspicious() {
    for (path, content) in [
        ("examples/Dockerfile", "FROM x"),
        ("downloads/docker-compose.yml", "x"),
        ("functions/index.html", "page"),
        ("api/index.json", "{}"),
        ("api/search.js", "document.title"),
        ("package.json", "{}"),
        ("mirror/view.php", "<!DOCTYPE html><p>saved"),
        ("configs/nginx.conf", "http {}"),
        ("worker.js", "x"),
        (".htaccess", "Options -Indexes\nRewriteEngine on"),
        ("files/data.tar.gz", "x"),
    ] {
        let mut files = vec![("index.html", "home"), (path, content)];
        if path.starts_with("functions") {
            files.push(("functions/page.js", "x"));
        }
        assert_eq!(remarks(&files), [""; 0], "{path}");
    }
}

#[test]
fn many_suspicious_files_are_summarized() {
    let names: Vec<String> = (0..40).map(|number| format!("wp/{number:02}.php")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "<?php")).collect();
    let built = Site::new(&files).build();
    assert_eq!(built.report.warnings(), 6);
    assert!(
        built
            .report
            .diagnostics
            .iter()
            .any(|found| found.message.starts_with("35 more files of server code"))
    );
}

#[test]
fn archive_in_the_folder_is_a_warning() {
    let site = Site::new(&[("index.html", "home")]);
    site.build();
    for name in ["site-41.cdb", "old-release"] {
        fs::copy(&site.options.archive, site.source(name)).unwrap();
    }
    site.write("other.cdb", "another database");
    assert_eq!(site.build().remarks(), ["old-release: private-file", "site-41.cdb: private-file"]);
}

#[test]
fn compressed_copies_are_one_note() {
    let copies = [
        ("app.js", "1"),
        ("app.js.br", "2"),
        ("app.js.gz", "3"),
        ("a.css", "4"),
        ("a.css.zst", "5"),
        ("x.tar.gz", "6"),
    ];
    let built = Site::new(&copies).build();
    assert_eq!(built.remarks(), ["a.css.zst: compressed-copy"]);
    assert!(
        built.report.diagnostics[0].message.contains("2 more"),
        "{}",
        built.report.diagnostics[0].message
    );
}

#[test]
fn cache_in_the_folder_is_one_note() {
    let mut site = Site::new(&[("index.html", &"home ".repeat(100)), ("a.css", &"a {} ".repeat(100))]);
    site.options.encoders = cannery_archiver::Encoder::ALL.into();
    site.options.compress_cache = Some(site.source("cache"));
    site.build();
    let built = site.build();
    assert_eq!(built.remarks(), ["cache: cache-skipped"]);
    assert_eq!(built.report.files, 2);
}

#[test]
fn files_that_are_hardly_meant_to_be_public_are_reported() {
    let key = "{\"private_key\": \"-----BEGIN PRIVATE KEY-----\\nMII\"}";
    for (path, content, code) in [
        ("a/serviceAccountKey.json", "{}", "private-file"),
        ("a/data.json", key, "private-file"),
        ("terraform.tfstate", "{}", "private-file"),
        ("local.settings.json", "{}", "private-file"),
        ("sftp-config.json", "{}", "private-file"),
        ("dump.sql.bz2", "x", "private-file"),
        ("a.html.bak2", "x", "private-file"),
        ("a/b.BCK", "x", "private-file"),
        ("a.conf.dpkg-old", "x", "private-file"),
        ("a.html,v", "x", "private-file"),
        ("CVS/Entries", "x", "private-file"),
        ("a - Copy.html", "x", "private-file"),
        ("a (conflicted copy 2026).html", "x", "private-file"),
        ("a.sync-conflict-2026-x.html", "x", "private-file"),
        ("a.iso.download", "x", "private-file"),
        ("a.log.1", "x", "private-file"),
        ("access.LOG.gz", "x", "private-file"),
        ("wp-config.php.1", "x", "private-file"),
        ("package.json", "{\"scripts\": {}}", "private-file"),
        ("config.inc", "x", "foreign-configuration"),
        ("a.php8", "x", "foreign-configuration"),
        ("a.pl", "x", "foreign-configuration"),
        ("a.phar", "x", "foreign-configuration"),
        ("x/_worker.js", "x", "foreign-configuration"),
        ("supabase/functions/a.ts", "x", "foreign-configuration"),
        ("api/hello.rb", "x", "foreign-configuration"),
        ("vercel.ts", "x", "foreign-configuration"),
        ("Staticfile", "x", "foreign-configuration"),
        ("httpd.conf", "x", "foreign-configuration"),
        ("_redirects.toml", "x", "near-miss"),
    ] {
        let remarks = Site::new(&[("index.html", "home"), (path, content)]).build().remarks();
        assert!(remarks.len() == 1 && remarks[0].ends_with(code), "{path}: {remarks:?}");
    }

    let handler = "export async function onRequest() {}";
    let files = [("index.html", "home"), ("functions/a.html", "a"), ("functions/b.js", handler)];
    assert_eq!(Site::new(&files).build().remarks(), ["functions: foreign-configuration"]);

    for (path, content) in [
        ("functions/a.html", "x"),
        ("a_files/main.js.download", "x"),
        ("catalog.1", "x"),
        ("a/package.json", "{}"),
        ("data.json", "{\"a\": \"BEGIN PRIVATE KEY\"}"),
    ] {
        let remarks = Site::new(&[("index.html", "home"), (path, content)]).build().remarks();
        assert_eq!(remarks, [""; 0], "{path}");
    }
}

#[test]
fn access_control_is_found_in_files_that_are_not_read() {
    for (path, content, line, subject) in [
        (".htpasswd", "bob:$apr1$x", 1, "a password file"),
        (
            "staticwebapp.config.json",
            "{\"routes\": [{\"route\": \"/a\", \"allowedRoles\": [\"admin\"]}]}",
            1,
            "`allowedRoles`",
        ),
        ("docs/_headers", "/*\n  Basic-Auth: bob:secret", 2, "`Basic-Auth`"),
        ("_header", "/*\n  Basic-Auth: bob:secret", 2, "`Basic-Auth`"),
        ("vercel.json", "{\n\"headers\": [{\"key\": \"WWW-Authenticate\"}]}", 2, "`WWW-Authenticate`"),
        ("firebase.json", "{ \"key\" : \"www-authenticate\" }", 1, "`WWW-Authenticate`"),
        ("netlify.toml", "[[redirects]]\n  status = 401", 2, "the status 401, 403 or 407"),
        ("web.config", "<x>\n<authorization><deny users=\"?\"/>", 2, "`<authorization>`"),
        (".htaccess", "RewriteRule ^secret - [F,L]", 1, "`RewriteRule`"),
        ("_hosts/a.test/netlify.toml", "\"Basic-Auth\" = \"bob:secret\"", 1, "`Basic-Auth`"),
        ("functions/_middleware.js", "x\nheaders: {'WWW-Authenticate': 1}", 2, "`WWW-Authenticate`"),
    ] {
        let site = Site::new(&[("index.html", "home"), (path, content)]);
        let Err(cannery_archiver::Error::Sources { report, .. }) = site.try_build() else {
            panic!("{path} was accepted");
        };

        let errors: Vec<_> =
            report.diagnostics.iter().filter(|found| found.code == "access-control").collect();
        let [error] = errors[..] else { panic!("{path}: {errors:?}") };
        assert_eq!((&*error.file, error.line), (path, Some(line)));
        assert!(error.message.starts_with(subject) && error.message.contains("proxy"), "{}", error.message);
        assert!(!error.message.contains("bob") && !error.message.contains("admin"), "{}", error.message);
    }

    let open = "{\"routes\": [{\"route\": \"/*\", \"allowedRoles\": [\"anonymous\", \"authenticated\"]}]}";
    for (path, content) in
        [("staticwebapp.config.json", open), ("firebase.json", "{\"key\": \"Vary\", \"value\": \"Cookie\"}")]
    {
        assert_eq!(Site::new(&[("index.html", ""), (path, content)]).build().report.errors(), 0, "{path}");
    }
}

#[test]
fn header_value_for_each_path_is_known_at_build_time() {
    let built = Site::new(&[
        ("movies/star.html", "star"),
        ("_headers", "/movies/:title\n  x-movie-name: You are watching \":title\"\n"),
    ])
    .build();
    assert_eq!(built.remarks(), [""; 0]);
    assert_eq!(built.page("/movies/star").field("X-Movie-Name"), Some("You are watching \"star\""));
    let none = Site::new(&[("a.html", ""), ("_headers", "/movies/:title\n  X-A: :title\n")]).build();
    assert_eq!(none.remarks(), ["_headers:1: header-placeholder"]);
}

#[test]
fn exceptions_and_templates_are_no_broken_links() {
    let page = "<a href=/api/x>1</a><a href=/login>2</a><a href='{{ url }}'>3</a><a href='{% url %}'>4</a>\
                <a href=/api>5</a><meta http-equiv=refresh content='0; url=/gone'>\
                <meta property=og:image content=/og.png><noscript><img src=/no.png></noscript>\
                <meta http-equiv=refresh content=5>";
    let mut site = Site::new(&[("index.html", page), ("_redirects", "/r /api/y")]);
    site.options.check_links = LinkCheck::List;
    site.options.check_links_except =
        ["/api/*", "/login"].map(|text| LinkException::parse(text).unwrap()).into();
    let found: Vec<String> = site.build().report.diagnostics.into_iter().map(|found| found.message).collect();
    let targets = ["/api", "/gone", "/og.png", "/no.png"];
    assert_eq!(found.len(), targets.len(), "{found:?}");
    for target in targets {
        assert!(found.iter().any(|message| message.contains(&format!("`{target}`"))), "{target}: {found:?}");
    }
    assert!(LinkException::parse("api/*").is_err() && LinkException::parse("/*/*").is_err());
}
