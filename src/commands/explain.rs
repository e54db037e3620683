//! `cannery explain`: prints how and why a server would respond to a request, without running a server.
//!
//! The request is processed by the same code as in the server. The response head should therefore be exactly what a client
//! would get, except for fields that depend on server flags (we do not know these here). We find source files by comparing
//! paths and contents; for rules, the manifest contains the lines. No socket is ever opened.

mod source_files;
mod vector;

use std::time::{SystemTime, UNIX_EPOCH};

use cannery_archive::{Archive, Corrupt, Extent, Key, KeyBuffer, Origin, Record, ScopeEntry};
use cannery_archiver::ascii_host;
use cannery_server::config::SecurityHeaders;
use cannery_site::{Answer, Body, Fields, Reason, Request, Scratch, Site, Sites, Target, VirtualHosts};
use cannery_wire::h1::{Connection, Head, Step};
use cannery_wire::{ArchiveRef, Output, Refusal, RequestHead, Response, ServerFields};
use serde_json::Value;

use self::source_files::{SourceFiles, bodies, display_name, is_in};
use self::vector::{Part, Vector, split_output};
use super::{inspect, key_display, open};
use crate::flags::server::special_pages;
use crate::flags::tools::Explain;
use crate::format;
use crate::output::{self, Failure, Paint, one_line};

/// The request's host if the command line does not have one.
const DEFAULT_HOST: &str = "localhost";

/// Runs `cannery explain`.
///
/// # Errors
///
/// Returns an error if the file isn't an archive or is damaged, or if it is not possible to send such a
/// request.
pub fn run(flags: &Explain) -> Result<(), Failure> {
    let request = request_text(flags)?;
    let site = Site::new(open::open(&flags.archive)?, VirtualHosts::Enabled);
    let explain =
        |security| explain(&site, &request, security, flags.debug).map_err(open::corrupt(&flags.archive));
    if flags.json {
        let Explanation { head, body, .. } = explain(SecurityHeaders::NONE)?;
        return output::print_json(&Vector::new(&request, &head, body));
    }

    let explanation = explain(SecurityHeaders::BASIC)?;
    let first_line = request.lines().next().unwrap_or_default();
    let text = explanation.text(first_line, Paint::for_results());
    output::print(format_args!("{text}{}", protocols(&flags.url)))
}

/// A response, with the reasons for it.
struct Explanation {
    /// One sentence each.
    reasons: Vec<String>,
    head: Vec<u8>,
    /// `None` for the server's own pages.
    body: Option<Vec<Part>>,
}

impl Explanation {
    fn new(reasons: Vec<String>, answer: &Answer<'_>, mut output: Output) -> Explanation {
        let (inline, segments) = output.parts();
        let (head, body) = split_output(inline, segments, answer);
        Explanation { reasons, head: head.to_vec(), body: Some(body) }
    }

    /// Renders the request line, the reasons, and the response head.
    fn text(&self, first_line: &str, paint: Paint) -> String {
        let mut text = format!("{}\n\n", paint.strong(first_line));
        for line in &self.reasons {
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
        for line in String::from_utf8_lossy(&self.head).trim_end().lines() {
            text.push_str(&one_line(line));
            text.push('\n');
        }
        text
    }
}

/// Returns a note about other HTTP versions. This only makes sense for `https` URLs because HTTP/3 requires TLS.
fn protocols(url: &str) -> &'static str {
    if !url.starts_with("https://") {
        return "";
    }
    "\nHTTP/2 and HTTP/3 have the same response. With `--bind-quic`, the server adds `Alt-Svc` over HTTP/1.1 and HTTP/2, by \
     which clients learn of HTTP/3.\n"
}

