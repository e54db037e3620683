//! `cannery explain`: how the server would answer a request, and why, without a server.
//!
//! The request is written, parsed and answered by the same code as the server's, so what is printed
//! is what would be sent. Only the fields that the server adds to every response by its own flags are left
//! out, since those flags are not known here. Files are found by their names and contents, rules by the
//! manifest. Never opens a socket.

use std::time::{SystemTime, UNIX_EPOCH};

use cannery_archive::{
    Archive, Corrupt, Extent, Key, KeyBuffer, Origin, Record, RecordKind, Resource, ScopeEntry, split_host,
};
use cannery_server::config::SecurityHeaders;
use cannery_site::{Answer, Body, Fields, Reason, Request, Scratch, Site, Sites, Target};
use cannery_wire::h1::{Connection, Head, Step};
use cannery_wire::{Output, Refusal, RequestHead, ServerFields};
use serde_json::Value;

use super::{inspect, key_display, open};
use crate::flags::server::special_pages;
use crate::flags::tools::Explain;
use crate::format;
use crate::output::{self, Failure, Paint, one_line};

/// The host that is asked if the command line names none.
const DEFAULT_HOST: &str = "localhost";

/// Runs what the command line asked for.
///
/// # Errors
/// The archive is damaged or none, or the request cannot be spelled.
pub fn run(flags: &Explain) -> Result<(), Failure> {
    let request = spell_request(flags)?;
    let site = Site::new(open::open(&flags.archive)?, true);
    let explained =
        explain(&site, &request, flags.debug, Paint::for_results()).map_err(open::corrupt(&flags.archive))?;
    output::print(explained)
}

/// The request as HTTP/1.1 sends it.
fn spell_request(flags: &Explain) -> Result<String, Failure> {
    let (host, target) = split_url(&flags.url);
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
            return Err(Failure::usage(format!("`{}` is not a field", one_line(field)))
                .hint("write it as `Name: value`, such as `Accept-Encoding: br`"));
        }
        has_host |= name.eq_ignore_ascii_case("host");
        request.push_str(&format!("{name}: {}\r\n", value.trim()));
    }
    if !has_host {
        request.push_str(&format!("Host: {}\r\n", host.map_or(DEFAULT_HOST.to_owned(), escape)));
    }
    request.push_str("\r\n");
    Ok(request)
}

/// A URL, or a path alone, taken apart: the host and the target. A fragment stays with the client.
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

/// Part of a URL as browsers spell what a person typed: with the bytes escaped that a request cannot hold.
fn escape(typed: &str) -> String {
    let mut spelled = String::with_capacity(typed.len());
    for byte in typed.bytes() {
        match byte {
            0x21..=0x7e => spelled.push(char::from(byte)),
            byte => spelled.push_str(&format!("%{byte:02X}")),
        }
    }
    spelled
}

/// The answer to a spelled request, for a person.
fn explain(site: &Site, request: &str, debug: bool, paint: Paint) -> Result<String, Corrupt> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let fields = ServerFields::new(&SecurityHeaders { basic: true, tls: false }.fields(), seconds);
    let (mut connection, mut output) = (Connection::default(), Output::new());
    let first_line = request.lines().next().unwrap_or_default();
    let mut head = Head::EMPTY;
    match connection.next_request(request.as_bytes(), &mut head).1 {
        Step::Request => {}
        step => {
            let refusal = if let Step::Refused(refusal) = step { refusal } else { Refusal::RequestLine };
            let answer = site.refusal(refusal.status());
            let why = "This is no request that a server may answer, so the connection would be closed.";
            let files = Files::of(site.archive())?;
            let body = body_in_words(&files, &answer, None, None, debug);
            let why: Vec<_> = [why.to_owned()].into_iter().chain(body).collect();
            connection.refuse(&answer, site.archive().bytes(), &fields, &mut output);
            return Ok(shown(first_line, &why, &mut output, paint));
        }
    }
    let mut scratch = Scratch::default();
    scratch.set_now(seconds);
    let answer = site.answer(&head.common.request, &mut scratch);
    let mut buffer = KeyBuffer::new();
    let target = Target::parse(head.common.request.target);
    if !matches!(answer.reason, Reason::Path(_) | Reason::Method | Reason::Options)
        && let Some(target) = target
        && let Some(page) = special_pages(false).response_head(target.path, &fields)
    {
        let why = "The site has nothing here, and the server a page of its own (`--special-pages-disable` removes it).";
        return Ok(shown_head(first_line, &[why.to_owned()], &page, paint));
    }
    let key = target.and_then(|target| Key::from_target(target.path, &mut buffer).ok());
    let host = target.and_then(|target| target.host(head.common.request.host));
    let files = Files::of(site.archive())?;
    let mut why = reasons(site, &files, &head.common, &answer, key)?;
    if let Some(b"/__/cannery/version" | b"/__/cannery/sbom") = target.map(|target| target.path) {
        why.push("With `--special-pages-version` the server has a page of its own here.".to_owned());
    }
    why.extend(body_in_words(&files, &answer, host, key, debug));
    connection.respond(&head, &answer, site.archive().bytes(), &fields, &mut output);
    Ok(shown(first_line, &why, &mut output, paint))
}

