//! Unit tests for the search for access control.

use super::*;
use crate::sources::source::tests::sources;
use crate::tree::skip::SkipReason;
use crate::tree::walk::{Skipped, SourceFile};

/// Searches this file, and returns the line and the subject found.
fn found(path: &str, text: &str) -> Option<Found> {
    (kind_of_file(path.as_bytes(), false)?.search)(text)
}

/// Returns the files of a folder with access control, and how severe it is.
fn reported(files: &[(&str, &str)], skipped: &[(&str, bool)]) -> Vec<(String, Severity)> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut found = sources(&root, files[0].0);
    let is_skipped = |path: &str| {
        skipped.iter().any(|(name, is_folder)| path == *name || *is_folder && path.starts_with(name))
    };
    let stamp = found.files[0].stamp;
    found.files = files
        .iter()
        .filter(|(path, _)| !is_skipped(path))
        .map(|(path, _)| SourceFile { path: path.as_bytes().into(), stamp })
        .collect();
    found.skipped = skipped
        .iter()
        .map(|(path, is_folder)| Skipped {
            path: path.as_bytes().into(),
            is_folder: *is_folder,
            reason: SkipReason::Hidden,
        })
        .collect();
    find(&found).into_iter().map(|diagnostic| (diagnostic.file, diagnostic.severity)).collect()
}

