//! Unit tests for the search for access control.

use super::*;

/// Searches this file, and returns the line and the subject found.
fn found(path: &str, text: &str) -> Option<Found> {
    search_of(path.as_bytes(), false)?.0(text)
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
        ("data/routes.json", "{\"cookie\": 1, \"type\": 403}"),
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
        ("htpasswd.html", "<a href=http://a.test>x</a>"),
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
        ("_headers.html", "<p>Read this</p>"),
    ] {
        assert_eq!(found(path, text), None, "{path}: {text}");
    }
    for path in ["a/b.conf", "a/auth", "x/functions/a.js"] {
        assert!(Suspect::new(path.as_bytes(), Origin::Published).is_none(), "{path}");
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
        for (patterns, search, _) in FILES {
            assert_eq!(search(text), None, "{patterns:?} {text}");
        }
    }
}