fn shown(first_line: &str, why: &[String], output: &mut Output, paint: Paint) -> String {
    shown_head(first_line, why, output.parts().0, paint)
}

fn shown_head(first_line: &str, why: &[String], head: &[u8], paint: Paint) -> String {
    let mut text = format!("{}\n\n", paint.strong(first_line));
    for line in why {
        text.push_str(&format!("  {line}\n"));
    }
    text.push('\n');
    let spelled = String::from_utf8_lossy(head).into_owned();
    let head = spelled.split("\r\n\r\n").next().unwrap_or_default();
    for line in head.lines() {
        text.push_str(&one_line(line));
        text.push('\n');
    }
    text
}

/// Why the answer is this one.
fn reasons(
    site: &Site,
    files: &Files,
    head: &RequestHead<'_>,
    answer: &Answer<'_>,
    key: Option<Key<'_>>,
) -> Result<Vec<String>, Corrupt> {
    let host = Target::parse(head.request.target).and_then(|target| target.host(head.request.host));
    let mut lines = match key {
        Some(key) => vec![what_answers(site.archive(), files, host, key, answer)?],
        None => vec![reason_in_words(answer.reason, key)],
    };
    if let Some(key) = key {
        lines.extend(rule(site.archive(), files, host, key, answer.reason)?);
        lines.extend(forms(site.archive(), host, key, &head.request)?);
    }
    if answer.status == 304 {
        lines.push("The client has this version already, by the conditions that it sent.".to_owned());
    }
    Ok(lines)
}

/// What answers a path: the file or the line of a rule file, if the archive tells.
fn what_answers(
    archive: &Archive,
    files: &Files,
    host: Option<&[u8]>,
    key: Key<'_>,
    answer: &Answer<'_>,
) -> Result<String, Corrupt> {
    let reason = answer.reason;
    let own = record_of(archive, host, key)?;
    let resource = match &own {
        Some((_, Record::Resource(resource))) => Some(resource),
        _ => None,
    };
    let site = own.as_ref().and_then(|(site, _)| *site);
    let named = match reason {
        Reason::Path(Origin::File) => {
            let name = source_name(site, key.bytes());
            Some(format!("The file `{}` has this path.", text_of(&name)))
        }
        Reason::Path(Origin::Alias) => resource.and_then(|resource| {
            let name = files.of_alias(site, key.bytes(), resource)?;
            let why = if key.is_directory() { "the index page of this folder" } else { "without its suffix" };
            Some(format!("The file `{}` answers: it is {why}.", text_of(name)))
        }),
        Reason::Path(Origin::Rule) => rule_line(archive, site, RuleName::Path(key.bytes()))?
            .map(|line| format!("The rule at `{line}` is for exactly this path.")),
        Reason::Rule(ordinal) => rule_line(archive, None, RuleName::Ordinal(ordinal))?
            .map(|line| format!("The rule at `{line}` answers:")),
        Reason::Fallback(covered) => match answer.body {
            Body::Archive(extent) => files.with_body(extent, |name| is_in(name, &key.bytes()[..covered])),
            _ => None,
        }
        .map(|name| format!("Nothing has this path: the fallback page `{}` answers.", text_of(name))),
        _ => None,
    };
    Ok(named.unwrap_or_else(|| reason_in_words(reason, Some(key))))
}