#[test]
fn access_control_of_each_host_is_found() {
    for (path, text, line, subject) in [
        // Hosts.
        (
            "staticwebapp.config.json",
            "{\"routes\":[{\"allowedRoles\":[\"anonymous\"]},{\"allowedRoles\":[\"a\"]}]}",
            1,
            "`allowedRoles`",
        ),
        ("sub/staticwebapp.config.json", "{\n\"allowedRoles\"\n:\n[\n\"a\"\n]}", 2, "`allowedRoles`"),
        (
            "staticwebapp.config.json",
            "{ /* x */ \"allowedIpRanges\": [\"10.0.0.0/8\"], }",
            1,
            "`allowedIpRanges`",
        ),
        ("vercel.json", "{\"routes\":[{\"src\":\"/a\",\"status\":\n403}]}", 1, "the status"),
        ("vercel.json", "{\"status\":\"403\"}", 1, "the status"),
        ("vercel.json", "{\n\"key\":\n\"www-authenticate\"}", 2, "`WWW-Authenticate`"),
        ("vercel.json", "{\"key\":\"\\u0057WW-Authenticate\"}", 1, "`WWW-Authenticate`"),
        ("vercel.json", "{\"headers\":{\"WWW-Authenticate\":\"Basic\"}}", 1, "`WWW-Authenticate`"),
        ("vercel.json", "{\"mitigate\":{\"action\":\"deny\"}}", 1, "`deny`"),
        (
            "vercel.ts",
            "export const config = {headers: [{key: 'Basic-Auth', value: 'a:b'}]};",
            1,
            "`Basic-Auth`",
        ),
        ("VERCEL.json", "{\"passwordProtection\": {}}", 1, "`passwordProtection`"),
        ("firebase.json", "{\"redirects\":[{\"source\":\"/a\",\"type\":403}]}", 1, "the status"),
        ("static.json", "{\"basic_auth\": true}", 1, "`Basic-Auth`"),
        ("app.yaml", "handlers:\n- url: /a\n  login: required\n", 3, "`login`"),
        ("netlify.yaml", "headers:\n- values:\n    Basic-Auth: a:b\n", 3, "`Basic-Auth`"),
        ("customHttp.yml", "headers:\n- key: 'WWW-Authenticate'\n", 2, "`WWW-Authenticate`"),
        ("netlify.toml", "values = { X=\"1\", Basic-Auth=\"a:b\" }", 1, "`Basic-Auth`"),
        ("netlify.toml", "headers=[{for=\"/*\",values={\"Basic-Auth\"=\"a:b\"}}]", 1, "`Basic-Auth`"),
        ("netlify.toml", "[[redirects]]\nstatus = \"401\"", 2, "the status"),
        ("sub/netlify.toml", "[[redirects]]\nconditions = {Role = [\"a\"]}", 2, "the condition"),
        ("netlify.toml", "conditions.Role = [\"a\"]", 1, "the condition"),
        // Code.
        (
            "_worker.js",
            "return new Response('', {status: 401,\nheaders: {'WWW-Authenticate': 1}})",
            2,
            "`WWW-Authenticate`",
        ),
        ("_worker.js/index.js", "x\nnew Response('', { status : 403 })", 2, "the status"),
        ("functions/secret/[[path]].js", "h = {'WWW-Authenticate': 1}", 1, "`WWW-Authenticate`"),
        (
            "functions/_middleware.ts",
            "import x from '@cloudflare/pages-plugin-cloudflare-access'",
            1,
            "`pages-plugin",
        ),
        ("functions/a/_middleware.ts", "res.status(401)", 1, "the status"),
        ("netlify/edge-functions/auth.ts", "new Response('', {status: 401})", 1, "the status"),
        ("middleware.js", "/* x\n*/\nheaders: {'www-authenticate': 'Basic'}", 3, "`WWW-Authenticate`"),
        ("src/middleware.ts", "status: 401", 1, "the status"),
        ("worker.js", "status: 401\nheaders: {'WWW-Authenticate': 1}", 2, "`WWW-Authenticate`"),
        ("_hosts/a.test/worker.js", "401 'WWW-Authenticate'", 1, "`WWW-Authenticate`"),
        // Passwords.
        ("AUTH", "bob:secret", 1, "a password file"),
        ("a/users.htpasswd", "bob:$apr1$x", 1, "a password file"),
        ("htpasswd.txt", "\n# staff\nbob:$apr1$x", 3, "a password file"),
        ("a/passwd", "bob:{SHA}x", 1, "a password file"),
        (".HTPASSWD", "bob:x", 1, "a password file"),
        // Servers.
        (".htaccess", "RewriteRule ^secret - [R=403,L]", 1, "`RewriteRule`"),
        (".htaccess", "# x\nRewriteRule ^secret \\\n  - [F]", 2, "`RewriteRule`"),
        (".htaccess", "RewriteRule ^. - [F]", 1, "`RewriteRule`"),
        (".htaccess", "RewriteCond %{REMOTE_ADDR} !^10\\.", 1, "`RewriteCond`"),
        ("a/.htaccess", "Order allow,deny\nAllow from 10.0.0.0/8", 1, "`Order`"),
        ("a/.htaccess", "Order deny,allow\nAllow from 10.0.0.0/8", 2, "`Allow`"),
        (".htaccess", "AuthGroupFile /x", 1, "`AuthGroupFile`"),
        (".htaccess", "AuthDigestDomain /x", 1, "`AuthDigestDomain`"),
        (".HTACCESS", "<Files \"a.pdf\">\nRequire all denied\n</Files>", 2, "`Require`"),
        (".htaccess", "<FilesMatch \"\\.(pdf)$\">\nRequire valid-user\n</FilesMatch>", 2, "`Require`"),
        (".htaccess", "<Files \".ht*\">\nRequire all denied\n</Files>\nRequire valid-user", 4, "`Require`"),
        ("site.conf", "<Location /a>\n  Require valid-user\n</Location>", 2, "`Require`"),
        ("nginx.conf", "location /secret { deny all; }", 1, "`deny`"),
        ("nginx.conf", "location /s { auth_basic \"x\"; }", 1, "`auth_basic`"),
        ("nginx.conf", "location /s {\n  return\n    403;\n}", 2, "`return`"),
        ("default.conf", "server {\n auth_basic \"x\";\n}", 2, "`auth_basic`"),
        ("nginx.conf", "location ~ \\.(pdf)$ { deny all; }", 1, "`deny`"),
        ("Caddyfile", "example.com { basic_auth {\n a b\n } }", 1, "`basic_auth`"),
        ("Caddyfile", "x {\n handle @x { basic_auth {} }\n}", 2, "`basic_auth`"),
        ("Caddyfile", "respond /secret/* 403", 1, "`respond`"),
        ("Caddyfile", "@office not remote_ip 10.0.0.0/8\nredir @office /x", 1, "`remote_ip`"),
        (
            "lighttpd.conf",
            "auth.require = ( \"/secret\" => ( \"method\" => \"basic\" ) )",
            1,
            "`auth.require`",
        ),
        (
            "lighttpd.conf",
            "$HTTP[\"url\"] =~ \"^/secret\" { url.access-deny = ( \"\" ) }",
            1,
            "`url.access-deny`",
        ),
        ("Web.config", "<x>\n<authorization><deny users=\"?\"/></authorization>", 2, "`<authorization>`"),
        (
            "a/web.config",
            "<authorization>\n<add accessType=\"Allow\"\n roles=\"x\"/>",
            2,
            "`<authorization>`",
        ),
        ("web.config", "<anonymousAuthentication enabled=\"false\" />", 1, "`<anonymousAuthentication>`"),
        ("web.config", "<action type=\"CustomResponse\" statusCode=\"403\"/>", 1, "the status"),
        // Names like those of rule files.
        ("_redirect", "/secret/* /x 200! Role=admin", 1, "the condition"),
        ("redirects.txt", "/s/* /x 401", 1, "the code `401`"),
        (
            "routes.json",
            "{\"routes\": [{\"route\": \"/a\", \"allowedRoles\": [\"b\"]}]}",
            1,
            "`allowedRoles`",
        ),
        ("_redirects.bak", "/a /b Basic = Auth", 1, "`Basic-Auth`"),
        ("functions/_middleware.js.bak", "res.status(401)", 1, "the status"),
        ("docs/_headers", "/*\n  Basic-Auth: a:b", 2, "`Basic-Auth`"),
        ("headers", "/*\n  Authorization: a", 2, "`Authorization`"),
        ("headers.txt", "Basic-Auth: a:b", 1, "`Basic-Auth`"),
        ("_headers.toml", "\"Basic-Auth\" = \"a:b\"", 1, "`Basic-Auth`"),
        ("_headers.bak", "/*\n  X-Basic-Auth: a:b", 2, "`Basic-Auth`"),
        ("_headers.bak", "/*\n  Basic-Authentication: a:b", 2, "`Basic-Auth`"),
        ("_redirects.bak", "/a/* Basic-Auth: a:b", 1, "`Basic-Auth`"),
        ("_Redirects", "\"/a\" 401", 1, "the code `401`"),
    ] {
        let Some((at, what)) = found(path, text) else { panic!("nothing in {path}: {text}") };
        assert_eq!(at, line, "{path}: {text}");
        assert!(what.starts_with(subject), "{what} in {path}: {text}");
    }
}