/// Returns the request as an HTTP/1.1 client would send it.
fn request_text(flags: &Explain) -> Result<String, Failure> {
    let (url_host, target) = split_url(&flags.url);
    let host = flags.host.as_deref().or(url_host);
    if host.is_some_and(|host| host.contains(char::is_control) || host.contains(char::is_whitespace)) {
        return Err(Failure::usage(format!("`{}` is not a host", one_line(host.unwrap_or_default())))
            .hint("write it as in a URL, such as `example.com`"));
    }
    let is_token = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    if flags.method.is_empty() || !is_token(&flags.method) {
        return Err(Failure::usage(format!("`{}` is not a method", one_line(&flags.method))));
    }

    let slash = if target.starts_with(['/', '*']) { "" } else { "/" };
    let mut request = format!("{} {slash}{} HTTP/1.1\r\n", flags.method, escape(target));
    let mut has_host = false;
    for field in &flags.fields {
        let (name, value) = field.split_once(':').unwrap_or_default();
        if name.is_empty() || !is_token(name) || value.contains(|letter: char| letter.is_control()) {
            return Err(Failure::usage(format!("`{}` is not a header", one_line(field)))
                .hint("write it as `Name: value`, such as `Accept-Encoding: br`"));
        }
        has_host |= name.eq_ignore_ascii_case("host");
        if has_host && flags.host.is_some() {
            return Err(
                Failure::usage("both `--host` and a `Host` header name the host").hint("leave one out")
            );
        }
        let value = if name.eq_ignore_ascii_case("host") {
            normal_host(value.trim())
        } else {
            value.trim().to_owned()
        };
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    if !has_host {
        request
            .push_str(&format!("Host: {}\r\n", escape(&host.map_or(DEFAULT_HOST.to_owned(), normal_host))));
    }

    request.push_str("\r\n");
    Ok(request)
}

/// Normalizes a host like browsers do, i.e. converts it to lower case and ASCII and removes a trailing dot.
/// The port is kept.
fn normal_host(host: &str) -> String {
    let (name, port) = host.split_at(host.rfind(':').filter(|_| !host.ends_with(']')).unwrap_or(host.len()));
    ascii_host(name).map_or_else(|| host.to_owned(), |name| name + port)
}

/// Splits a URL or path into host and target.
///
/// Fragments are dropped, because clients do not send these.
fn split_url(url: &str) -> (Option<&str>, &str) {
    let url = url.split('#').next().unwrap_or_default();
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    match rest {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, url),
    }
}