/// A record, and the site that it is of.
type SiteRecord<'a> = (Option<&'a [u8]>, Record<'a>);

/// The record under just this path, and the site that it is of.
fn record_of<'a>(
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

/// A rule as the manifest names it: those with a pattern by their place in the order, the others by their path.
#[derive(Clone, Copy)]
enum RuleName<'k> {
    Ordinal(u32),
    Path(&'k [u8]),
}

/// The file and line of a rule. `None` if the manifest does not have them.
fn rule_line(archive: &Archive, site: Option<&[u8]>, rule: RuleName<'_>) -> Result<Option<String>, Corrupt> {
    let manifest = archive.manifest()?.and_then(|manifest| serde_json::from_slice(manifest).ok());
    let Some(Value::Object(manifest)) = manifest else { return Ok(None) };
    let Some(Value::Array(lines)) = manifest.get("rule_lines") else { return Ok(None) };
    let site = site.map(|site| String::from_utf8_lossy(site).into_owned());
    let found = lines.iter().find(|line| match rule {
        RuleName::Ordinal(ordinal) => line[2] == ordinal,
        RuleName::Path(key) => {
            line[2] == *String::from_utf8_lossy(key) && line[3].as_str() == site.as_deref()
        }
    });
    Ok(found.map(|line| {
        let file =
            line[0].as_u64().and_then(|file| manifest.get("rule_files")?.get(usize::try_from(file).ok()?));
        one_line(&format!("{}:{}", file.and_then(Value::as_str).unwrap_or_default(), line[1]))
    }))
}

/// The files that an archive was made of, as far as it knows them.
struct Files(Vec<(Vec<u8>, Vec<Extent>)>);

impl Files {
    fn of(archive: &Archive) -> Result<Files, Corrupt> {
        let mut files = Vec::new();
        for entry in archive.entries() {
            let entry = entry?;
            match entry.kind() {
                RecordKind::Source(path) => {
                    files.push((path.to_vec(), vec![archive.decode_source(&entry)?]));
                }
                RecordKind::Path(key) => {
                    if let Record::Resource(resource) = archive.decode_path(&entry)?
                        && resource.origin == Origin::File
                    {
                        let (site, path) = split_host(key);
                        files.push((source_name(site, path), bodies(&resource)?));
                    }
                }
                _ => {}
            }
        }
        files.sort_by(|(name, _), (other, _)| name.cmp(other));
        Ok(Files(files))
    }

    /// The file that answers under another name, by the order in which the archiver prefers them.
    fn of_alias(&self, site: Option<&[u8]>, key: &[u8], resource: &Resource<'_>) -> Option<&[u8]> {
        let bodies = bodies(resource).ok()?;
        let path = source_name(site, key);
        let is_alias = |name: &[u8]| {
            let rest = name.strip_prefix(path.as_slice())?;
            let rest = if key.ends_with(b"/") {
                rest.strip_prefix(b"_").unwrap_or(rest).strip_prefix(b"index")?
            } else {
                rest
            };
            (rest.starts_with(b".") && !rest.contains(&b'/')).then_some(())
        };
        self.0.iter().find_map(|(name, own)| {
            let is_same = own.iter().any(|extent| bodies.contains(extent));
            (is_same && is_alias(name).is_some()).then_some(name.as_slice())
        })
    }

    /// A file with this content and a name that fits.
    fn with_body(&self, body: Extent, fits: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
        let mut files = self.0.iter().filter(|(name, bodies)| bodies.contains(&body) && fits(name));
        files.next().map(|(name, _)| name.as_slice())
    }
}