#[test]
fn public_configuration_is_no_access_control() {
    for (path, text) in [
        ("staticwebapp.config.json", "{\"allowedRoles\": [\n \"anonymous\"\n]}"),
        ("staticwebapp.config.json", "{\"responseOverrides\": {\"401\": {\"statusCode\": 302}}}"),
        ("routes.json", "[{\"path\": \"/login\", \"status\": 401}]"),
        (
            "vercel.json",
            "{\"passwordProtection\": null, \"key\": \"Vary\", \"value\": \"Cookie\", \"statusCode\": 308}",
        ),
        ("vercel.json", "{// \"key\": \"WWW-Authenticate\"\n}"),
        ("static.json", "{\"basic_auth\": false, \"cookie\": 1}"),
        ("app.yaml", "- url: /a # login: required\n  login: optional"),
        ("netlify.toml", "[build]\ncommand=\"echo role=admin\"\n[build.environment]\nROLE = \"x\""),
        ("netlify.toml", "# status = 401\nstatus = 200"),
        ("_worker.js", "// WWW-Authenticate\n/* status: 401\n */ next()"),
        ("functions/login.js", "new Response('', {status: 401})"),
        ("worker.js", "response.headers.get('www-authenticate')"),
        ("AUTH", "Members may publish: see below"),
        (".htaccess", "<Files \".ht*\">\n  Require all denied\n</Files>"),
        (".htaccess", "<FilesMatch \"^\\.ht\">\n  Order allow,deny\n  Deny from all\n</FilesMatch>"),
        (".htaccess", "RewriteRule \"(^|/)\\.(?!well-known)\" - [F]\nRedirectMatch 403 /\\.git"),
        (".htaccess", "Require all granted\nRedirect 301 /require /deny"),
        (".htaccess", "Order allow,deny\nAllow from all"),
        (".htaccess", "<LimitExcept GET HEAD>\nDeny from all\n</LimitExcept>"),
        (".htaccess", "# Require \\\nvalid-user"),
        ("nginx.conf", "location ~ /\\.ht { deny all; }\nlocation /a { auth_basic off; return 404; }"),
        ("nginx.conf", "# deny all;\nlocation ~ /\\.(?!well-known).* { deny all; }"),
        ("Caddyfile", "respond /a \"basic_auth\" 200\n# basic_auth\nredir /403 /x 301"),
        ("lighttpd.conf", "url.access-deny = ( \"~\", \".inc\" )"),
        ("web.config", "<!-- <deny users=\"?\"/> --><authorization><allow users=\"*\"/></authorization>"),
        ("web.config", "<basicAuthentication enabled=\"false\"/><error statusCode=\"401\" path=\"x\"/>"),
        ("headers.txt", "Authorization and Cookie\nAuthorization: Bearer x"),
        ("redirects.txt", "/authorization /basic-auth 301\n/cookie /deny 301 # Basic-Auth: a:b"),
    ] {
        assert_eq!(found(path, text), None, "{path}: {text}");
    }
    for path in ["a/b.conf", "a/auth", "x/functions/a.js"] {
        assert!(Suspect::new(path.as_bytes(), Origin::Published).is_none(), "{path}");
    }
    // Pages, data and packages.
    for path in [
        "api/errors.html",
        "api/openapi.json",
        "api/auth.md",
        "api/image.PNG",
        "functions/list.txt",
        "functions/map.js.map",
        "middleware.html",
        "src/middleware.md",
        "edge-functions/index.htm",
        "netlify/functions/data.json",
        "_worker.js/notes.txt",
        "worker.html",
        "caddyfile.html",
        "docs/Caddyfile.md",
        "conf.d/index.html",
        "sites-enabled/a.svg",
        "_headers.html",
        "docs/_redirects.md",
        "htpasswd.html",
        "a/htpasswd.mp4",
        "functions/node_modules/node-fetch/index.js",
        "node_modules/a/nginx.conf",
        "data/routes.json",
        "http/headers.txt",
        "a/headers",
        "a/redirects.txt",
    ] {
        for origin in [Origin::Published, Origin::LeftOut, Origin::InFolder] {
            assert!(Suspect::new(path.as_bytes(), origin).is_none(), "{path}");
        }
    }
    // A folder that is left out needs no protection.
    for path in ["functions/.htaccess", "netlify/web.config"] {
        assert!(Suspect::new(path.as_bytes(), Origin::Published).is_some(), "{path}");
        let suspect = Suspect::new(path.as_bytes(), Origin::InFolder);
        assert!(suspect.is_none_or(|suspect| suspect.unsearched == Unsearched::Passes), "{path}");
    }
    for path in ["_redirects", "_headers", "a/_redirects.txt", "_hosts/a.test/_headers"] {
        let encodings = |origin| Suspect::new(path.as_bytes(), origin).unwrap().encodings;
        assert_eq!(encodings(Origin::Published), Encodings::Foreign, "{path}");
        assert_eq!(encodings(Origin::LeftOut), Encodings::All, "{path}");
    }
}