/// Percent-encodes bytes that are not allowed in a request line, as a browser would do with text that is typed into the address
/// bar.
fn escape(typed: &str) -> String {
    let mut escaped = String::with_capacity(typed.len());
    for byte in typed.bytes() {
        match byte {
            0x21..=0x7e => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Responds to a request and explains the response.
fn explain(
    site: &Site,
    request: &str,
    security: SecurityHeaders,
    debug: bool,
) -> Result<Explanation, Corrupt> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let fields = ServerFields::new(&security.fields(), seconds);
    let archive = ArchiveRef { bytes: site.archive().bytes(), ..ArchiveRef::NONE };
    let mut connection = Connection::default();
    let mut output = Output::new();

    let mut head = Head::EMPTY;
    // Parse the request in the same way as the server. If it turns out to be malformed, we explain the error
    // response.
    match connection.next_request(request.as_bytes(), &mut head).1 {
        Step::Request => {}
        step => {
            let refusal = if let Step::Refused(refusal) = step { refusal } else { Refusal::RequestLine };
            let answer = site.refusal(refusal.status());
            let files = SourceFiles::read(site.archive())?;
            let mut reasons =
                vec!["The request is malformed, so the server would close the connection.".to_owned()];
            reasons.extend(describe_body(&files, &answer, None, None, debug));
            connection.refuse(&Response { answer: &answer, archive, fields: &fields }, &mut output);
            return Ok(Explanation::new(reasons, &answer, output));
        }
    }

    let mut scratch = Scratch::default();
    scratch.set_now(seconds);
    let answer = site.answer(&head.common.request, &mut scratch);

    // Before responding with an error or a fallback page, the server tries its built-in pages.
    let mut buffer = KeyBuffer::new();
    let target = Target::parse(head.common.request.target);
    if !matches!(answer.reason, Reason::Path(_) | Reason::Method | Reason::Options)
        && let Some(target) = target
        && let Some(page) = special_pages(false).response_head(target.path, &fields)
    {
        let reason = "The site has nothing here, so a built-in page of the server answers (`--special-pages-disable` removes it).";
        return Ok(Explanation { reasons: vec![reason.to_owned()], head: page, body: None });
    }

    let key = target.and_then(|target| Key::from_target(target.path, &mut buffer).ok());
    let host = target.and_then(|target| target.host(head.common.request.host));
    let files = SourceFiles::read(site.archive())?;
    let mut reasons = describe_reasons(site, &files, &head.common, &answer, key)?;
    if let Some(b"/__/cannery/version" | b"/__/cannery/sbom") = target.map(|target| target.path) {
        reasons.push("With `--special-pages-version`, the server has a built-in page here.".to_owned());
    }
    reasons.extend(describe_body(&files, &answer, host, key, debug));

    connection.respond(&head, &Response { answer: &answer, archive, fields: &fields }, &mut output);
    Ok(Explanation::new(reasons, &answer, output))
}

/// Explains why the response is this one, one sentence per line.
fn describe_reasons(
    site: &Site,
    files: &SourceFiles,
    head: &RequestHead<'_>,
    answer: &Answer<'_>,
    key: Option<Key<'_>>,
) -> Result<Vec<String>, Corrupt> {
    let host = Target::parse(head.request.target).and_then(|target| target.host(head.request.host));
    let mut lines = match key {
        Some(key) => vec![describe_source(site.archive(), files, host, key, answer)?],
        None => vec![describe_reason(answer.reason, key)],
    };

    if let Some(key) = key {
        lines.extend(describe_rule(site.archive(), files, host, key, answer.reason)?);
        lines.extend(describe_representations(site.archive(), host, key, &head.request)?);
    }

    let is_page = !matches!(answer.fields, Fields::Redirect(_)) && answer.status < 400;
    if is_page && matches!(answer.reason, Reason::Fallback(_) | Reason::Rule(_)) {
        lines.push(
            "It stands in for another path: header rules for this path don't decide how it is cached, nor describe its content."
                .to_owned(),
        );
    }

    if answer.status == 304 {
        lines.push(
            "The client has this version already, according to the conditions in its request.".to_owned(),
        );
    }
    Ok(lines)
}

/// Names the file, or the line of a rule file, from which the response comes.
///
/// When this is not in the archive, only the reason is given.
fn describe_source(
    archive: &Archive,
    files: &SourceFiles,
    host: Option<&[u8]>,
    key: Key<'_>,
    answer: &Answer<'_>,
) -> Result<String, Corrupt> {
    let reason = answer.reason;
    let record = find_record(archive, host, key)?;
    let resource = match &record {
        Some((_, Record::Resource(resource))) => Some(resource),
        _ => None,
    };
    let is_withdrawn = resource.is_some_and(|resource| resource.status == 410);
    let site = record.as_ref().and_then(|(site, _)| *site);

    let named = match reason {
        Reason::Path(Origin::File) => {
            let name = key_display::source_path(site, key.bytes());
            Some(format!("The file `{}` has this path.", display_name(&name)))
        }
        Reason::Path(Origin::Alias) => resource.and_then(|resource| {
            let name = files.find_alias(site, key.bytes(), resource)?;
            let name = display_name(name);
            Some(if key.is_directory() {
                format!("The file `{name}` answers: it is the index page of this folder.")
            } else {
                format!("The file `{name}` answers: its suffix may be left out.")
            })
        }),
        Reason::Path(Origin::Rule) => rule_line(archive, site, RuleId::Path(key.bytes()))?
            .map(|line| format!("The rule at `{line}` is for exactly this path."))
            .or_else(|| {
                is_withdrawn
                    .then(|| "A file of an earlier release had this path. It was withdrawn.".to_owned())
            }),
        Reason::Rule(ordinal) => rule_line(archive, None, RuleId::Ordinal(ordinal))?
            .map(|line| format!("The rule at `{line}` answers:")),
        Reason::Fallback(covered) => match answer.body {
            Body::Archive(extent) => files.with_body(extent, |name| is_in(name, &key.bytes()[..covered])),
            _ => None,
        }
        .map(|name| format!("Nothing has this path: the fallback page `{}` answers.", display_name(name))),
        _ => None,
    };

    // The archive may have been built without a manifest, for example, or without source files.
    Ok(named.unwrap_or_else(|| describe_reason(reason, Some(key))))
}

/// A record and its site, which is `None` for the default site.
type SiteRecord<'a> = (Option<&'a [u8]>, Record<'a>);

/// Looks for a record with exactly this path. If several of the host's sites have one, the first of them
/// wins.
fn find_record<'a>(
    archive: &'a Archive,
    host: Option<&'a [u8]>,
    key: Key<'_>,
) -> Result<Option<SiteRecord<'a>>, Corrupt> {
    for site in Sites::new(archive, host) {
        let site = site?;
        if let Some(record) = archive.path(site, key)? {
            return Ok(Some((site, record)));
        }
    }
    Ok(None)
}