/// The bodies of all forms of a resource.
fn bodies(resource: &Resource<'_>) -> Result<Vec<Extent>, Corrupt> {
    resource.representations().map(|form| form.map(|form| form.body)).collect()
}

/// The path in the source folder of what has this key on a site.
fn source_name(site: Option<&[u8]>, key: &[u8]) -> Vec<u8> {
    let path = key.strip_prefix(b"/").unwrap_or(key);
    match site {
        // All hosts below one begin with a dot in an archive, and with `*.` in the source folder.
        Some([b'.', host @ ..]) => [b"_hosts/*.", host, b"/", path].concat(),
        Some(host) => [b"_hosts/", host, b"/", path].concat(),
        None => path.to_vec(),
    }
}

/// Whether a source file stands in the folder of this key, whatever its site.
fn is_in(name: &[u8], folder: &[u8]) -> bool {
    let parent = &name[..name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)];
    let folder = folder.strip_prefix(b"/").unwrap_or(folder);
    parent == folder || parent.starts_with(b"_hosts/") && parent.ends_with(&[b"/", folder].concat())
}

/// A name for reading.
fn text_of(name: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(name))
}

/// The folder whose key has so many bytes of the one that was asked for.
fn folder(key: Option<Key<'_>>, covered: usize) -> String {
    let key = key.map_or(b"/".as_slice(), Key::bytes);
    one_line(&key_display::display(key.get(..covered).unwrap_or(key)))
}

fn reason_in_words(reason: Reason, key: Option<Key<'_>>) -> String {
    match reason {
        Reason::Path(Origin::File) => "The file `index.html` has this path.".to_owned(),
        Reason::Path(Origin::Alias) => {
            "The path is another name of a source file: an index page, or a name without its suffix."
                .to_owned()
        }
        Reason::Path(Origin::Generated) => "The archiver made this: a folder listing.".to_owned(),
        Reason::Path(Origin::Carried) => {
            "A file of an earlier release has this path; it was carried forward.".to_owned()
        }
        Reason::Path(Origin::Rule) => "A rule for exactly this path answers.".to_owned(),
        Reason::Rule(ordinal) => format!("Rule {} of the site answers:", ordinal + 1),
        Reason::Slash => "The path exists with, or without, a slash at its end.".to_owned(),
        Reason::Fallback(covered) => {
            format!("Nothing has this path: the fallback page of {} answers.", folder(key, covered))
        }
        Reason::NotFound => "Nothing has this path.".to_owned(),
        Reason::MissingAsset => {
            "Nothing has this path, and by its suffix it is an asset, for which no fallback page may answer."
                .to_owned()
        }
        Reason::Precondition => {
            "A condition of the request does not hold: the client has another version.".to_owned()
        }
        Reason::Range => "Nothing of the range that is wanted exists.".to_owned(),
        Reason::NotAcceptable => "The request forbids every coding that the archive holds.".to_owned(),
        Reason::Method => "The method is not one that a static resource allows.".to_owned(),
        Reason::Options => "`OPTIONS` is answered for every path alike.".to_owned(),
        Reason::Host => "The host is not one that is served here.".to_owned(),
        Reason::Https => "What is asked for in the clear is at https.".to_owned(),
        Reason::BadRequest => "What was sent is no request.".to_owned(),
        Reason::Target => "The target has no form that a server answers.".to_owned(),
        Reason::InvalidPath(bad) => format!("The target is no path: {bad}."),
        Reason::LongLocation => "The address to redirect to would be too long.".to_owned(),
        Reason::Corrupt(corrupt) => format!("The archive is damaged: {corrupt}."),
    }
}