#[test]
fn damaged_configuration_is_searched() {
    for text in [
        "",
        "{",
        "\"",
        "'",
        "\"\"\"",
        "/*",
        "/",
        "<",
        "<!--",
        "a=",
        "[",
        "}",
        ":\u{e9}\u{e9}",
        "\"\\",
        "<>",
        "< =\u{e9}",
    ] {
        for kind in FILES {
            assert_eq!((kind.search)(text), None, "{kind:?} {text}");
        }
    }
}

#[test]
fn quotes_of_several_bytes_are_searched() {
    for quote in ["\u{201c}", "\u{fffd}", "\u{1f600}", "\u{e9}"] {
        for attribute in ["enabled", "users", "accessType", "name", "input", "statusCode", "type", "sslFlags"]
        {
            let value = format!("{attribute}={quote}false{quote}");
            for element in ["add", "deny", "action", "access", "allow", "basicAuthentication"] {
                servers::iis(&format!("<authorization><{element} {value}/>"));
                servers::iis(&format!("<{element} {value}/><{element} {attribute}={quote}"));
            }
            for kind in FILES {
                (kind.search)(&value);
                (kind.search)(&format!("<{value}\n{quote}<{attribute}{quote}"));
            }
        }
        let disabled = format!("<basicAuthentication enabled={quote}false{quote}/>");
        assert_eq!(servers::iis(&disabled), None, "{disabled}");
    }
}

