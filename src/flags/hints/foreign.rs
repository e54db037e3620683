//! Translates flags and commands of other web servers and site generators, e.g. nginx, Caddy, `serve`,
//! `http-server`, Python's `http.server`, Hugo, Vite, Netlify and Wrangler.

use super::Scope;

/// Flag names without dashes, and our answer.
type Answers = &'static [(&'static [&'static str], &'static str)];

/// These answers are right for every command that serves or compiles a folder.
const EVERYWHERE: Answers = &[
    (
        &["cors", "allow-origin"],
        "write a line `/*`, and below it `  Access-Control-Allow-Origin: *`, into a file `_headers` in the folder",
    ),
    (
        &["header", "headers", "add-header", "response-header"],
        "write header fields into a file `_headers` in the folder",
    ),
    (
        &["redirect", "redirects", "rewrite", "rewrites"],
        "write redirects into a file `_redirects` in the folder",
    ),
    (
        &["proxy", "reverse-proxy", "proxy-secure", "proxy-pass", "P"],
        "Cannery doesn't forward requests: put a proxy in front of it, and let that forward some paths elsewhere",
    ),
    (
        &["auth", "basic-auth", "basicauth", "username", "user-name", "password", "htpasswd"],
        "Cannery has no passwords: put a proxy in front of it that asks for one",
    ),
    (
        &["config", "conf", "configuration", "config-file", "c", "adapter", "g"],
        "there is no configuration file: flags are all, and the files `_redirects` and `_headers` in the folder",
    ),
    (
        &[
            "spa",
            "single",
            "single-page",
            "history",
            "history-api-fallback",
            "fallback",
            "not-found-handling",
        ],
        "name a page `200.html` in the folder: it answers every path that has no file of its own",
    ),
    (
        &["base", "base-url", "baseurl", "baseURL", "base-path", "base-dir", "url-prefix"],
        "the paths of the folder are those of the URLs: to serve at `/docs/`, move the files into a folder `docs`",
    ),
    (&["404", "error-page", "error-document", "not-found"], "name a page `404.html` in the folder"),
    (
        &["index", "index-page", "default-page", "directory-index"],
        "`index.html` answers for its folder, without a flag",
    ),
    (&["minify", "optimize"], "Cannery doesn't change files: let the tool that creates them do it"),
    (
        &[
            "draft",
            "drafts",
            "build-drafts",
            "buildDrafts",
            "D",
            "F",
            "E",
            "environment",
            "e",
            "mode",
            "m",
            "env",
            "theme",
        ],
        "Cannery serves files as they are: run the site generator first",
    ),
    (
        &["mime", "mime-type", "mime-types", "content-type"],
        "`cannery-archiver --media-type EXT=TYPE` sets the type of a suffix",
    ),
    (
        &["clean-urls", "cleanurls", "pretty-urls", "strip-html", "ext", "extensions"],
        "`page.html` answers at `/page`, without a flag",
    ),
    (&["trailing-slash", "trailingslash"], "`/folder` is redirected to `/folder/`, without a flag"),
    (
        &["etag", "etags", "no-etag"],
        "`cannery-archiver --exclude-etag` builds an archive without entity tags",
    ),
    (
        &["rate-limit", "limit-req", "throttle"],
        "Cannery has no limits for each client: put a proxy in front of it that has",
    ),
];