/// Identifies a rule in the manifest.
///
/// Patterns are identified by their position, all others by their path.
#[derive(Clone, Copy)]
enum RuleId<'k> {
    Ordinal(u32),
    Path(&'k [u8]),
}

/// Returns the file and line of a rule, unless the manifest lacks them.
fn rule_line(archive: &Archive, site: Option<&[u8]>, rule: RuleId<'_>) -> Result<Option<String>, Corrupt> {
    let manifest = archive.manifest()?.and_then(|manifest| serde_json::from_slice(manifest).ok());
    let Some(Value::Object(manifest)) = manifest else { return Ok(None) };
    let Some(Value::Array(lines)) = manifest.get("rule_lines") else { return Ok(None) };

    let site = site.map(|site| String::from_utf8_lossy(site).into_owned());
    let found = lines.iter().find(|line| match rule {
        RuleId::Ordinal(ordinal) => line[2] == ordinal,
        RuleId::Path(key) => line[2] == *String::from_utf8_lossy(key) && line[3].as_str() == site.as_deref(),
    });

    Ok(found.map(|line| {
        let file =
            line[0].as_u64().and_then(|file| manifest.get("rule_files")?.get(usize::try_from(file).ok()?));
        one_line(&format!("{}:{}", file.and_then(Value::as_str).unwrap_or_default(), line[1]))
    }))
}

/// Returns the request's folder, which is the first `covered` bytes of the key.
fn folder(key: Option<Key<'_>>, covered: usize) -> String {
    let key = key.map_or(b"/".as_slice(), Key::bytes);
    one_line(&key_display::display(key.get(..covered).unwrap_or(key)))
}

fn describe_reason(reason: Reason, key: Option<Key<'_>>) -> String {
    match reason {
        Reason::Path(Origin::File) => "The file `index.html` has this path.".to_owned(),
        Reason::Path(Origin::Alias) => {
            "The path is another name of a source file: an index page, or a name without its suffix."
                .to_owned()
        }
        Reason::Path(Origin::Generated) => "The archiver generated this page: a folder listing.".to_owned(),
        Reason::Path(Origin::Carried) => {
            "A file of an earlier release has this path; it was carried forward.".to_owned()
        }
        Reason::Path(Origin::Rule) => "A rule for exactly this path answers.".to_owned(),
        Reason::Rule(ordinal) => format!("Rule {} of the site answers:", ordinal + 1),
        Reason::Slash => "The path exists with, or without, a slash at the end.".to_owned(),
        Reason::Fallback(covered) => {
            format!("Nothing has this path: the fallback page of {} answers.", folder(key, covered))
        }
        Reason::NotFound => "Nothing has this path.".to_owned(),
        Reason::MissingAsset => {
            "Nothing has this path. It is that of an asset, or the client has no use for a page, so no page answers in its place."
                .to_owned()
        }
        Reason::Precondition => {
            "A condition of the request does not hold: the client has another version.".to_owned()
        }
        Reason::Range => "The requested range is outside the content.".to_owned(),
        Reason::NotAcceptable => {
            "The request excludes every content coding that the archive has for this path.".to_owned()
        }
        Reason::Method => "A static resource does not allow this method.".to_owned(),
        Reason::Options => "`OPTIONS` has the same response for every path.".to_owned(),
        Reason::Host => "The archive does not serve this host.".to_owned(),
        Reason::Https => "Requests without TLS are redirected to https.".to_owned(),
        Reason::BadRequest => "The request is malformed.".to_owned(),
        Reason::Target => "The form of the request target is not supported.".to_owned(),
        Reason::InvalidPath(bad) => format!("The request target is not a path: {bad}."),
        Reason::LongLocation => "The target of the redirect would be too long.".to_owned(),
        Reason::Corrupt(corrupt) => format!("The archive is damaged: {corrupt}."),
    }
}