/// Each of these took minutes.
#[test]
fn nested_and_long_lines_are_searched_once() {
    const COUNT: usize = 30_000;
    for text in ["a=[", "a:[", "a{", "<a\n", "a "].map(|part| part.repeat(COUNT)) {
        let lines = format!("/a {text}\n");
        for kind in FILES {
            (kind.search)(&text);
        }
        hosts::rules(&lines);
    }
}

#[test]
fn examples_in_documentation_do_not_stop_a_build() {
    let nginx = "location /admin { auth_basic x; }";
    let script = "h = {'WWW-Authenticate': 1}";
    let handler = "export const onRequest = () => h = {'WWW-Authenticate': 1}";
    let page = ("index.html", "home");
    let error = |path: &str| vec![(path.to_owned(), Severity::Error)];
    let warning = |path: &str| vec![(path.to_owned(), Severity::Warning)];

    for (path, text) in [
        ("nginx/auth.conf", nginx),
        ("conf.d/auth.conf", nginx),
        ("docs/examples/nginx.conf", nginx),
        ("docs/Caddyfile", "basic_auth {\n}"),
        ("docs/vercel.json", "{\"status\": 401}"),
        ("docs/_headers.txt", "/a\n  Basic-Auth: a:b"),
    ] {
        assert_eq!(reported(&[page, ("docs/index.html", ""), (path, text)], &[]), warning(path), "{path}");
    }
    assert_eq!(
        reported(&[("docker.html", ""), ("docker/nginx.conf", nginx)], &[]),
        warning("docker/nginx.conf")
    );
    for path in ["api/errors.js", "functions/a.js", "edge-functions/a.ts"] {
        let pages = path.split_once('/').unwrap().0.to_owned() + "/index.html";
        assert_eq!(reported(&[page, (&pages, ""), (path, script)], &[]), [], "{path}");
        assert_eq!(reported(&[page, (&pages, ""), (path, handler)], &[]), error(path), "{path}");
        assert_eq!(reported(&[page, (path, script)], &[]), error(path), "{path}");
    }

    for (path, text) in [
        ("docs/.htaccess", "Require valid-user"),
        ("docs/web.config", "<deny users=\"?\"/>"),
        ("docs/staticwebapp.config.json", "{\"allowedRoles\": [\"a\"]}"),
        ("docs/_headers", "/a\n  Basic-Auth: a:b"),
        ("docker/nginx.conf", nginx),
        ("nginx.conf", nginx),
        ("_hosts/a.test/nginx.conf", nginx),
        ("functions/_middleware.js", script),
    ] {
        let files = [page, ("docs/index.html", ""), ("functions/index.html", ""), (path, text)];
        assert_eq!(reported(&files, &[]), error(path), "{path}");
    }
    let hidden = [page, ("nginx/auth.conf", nginx)];
    assert_eq!(reported(&hidden, &[("nginx/auth.conf", false)]), error("nginx/auth.conf"));
    assert_eq!(reported(&hidden, &[("nginx", true)]), error("nginx/auth.conf"));
}