const SERVE: Answers = &[
    (
        &["b"],
        "`--host IP` and `--port PORT` name the address; the paths of the folder are those of the URLs, without a prefix",
    ),
    (
        &[
            "dir",
            "directory",
            "root",
            "folder",
            "path",
            "public",
            "public-dir",
            "publish",
            "docroot",
            "document-root",
            "webroot",
            "source",
            "sources",
            "src",
            "cwd",
            "content",
            "contentDir",
            "destination",
            "out",
            "outDir",
            "out-dir",
            "output",
            "dist",
            "d",
            "t",
            "r",
        ],
        "name the folder without a flag: `cannery serve DIR`",
    ),
    (
        &[
            "watch",
            "reload",
            "live",
            "live-reload",
            "livereload",
            "hot",
            "hmr",
            "w",
            "autoreload",
            "auto-reload",
            "live-reload-port",
            "navigateToChanged",
            "disableFastRender",
        ],
        "changes are served, and pages in the browser reloaded, without a flag; `--no-live-reload` prevents the reload",
    ),
    (&["no-reload", "no-hot", "no-hmr", "noHTTPCache"], "`--no-live-reload` leaves pages as they are"),
    (&["no-watch", "once", "watch-disable"], "`--no-follow` compiles the folder once"),
    (
        &[
            "ssl",
            "https",
            "secure",
            "S",
            "cert",
            "key",
            "ssl-cert",
            "ssl-key",
            "tls-cert",
            "tls-key",
            "C",
            "K",
            "local-protocol",
        ],
        "`--tls` serves over TLS, with a certificate that is created at startup",
    ),
    (&["browser", "launch", "open-browser", "o"], "`--open` opens the site in the browser"),
    (
        &["no-open", "no-browser", "no-clipboard", "n"],
        "neither is done without a flag; `--open` opens the browser",
    ),
    (
        &["address", "addr", "a", "ip", "interface", "bind-address", "hostname", "H"],
        "`--host IP` listens at an address, and `--host` at every address of the machine",
    ),
    (&["l", "L"], "`--port PORT` or `--bind ADDRESS` names where to listen"),
    (&["lan", "public-network", "expose", "network"], "`--host` listens at every address of the machine"),
    (&["tunnel", "share"], "Cannery has no tunnel; `--host` lets other machines on the network in"),
    (&["strict-port", "strictPort", "force"], "a port that is named is never replaced by another one"),
    (
        &["no-dir-listing", "no-directory-listing", "no-browse"],
        "`--no-listing` responds with 404 for folders without a page",
    ),
    (
        &["browse", "autoindex", "list", "directory-listing", "dir-listing", "show-dir", "i"],
        "folders without an index page are listed, without a flag",
    ),
    (
        &["cache", "no-cache", "max-age", "cache-control", "cache-time"],
        "browsers ask again for every file; `--production` sends the policies of production",
    ),
    (
        &["gzip", "brotli", "zstd", "compression", "no-compression", "u", "encode"],
        "`--compress CODINGS` selects the content codings",
    ),
    (
        &["silent", "no-log", "no-request-logging", "no-logs", "log-disable", "s", "U"],
        "`--quiet` prints only the address and errors; a page `200.html` answers every path without a file",
    ),
    (
        &[
            "verbose",
            "v",
            "debug",
            "log",
            "log-level",
            "loglevel",
            "logLevel",
            "access-log",
            "log-format",
            "trace",
        ],
        "each change and each failed request is printed, without a flag; `--json` prints events for tools",
    ),
    (&["prod", "preview", "release", "build"], "`--production` serves what is deployed"),
    (
        &["symlinks", "follow-symlinks", "no-symlinks"],
        "`--follow-links` accepts links that lead out of the folder",
    ),
    (
        &["exclude", "ignore-files", "ignorefiles", "hidden", "dotfiles", "no-dotfiles", "glob"],
        "`--ignore PATTERN` leaves files out, and `--no-default-ignores` includes hidden ones",
    ),
    (&["jobs", "workers", "j"], "`--threads N`"),
    (
        &["domain", "server-name", "vhost", "allowed-hosts", "host-header"],
        "a folder `_hosts/NAME/` is the site of a host",
    ),
    (
        &["daemon", "detach", "background"],
        "it serves until it is stopped; the shell runs it in the background with `&`",
    ),
    (
        &["interval", "poll-interval", "chokidar", "use-polling"],
        "`--poll=MS` looks for changes at this interval",
    ),
];