/// Describes the pattern and effect of the rule that answers, if any.
fn describe_rule(
    archive: &Archive,
    files: &SourceFiles,
    host: Option<&[u8]>,
    key: Key<'_>,
    reason: Reason,
) -> Result<Option<String>, Corrupt> {
    let Reason::Rule(wanted) = reason else { return Ok(None) };
    for site in Sites::new(archive, host) {
        for scope in archive.scopes(site?, key) {
            let (covered, scope) = scope?;
            for entry in scope.entries() {
                if let ScopeEntry::Rule(rule) = entry?
                    && rule.ordinal == wanted
                {
                    let folder = key_display::display(key.bytes().get(..covered).unwrap_or_default());
                    let pattern = one_line(&inspect::template(rule.pattern));
                    let when = if rule.force { "before any file" } else { "unless a file has the path" };
                    return Ok(Some(format!(
                        "{folder}{pattern} -> {}, {when}",
                        outcome(files, &rule.record)
                    )));
                }
            }
        }
    }
    Ok(None)
}

/// Describes the status and target of a rule.
fn outcome(files: &SourceFiles, record: &Record<'_>) -> String {
    match record {
        Record::Redirect(redirect) => format!("{} {}", redirect.status, inspect::redirect_target(redirect)),
        Record::Rewrite(rewrite) => format!("{} {}", rewrite.status, inspect::rewrite_target(rewrite)),
        Record::Resource(resource) => {
            let bodies = bodies(resource).unwrap_or_default();
            let name = bodies.into_iter().find_map(|body| files.with_body(body, |_| true));
            let name =
                name.map_or("a page of the site".to_owned(), |name| format!("`{}`", display_name(name)));
            format!("{} with {name}", resource.status)
        }
    }
}

/// Lists the stored codings, unless there is only one.
fn describe_representations(
    archive: &Archive,
    host: Option<&[u8]>,
    key: Key<'_>,
    request: &Request<'_>,
) -> Result<Option<String>, Corrupt> {
    let mut records = Sites::new(archive, host).map(|site| archive.path(site?, key));
    let Some(Record::Resource(resource)) = records.find_map(Result::transpose).transpose()? else {
        return Ok(None);
    };

    let stored = resource
        .representations()
        .map(|found| {
            found.map(|found| format!("{} {}", found.coding.name(), format::bytes(found.body.length)))
        })
        .collect::<Result<Vec<_>, _>>()?;

    let choice = if request.accept_encoding.is_absent() {
        "the request has no `Accept-Encoding`, so identity is preferred"
    } else {
        "`Accept-Encoding` decides"
    };
    Ok((stored.len() > 1).then(|| format!("It is stored as {}; {choice}.", stored.join(", "))))
}

/// Describes the body. With `debug`, this includes its position in the archive.
///
/// Returns `None` if there is no body, or if there is nothing to be said about it unless `debug` is set.
fn describe_body(
    files: &SourceFiles,
    answer: &Answer<'_>,
    host: Option<&[u8]>,
    key: Option<Key<'_>>,
    debug: bool,
) -> Option<String> {
    let position = |extent: Extent| {
        if debug {
            format!(" at byte {} of the archive", format::count(extent.position))
        } else {
            String::new()
        }
    };

    match answer.body {
        Body::Archive(extent) if let Fields::BuiltIn { page: Some(page), .. } = answer.fields => {
            let folder_key =
                key.map_or(b"/".as_slice(), |key| key.bytes().get(..page.covered).unwrap_or(b"/"));
            let name = files.error_page(answer.status, host, folder_key).map_or_else(
                || format!("the page of {}", folder(key, page.covered)),
                |name| format!("`{}`", display_name(name)),
            );
            Some(format!(
                "Its body is {name}, the page for this status, {}{}.",
                format::bytes(extent.length),
                position(extent)
            ))
        }
        Body::Archive(extent) => {
            debug.then(|| format!("Its body is {}{}.", format::bytes(extent.length), position(extent)))
        }
        Body::Multipart(multipart) => {
            Some(format!("Its body has several parts, {} in all.", format::bytes(multipart.length())))
        }
        Body::BuiltIn(_) => Some("Its body is a page that is built into the server.".to_owned()),
        Body::Empty => None,
    }
}

#[cfg(test)]
mod tests;