#[test]
fn block_around_a_statement_may_begin_far_before() {
    let comments = "# a comment\n".repeat(100_000);
    let harmless = format!("<Files \".htpasswd\">\n{comments}Require all denied\n</Files>\n");
    assert_eq!(reported(&[(".htaccess", &harmless)], &[(".htaccess", false)]), []);
    let allowed = format!("Order allow,deny\n{comments}Allow from all\n");
    assert_eq!(reported(&[(".htaccess", &allowed)], &[(".htaccess", false)]), []);
    let private = format!("<Files \".htpasswd\">\n{comments}</Files>\nRequire valid-user\n");
    let found = reported(&[(".htaccess", &private)], &[(".htaccess", false)]);
    assert_eq!(found, [(".htaccess".to_owned(), Severity::Error)]);
}

#[test]
fn packages_in_folders_that_are_left_out_are_not_searched() {
    let script = "h = {'WWW-Authenticate': 1}";
    for (folder, path) in [
        ("functions/node_modules", "functions/node_modules/node-fetch/index.js"),
        ("api/node_modules/a", "api/node_modules/a/b/index.js"),
        ("functions/.git", "functions/.git/a.js"),
        ("functions", "functions/node_modules/node-fetch/index.js"),
    ] {
        assert_eq!(reported(&[("index.html", ""), (path, script)], &[(folder, true)]), [], "{folder}");
    }
    let found = reported(&[("index.html", ""), ("functions/a/b.js", script)], &[("functions/a", true)]);
    assert_eq!(found, [("functions/a/b.js".to_owned(), Severity::Error)]);
}

#[test]
fn long_data_with_a_common_name_does_not_stop_a_build() {
    for path in ["headers.txt", "redirects", "routes.json", "auth"] {
        let root = tempfile::tempdir().unwrap();
        fs::File::create(root.path().join(path)).unwrap().set_len(SEARCHED_BYTES_MAX + 1).unwrap();
        let found = find(&sources(&root, path));
        assert_eq!(
            found.iter().map(|found| found.severity).collect::<Vec<_>>(),
            [Severity::Warning],
            "{path}"
        );
    }
}

/// Such a link was an error, although it can't be configuration.
#[test]
fn link_to_a_folder_with_the_name_of_a_rule_file_is_ignored() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("index.html"), "").unwrap();
    let mut found = sources(&root, "index.html");
    for (name, target, count) in [
        ("headers", "/", 0),
        ("auth", "/", 0),
        ("_headers", "/", 0),
        ("auth", "nowhere", 0),
        ("auth", "/dev/null", 0),
        ("_headers", "nowhere", 1),
        ("_headers", "/dev/null", 1),
    ] {
        let link = root.path().join(name);
        std::os::unix::fs::symlink(target, &link).unwrap();
        found.unusable = vec![name.as_bytes().into()];
        assert_eq!(find(&found).len(), count, "{name} to {target}");
        fs::remove_file(link).unwrap();
    }
}