const SERVER: Answers = &[
    (
        &[
            "dir",
            "directory",
            "root",
            "path",
            "public",
            "public-dir",
            "docroot",
            "document-root",
            "webroot",
            "source",
            "sources",
            "src",
            "cwd",
            "d",
            "r",
            "w",
        ],
        "`cannery-server FILE` serves an archive, and `--folder DIR` a folder",
    ),
    (
        &["watch", "reload", "live", "live-reload", "livereload", "hot"],
        "new archives and changed folders are served without a flag; `cannery serve DIR` reloads pages in the browser",
    ),
    (&["no-watch", "no-reload"], "`--watch-disable` looks for new archives only at SIGHUP"),
    (
        &["address", "addr", "a", "l", "ip", "interface", "bind-address", "H"],
        "`--bind ADDRESS` names where to listen: `:80` for every address",
    ),
    (
        &["ssl", "https", "tls", "secure", "S", "C", "K"],
        "`--bind-tls ADDRESS` listens for HTTPS, with the certificate of `--tls-bundle FILE`",
    ),
    (
        &["cert", "certificate", "ssl-cert", "tls-cert", "ssl-certificate", "cert-file"],
        "`--tls-bundle FILE` names a certificate with its key, or `--tls-public FILE` and `--tls-private FILE`",
    ),
    (
        &["key", "private-key", "ssl-key", "tls-key", "ssl-certificate-key", "key-file"],
        "`--tls-private FILE` names the key of `--tls-public FILE`",
    ),
    (
        &["acme", "letsencrypt", "lets-encrypt", "auto-https", "email"],
        "`--certificates NAMES` gets certificates and renews them, with `--acme-contact EMAIL` and `--acme-agree`; `--acme-webroot DIR` is \
         for other ACME clients",
    ),
    (
        &["domain", "domains", "server-name", "hostname", "vhost", "virtual-host"],
        "name the host with its archive: `cannery-server HOST=FILE`",
    ),
    (
        &["browse", "autoindex", "list", "listing", "directory-listing", "dir-listing", "i"],
        "listings are part of the archive: `cannery-archiver --include-folder-listing`",
    ),
    (
        &["cache", "no-cache", "max-age", "cache-control", "expires"],
        "policies are part of the archive: `_headers` in the folder, or `cannery-archiver --cache-control VALUE`",
    ),
    (
        &["gzip", "brotli", "zstd", "compress", "compression", "no-compression", "encode"],
        "contents are compressed when the archive is built: `cannery-archiver --compress CODINGS`",
    ),
    (&["http2", "h2", "http2-enable"], "HTTP/2 is on, without a flag; `--http2-disable` turns it off"),
    (&["http3", "h3", "quic", "http3-enable"], "`--bind-quic ADDRESS` listens for HTTP/3"),
    (
        &["workers", "worker-processes", "worker_processes", "cluster"],
        "`--processes N`, and `--threads N` for each",
    ),
    (&["jobs", "j", "worker-threads"], "`--threads N`"),
    (&["worker-connections", "max-connections", "maxconn"], "`--limit-connections N`"),
    (
        &["daemon", "daemonize", "detach", "background", "D"],
        "run it under a service manager, such as systemd, or with `&`; it doesn't detach by itself",
    ),
    (&["pid", "pidfile", "pid-file"], "a service manager knows the process; there is no file with its ID"),
    (
        &["s", "signal", "stop"],
        "signals control it: SIGTERM stops it, SIGHUP loads new archives, SIGUSR1 opens the log again",
    ),
    (&["t", "T", "test", "validate", "check"], "`cannery verify FILE` checks an archive"),
    (&["v", "verbose"], "`--version` prints the version, and `--debug` how the server is set up"),
    (
        &["log", "access-logs", "log-file", "logfile", "request-log", "accesslog"],
        "`--access-log FILE` writes a line for each request",
    ),
    (&["log-format", "logformat", "log-json", "json"], "`--access-log-format json`"),
    (
        &["log-level", "loglevel", "silent", "no-log", "no-request-logging"],
        "`--quiet` prints only warnings and errors, and `--debug` more",
    ),
    (&["error-log", "errorlog"], "errors are printed on standard error"),
    (
        &["metrics", "prometheus", "stats", "status", "admin-address"],
        "`--admin ADDRESS` has a live page, metrics and health checks",
    ),
    (
        &["health", "healthz", "health-check", "ready", "readiness"],
        "`/__/heartbeat` answers health checks, and `--admin ADDRESS` has `/health` and `/ready`",
    ),
    (
        &["real-ip", "set-real-ip-from", "trust-proxy", "trusted-proxies", "behind-proxy"],
        "`--trusted-proxy CIDR` names the proxies whose `X-Forwarded-For` is logged",
    ),
    (
        &["timeout", "keep-alive", "keepalive", "keepalive-timeout", "read-timeout", "idle-timeout"],
        "the limits of time are fixed, and suit the Internet; `--drain SECONDS` is that of a graceful stop",
    ),
    (&["group", "uid", "gid", "setuid", "run-as", "u"], "`--user USER:GROUP`"),
    (
        &["hsts", "security-headers"],
        "`--security-headers-tls` adds `Strict-Transport-Security`; the others are on, without a flag",
    ),
    (
        &["force-https", "redirect-https", "https-only", "ssl-redirect"],
        "`--https-redirect` redirects requests without TLS",
    ),
    (&["open", "browser", "no-clipboard"], "`cannery serve DIR --open` opens the browser"),
    (&["memory", "max-memory", "mem-limit"], "`--limit-memory MIB`"),
    (&["symlinks", "follow-symlinks"], "`--follow-links` accepts links that lead out of a folder"),
    (&["production", "prod", "strict-port"], "it is meant for production, without a flag"),
    (&["no-listing"], "an archive has no listings unless it was built with them"),
];