/// The rule that answers, if one does.
fn rule(
    archive: &Archive,
    files: &Files,
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
                    let when = if rule.force { "before any file" } else { "where no file is" };
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

fn outcome(files: &Files, record: &Record<'_>) -> String {
    match record {
        Record::Redirect(redirect) => format!("{} {}", redirect.status, inspect::redirect_target(redirect)),
        Record::Rewrite(rewrite) => format!("{} {}", rewrite.status, inspect::rewrite_target(rewrite)),
        Record::Resource(resource) => {
            let bodies = bodies(resource).unwrap_or_default();
            let name = bodies.into_iter().find_map(|body| files.with_body(body, |_| true));
            let name = name.map_or("a page of the site".to_owned(), |name| format!("`{}`", text_of(name)));
            format!("{} with {name}", resource.status)
        }
    }
}

/// The forms in which the path's own content is held, if it has more than one to choose from.
fn forms(
    archive: &Archive,
    host: Option<&[u8]>,
    key: Key<'_>,
    request: &Request<'_>,
) -> Result<Option<String>, Corrupt> {
    let mut records = Sites::new(archive, host).map(|site| archive.path(site?, key));
    let Some(Record::Resource(resource)) = records.find_map(Result::transpose).transpose()? else {
        return Ok(None);
    };
    let forms = resource
        .representations()
        .map(|form| form.map(|form| format!("{} {}", form.coding.name(), format::bytes(form.body.length))));
    let forms = forms.collect::<Result<Vec<_>, _>>()?;
    let accepts = if request.accept_encoding.is_absent() {
        "the request has no `Accept-Encoding`, so the first choice is identity"
    } else {
        "`Accept-Encoding` chooses"
    };
    Ok((forms.len() > 1).then(|| format!("It is held as {}; {accepts}.", forms.join(", "))))
}

/// What the body is. Where it lies only matters to someone who looks into the archive.
fn body_in_words(
    files: &Files,
    answer: &Answer<'_>,
    host: Option<&[u8]>,
    key: Option<Key<'_>>,
    debug: bool,
) -> Option<String> {
    let place = |extent: Extent| match debug {
        true => format!(" at byte {} of the archive", format::count(extent.position)),
        false => String::new(),
    };
    match answer.body {
        Body::Archive(extent) if let Fields::BuiltIn { page: Some(page), .. } = answer.fields => {
            let folder_key =
                key.map_or(b"/".as_slice(), |key| key.bytes().get(..page.covered).unwrap_or(b"/"));
            let status = answer.status.to_string();
            let is_page = |name: &[u8]| {
                let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                let stem = file.split(|byte| *byte == b'.').next().unwrap_or_default();
                let stem = stem.strip_prefix(b"_").unwrap_or(stem);
                stem == status.as_bytes() && is_in(name, folder_key)
            };
            // A host's own pages first, if there is one.
            let of_host = host.map(|host| source_name(Some(host), b"/"));
            let is_of_host = |name: &[u8]| of_host.as_ref().is_some_and(|of_host| name.starts_with(of_host));
            let of_site = |name: &[u8]| is_page(name) && is_of_host(name);
            let mut names = files.0.iter().map(|(name, _)| name.as_slice());
            let name = names.clone().find(|name| of_site(name)).or_else(|| names.find(|name| is_page(name)));
            let name = name.map_or_else(
                || format!("the page of {}", folder(key, page.covered)),
                |name| format!("`{}`", text_of(name)),
            );
            Some(format!(
                "Its body is {name}, the page for this status, {}{}.",
                format::bytes(extent.length),
                place(extent)
            ))
        }
        Body::Archive(extent) => {
            debug.then(|| format!("Its body is {}{}.", format::bytes(extent.length), place(extent)))
        }
        Body::Multipart(multipart) => {
            Some(format!("Its body is several parts, {} in all.", format::bytes(multipart.length())))
        }
        Body::BuiltIn(_) => Some("Its body is a page that is built into the server.".to_owned()),
        Body::Empty => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample::Sample;

    fn explained(url: &str, fields: &[&str], method: &str) -> String {
        let sample = Sample::write();
        let flags = Explain {
            archive: sample.archive.clone(),
            url: url.into(),
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            method: method.into(),
            debug: false,
        };
        let request = spell_request(&flags).unwrap();
        explain(&Site::new(sample.open(), true), &request, false, Paint::none()).unwrap()
    }

    #[track_caller]
    fn assert_says(text: &str, expected: &[&str]) {
        for words in expected {
            assert!(text.contains(words), "{words:?} is missing:\n{text}");
        }
    }

    #[test]
    fn a_file_is_answered_with_its_head() {
        let text = explained("/index.html", &[], "GET");
        assert_says(
            &text,
            &["GET /index.html HTTP/1.1\n", "The file `index.html` has this path.", "HTTP/1.1 200 OK\n"],
        );
        assert_says(&text, &["Content-Type: text/html\n", "Content-Length: 34\n", "ETag: \"", "Date: "]);
        assert!(!text.contains("<!doctype"), "the body must not be printed:\n{text}");
    }

    #[test]
    fn another_name_of_a_file_names_the_file() {
        assert_says(&explained("/", &[], "GET"), &["The file `index.html` answers: it is the index page"]);
        assert!(!explained("/", &[], "GET").contains("at byte"));
    }

    #[test]
    fn a_rule_is_named_with_what_it_does() {
        let text = explained("/old/page?a=b", &[], "GET");
        assert_says(
            &text,
            &[
                "The rule at `_redirects:1` answers:",
                "/old/{0…} -> 301 /new/{0}, where no file is",
                "Location: /new/page?a=b\n",
            ],
        );
        let text = explained("/go", &[], "GET");
        assert_says(
            &text,
            &["The rule at `_redirects:2` is for exactly this path.", "Location: https://example.com/\n"],
        );
    }

    #[test]
    fn what_is_not_there_says_which_page_answers() {
        let text = explained("/missing", &[], "GET");
        assert_says(
            &text,
            &["Nothing has this path.", "`_404.html`, the page for this status", "HTTP/1.1 404 Not Found\n"],
        );
        let text = explained("http://h.test/missing", &[], "GET");
        assert_says(&text, &["a page that is built into the server", "HTTP/1.1 404 Not Found\n"]);
    }

    #[test]
    fn a_url_chooses_the_host_and_leaves_its_fragment() {
        let text = explained("https://h.test/index.html#top", &[], "GET");
        assert_says(&text, &["GET /index.html HTTP/1.1\n", "HTTP/1.1 200 OK\n"]);
    }

    #[test]
    fn an_error_names_the_folder_whose_page_it_has() {
        assert_says(
            &explained("/no/thing", &[], "GET"),
            &["`_404.html`, the page for this status", "HTTP/1.1 404 "],
        );
        assert_says(&explained("/", &[], "POST"), &["a page that is built into the server", "HTTP/1.1 405 "]);
        assert_says(&explained("/", &["Host: a b"], "GET"), &["is no request", "a page that is built into"]);
    }

    #[test]
    fn methods_and_fields_count() {
        assert_says(&explained("/", &[], "POST"), &["HTTP/1.1 405 ", "Allow: "]);
        assert_says(
            &explained("/", &["If-None-Match: *"], "GET"),
            &["HTTP/1.1 304 ", "this version already"],
        );
        let coded = explained("/a/coded only.txt", &["accept-encoding: gzip;q=0, identity;q=0"], "GET");
        assert_says(&coded, &["GET /a/coded%20only.txt HTTP/1.1\n", "HTTP/1.1 406 "]);
    }

    #[test]
    fn what_is_no_request_is_refused_as_the_server_would() {
        assert_says(
            &explained("/", &["Content-Length: 1", "Transfer-Encoding: chunked"], "GET"),
            &["HTTP/1.1 400 "],
        );
    }

    #[test]
    fn words_that_cannot_be_sent_are_wrong_usage() {
        let flags = |field: &str, method: &str| Explain {
            archive: "a".into(),
            url: "/".into(),
            fields: vec![field.to_owned()],
            method: method.to_owned(),
            debug: false,
        };
        assert!(spell_request(&flags("no colon", "GET")).is_err());
        assert!(spell_request(&flags("A: b\r\nC: d", "GET")).is_err());
        assert!(spell_request(&flags("A: b", "GE T")).is_err());
        assert!(spell_request(&flags("A: b", "GET")).is_ok());
    }
}