const ARCHIVER: Answers = &[
    (
        &[
            "output",
            "out",
            "o",
            "outfile",
            "out-file",
            "destination",
            "dest",
            "dist",
            "target",
            "f",
            "file",
            "outDir",
            "out-dir",
        ],
        "name the archive after the folder: `cannery-archiver DIR FILE`",
    ),
    (
        &[
            "dir",
            "directory",
            "root",
            "folder",
            "path",
            "public",
            "source",
            "src",
            "input",
            "i",
            "d",
            "s",
            "contentDir",
        ],
        "name the folder first: `cannery-archiver DIR FILE`",
    ),
    (
        &["watch", "w", "follow", "serve", "live", "reload", "port", "host", "bind", "listen", "open"],
        "`cannery serve DIR` serves the folder while you edit it",
    ),
    (
        &["gzip", "brotli", "zstd", "compression", "encode", "z", "codings"],
        "`--compress CODINGS` selects the content codings",
    ),
    (&["level", "compression-level", "quality"], "`--compress-level LEVELS`"),
    (&["verbose", "v", "trace", "log-level"], "`--debug` prints each path, and `--version` the version"),
    (
        &["releases"],
        "name the archive of the new release in that directory: `cannery-archiver DIR RELEASES/NAME.cdb`",
    ),
    (&["silent"], "`--quiet` prints only errors"),
    (&["jobs", "j", "workers", "parallel"], "`--threads N`"),
    (&["exclude", "x", "skip"], "`--ignore PATTERN` leaves files out"),
    (&["hidden", "dotfiles", "include-hidden", "all"], "`--no-default-ignores` includes hidden files"),
    (
        &["browse", "autoindex", "listing", "list", "directory-listing"],
        "`--include-folder-listing` adds a page for each folder without one",
    ),
    (
        &["cache", "cache-dir", "cachedir"],
        "`--compress-cache DIR` keeps compressed contents, and `--sources-cache FILE` digests",
    ),
    (&["max-age", "no-cache", "expires"], "`--cache-control VALUE`, or `_headers` in the folder"),
    (
        &["force", "overwrite", "clean", "emptyOutDir"],
        "an archive is replaced without a flag; `--allow-empty` builds one of an empty folder",
    ),
    (
        &["symlinks", "follow-symlinks", "dereference", "L", "h"],
        "`--follow-links` accepts links that lead out of the folder",
    ),
    (
        &["dialect", "netlify", "cloudflare"],
        "`--redirects-dialect netlify` or `--redirects-dialect cloudflare`",
    ),
    (&["links", "broken-links", "linkcheck", "check"], "`--check-links` lists broken links"),
    (
        &["fail-on-warnings", "werror", "warnings-as-errors", "Werror"],
        "`--strict` fails if there are warnings",
    ),
    (&["host-name", "domain", "vhost"], "a folder `_hosts/NAME/` is the site of a host"),
    (
        &["dry-run", "n", "check-only"],
        "build into a temporary file: `cannery-archiver DIR /tmp/site.cdb --strict`",
    ),
    (&["production", "prod", "release"], "an archive is always made for production"),
];

/// Commands from other programs, and our answer.
const COMMANDS: Answers = &[
    (
        &[
            "dev",
            "start",
            "watch",
            "run",
            "http",
            "develop",
            "live",
            "up",
            "file-server",
            "fileserver",
            "http-server",
            "pages",
            "open",
        ],
        "`cannery serve DIR` serves a folder while you edit it",
    ),
    (&["preview", "production", "prod"], "`cannery serve DIR --production` serves a folder as in production"),
    (
        &["build", "compile", "archive", "pack", "create", "generate", "make", "export", "zip", "render"],
        "`cannery archiver DIR FILE` compiles a folder into an archive",
    ),
    (
        &["deploy", "publish", "upload", "ship", "sync"],
        "`cannery push USER@HOST:DIR FOLDER` publishes a folder on another machine",
    ),
    (
        &["init", "new", "scaffold", "setup", "bootstrap"],
        "a site needs no set-up: write an `index.html` into a folder, and run `cannery serve DIR`",
    ),
    (
        &["list", "ls", "info", "show", "cat", "stat", "stats", "dump", "tree"],
        "`cannery inspect FILE` shows what an archive contains",
    ),
    (
        &["check", "test", "lint", "validate", "doctor", "fsck"],
        "`cannery verify FILE` checks an archive, and `cannery archiver DIR FILE --strict --check-links` a folder",
    ),
    (
        &["unpack", "unzip", "untar", "restore", "decompile"],
        "`cannery extract FILE DIR` writes the files of an archive into a folder",
    ),
    (
        &["revert", "undo", "switch", "promote"],
        "`cannery releases DIR --use previous` makes an earlier release current, and `cannery rollback USER@HOST:DIR` on another machine",
    ),
    (
        &["curl", "get", "fetch", "request", "resolve", "route", "lookup"],
        "`cannery explain FILE URL` explains a response",
    ),
    (
        &["convert", "migrate"],
        "`cannery import FILE -o site.cdb` turns an archive of kawipiko into one of Cannery",
    ),
    (
        &["embed", "compile-server", "package", "standalone", "exe"],
        "`cannery bundle FILE -o app` makes one executable of the server and a site",
    ),
    (
        &["stop", "restart", "reload", "status", "kill", "logs", "quit"],
        "signals control a server: SIGTERM stops it, and SIGHUP loads new archives",
    ),
    (&["version"], "`cannery --version` prints the version"),
    (
        &["man", "manual", "docs"],
        "`cannery --man` prints the manual page, and `cannery help COMMAND` the help of a command",
    ),
    (&["completion", "autocomplete"], "`cannery completions SHELL` prints the completions of a shell"),
    (
        &["install", "update", "upgrade", "add", "remove", "login", "link", "auth", "plugin", "config"],
        "`cannery help` lists the commands; there are no accounts, plugins or settings",
    ),
];

/// Answers a flag that `scope` doesn't have, if we know it.
pub(super) fn flag(scope: Scope, name: &str) -> Option<&'static str> {
    let own = match scope {
        Scope::Root | Scope::Serve => SERVE,
        Scope::Server => SERVER,
        Scope::Archiver => ARCHIVER,
        Scope::Other => return None,
    };
    let name = name.trim_start_matches('-');
    find(own, name).or_else(|| find(EVERYWHERE, name))
}

/// Answers a word that isn't a `cannery` command, if we know it.
pub(super) fn command(word: &str) -> Option<&'static str> {
    find(COMMANDS, &word.to_ascii_lowercase())
}

fn find(answers: Answers, name: &str) -> Option<&'static str> {
    answers.iter().find(|(names, _)| names.contains(&name)).map(|(_, answer)| *answer)
}

#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (Scope, &'static [&'static str], &'static str)> {
    let everywhere = [Scope::Serve, Scope::Server, Scope::Archiver].map(|scope| (scope, EVERYWHERE));
    let own = [
        (Scope::Serve, SERVE),
        (Scope::Server, SERVER),
        (Scope::Archiver, ARCHIVER),
        (Scope::Root, COMMANDS),
    ];
    own.into_iter()
        .chain(everywhere)
        .flat_map(|(scope, answers)| answers.iter().map(move |(names, answer)| (scope, *names, *answer)))
}
