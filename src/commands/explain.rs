//! `cannery explain`: how the server would answer a request, and why, without a server.
//!
//! The request is spelled, read, answered and spelled by the same code as the server's, so what is printed
//! is what would be sent. Only the fields that the server adds to every answer by its own flags are left
//! out, for which flags it will run with is not known here. Never opens a socket.

use std::time::{SystemTime, UNIX_EPOCH};

use cannery_archive::{Archive, Corrupt, Key, KeyBuffer, Origin, Record, ScopeEntry};
use cannery_server::config::SecurityHeaders;
use cannery_site::{Answer, Body, Fields, Reason, Request, Scratch, Site, Sites, Target};
use cannery_wire::h1::{Connection, Head, Step};
use cannery_wire::{Output, Refusal, RequestHead, ServerFields};

use super::{inspect, open, paths};
use crate::flags::server::special_pages;
use crate::flags::tools::Explain;
use crate::say::{self, Failure, Paint, one_line};
use crate::text;

/// The host that is asked if the command line names none.
const DEFAULT_HOST: &str = "localhost";

/// Runs what the command line asked for.
///
/// # Errors
/// The archive is damaged or none, or the request cannot be spelled.
pub fn run(told: &Explain) -> Result<(), Failure> {
    let request = spell_request(told)?;
    let site = Site::new(open::open(&told.archive)?, true);
    let explained = explain(&site, &request, Paint::for_results()).map_err(open::corrupt(&told.archive))?;
    say::print(explained)
}

/// The request as HTTP/1.1 sends it.
fn spell_request(told: &Explain) -> Result<String, Failure> {
    let (host, target) = split_url(&told.url);
    let is_token = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    if told.method.is_empty() || !is_token(&told.method) {
        return Err(Failure::usage(format!("`{}` is not a method", one_line(&told.method))));
    }
    let slash = if target.starts_with(['/', '*']) { "" } else { "/" };
    let mut request = format!("{} {slash}{} HTTP/1.1\r\n", told.method, escape(target));
    let mut has_host = false;
    for field in &told.fields {
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
fn explain(site: &Site, request: &str, paint: Paint) -> Result<String, Corrupt> {
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
            let why: Vec<_> = [why.to_owned()].into_iter().chain(body_in_words(&answer, None)).collect();
            connection.refuse(&answer, site.archive().bytes(), &fields, &mut output);
            return Ok(shown(first_line, &why, &mut output, paint));
        }
    }
    let mut scratch = Scratch::default();
    scratch.set_now(seconds);
    let answer = site.answer(&head.asked.request, &mut scratch);
    let mut buffer = KeyBuffer::new();
    let target = Target::parse(head.asked.request.target);
    if !matches!(answer.reason, Reason::Path(_) | Reason::Method | Reason::Options)
        && let Some(target) = target
        && let Some(page) = special_pages(false).response_head(target.path, &fields)
    {
        let why = "The site has nothing here, and the server a page of its own (`--special-pages-disable` removes it).";
        return Ok(shown_head(first_line, &[why.to_owned()], &page, paint));
    }
    let key = target.and_then(|target| Key::from_target(target.path, &mut buffer).ok());
    let mut why = reasons(site, &head.asked, &answer, key)?;
    if let Some(b"/__/cannery/version" | b"/__/cannery/sbom") = target.map(|target| target.path) {
        why.push("With `--special-pages-version` the server has a page of its own here.".to_owned());
    }
    why.extend(body_in_words(&answer, key));
    connection.answer(&head, &answer, site.archive().bytes(), &fields, &mut output);
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
    head: &RequestHead<'_>,
    answer: &Answer<'_>,
    key: Option<Key<'_>>,
) -> Result<Vec<String>, Corrupt> {
    let host = Target::parse(head.request.target).and_then(|target| target.host(head.request.host));
    let mut lines = vec![reason_in_words(answer.reason, key)];
    if let Some(key) = key {
        lines.extend(rule(site.archive(), host, key, answer.reason)?);
        lines.extend(forms(site.archive(), host, key, &head.request)?);
    }
    if answer.status == 304 {
        lines.push("The client has this version already, by the conditions that it sent.".to_owned());
    }
    Ok(lines)
}

/// The folder whose key has so many bytes of the one that was asked for.
fn folder(key: Option<Key<'_>>, covered: usize) -> String {
    let key = key.map_or(b"/".as_slice(), Key::bytes);
    one_line(&paths::shown(key.get(..covered).unwrap_or(key)))
}

fn reason_in_words(reason: Reason, key: Option<Key<'_>>) -> String {
    match reason {
        Reason::Path(Origin::File) => "A source file has this path.".to_owned(),
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
        Reason::Nothing => "Nothing has this path.".to_owned(),
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
        Reason::NoRequest => "What was sent is no request.".to_owned(),
        Reason::Target => "The target has no form that a server answers.".to_owned(),
        Reason::BadPath(bad) => format!("The target is no path: {bad}."),
        Reason::LongLocation => "The address to redirect to would be too long.".to_owned(),
        Reason::Corrupt(corrupt) => format!("The archive is damaged: {corrupt}."),
    }
}

/// The rule that answers, if one does.
fn rule(
    archive: &Archive,
    host: Option<&[u8]>,
    key: Key<'_>,
    reason: Reason,
) -> Result<Option<String>, Corrupt> {
    let Reason::Rule(wanted) = reason else { return Ok(None) };
    for site in Sites::of(archive, host) {
        for scope in archive.scopes(site?, key) {
            let (covered, scope) = scope?;
            for entry in scope.entries() {
                if let ScopeEntry::Rule(rule) = entry?
                    && rule.ordinal == wanted
                {
                    let folder = paths::shown(key.bytes().get(..covered).unwrap_or_default());
                    let pattern = one_line(&inspect::template(rule.pattern));
                    let when = if rule.force { "before any file" } else { "where no file is" };
                    return Ok(Some(format!("{folder}{pattern} -> {}, {when}", outcome(&rule.record))));
                }
            }
        }
    }
    Ok(None)
}

fn outcome(record: &Record<'_>) -> String {
    match record {
        Record::Redirect(redirect) => format!("{} {}", redirect.status, inspect::redirect_target(redirect)),
        Record::Rewrite(rewrite) => format!("{} {}", rewrite.status, inspect::rewrite_target(rewrite)),
        Record::Resource(resource) => {
            format!("{}, a page that was found when the archive was built", resource.status)
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
    let mut records = Sites::of(archive, host).map(|site| archive.path(site?, key));
    let Some(Record::Resource(resource)) = records.find_map(Result::transpose).transpose()? else {
        return Ok(None);
    };
    let forms = resource
        .representations()
        .map(|form| form.map(|form| format!("{} {}", form.coding.name(), text::bytes(form.body.length))));
    let forms = forms.collect::<Result<Vec<_>, _>>()?;
    let accepts = if request.accept_encoding.is_absent() {
        "the request has no `Accept-Encoding`, so the first choice is identity"
    } else {
        "`Accept-Encoding` chooses"
    };
    Ok((forms.len() > 1).then(|| format!("It is held as {}; {accepts}.", forms.join(", "))))
}

fn body_in_words(answer: &Answer<'_>, key: Option<Key<'_>>) -> Option<String> {
    match answer.body {
        Body::Archive(extent) if let Fields::Own { page: Some(page), .. } = answer.fields => Some(format!(
            "Its body is the page of {} for this status, {} at byte {} of the archive.",
            folder(key, page.covered),
            text::bytes(extent.length),
            text::count(extent.position)
        )),
        Body::Archive(extent) => Some(format!(
            "Its body is {} at byte {} of the archive.",
            text::bytes(extent.length),
            text::count(extent.position)
        )),
        Body::Multipart(multipart) => {
            Some(format!("Its body is several parts, {} in all.", text::bytes(multipart.length())))
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
        let told = Explain {
            archive: sample.archive.clone(),
            url: url.into(),
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            method: method.into(),
        };
        let request = spell_request(&told).unwrap();
        explain(&Site::new(sample.open(), true), &request, Paint::none()).unwrap()
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
            &["GET /index.html HTTP/1.1\n", "A source file has this path.", "HTTP/1.1 200 OK\n"],
        );
        assert_says(&text, &["Content-Type: text/html\n", "Content-Length: 34\n", "ETag: \"", "Date: "]);
        assert!(!text.contains("<!doctype"), "the body must not be printed:\n{text}");
    }

    #[test]
    fn a_rule_is_named_with_what_it_does() {
        let text = explained("/old/page?a=b", &[], "GET");
        assert_says(
            &text,
            &[
                "Rule 1 of the site answers",
                "/old/{0…} -> 301 /new/{0}, where no file is",
                "Location: /new/page?a=b\n",
            ],
        );
        let text = explained("/go", &[], "GET");
        assert_says(&text, &["A rule for exactly this path", "Location: https://example.com/\n"]);
    }

    #[test]
    fn what_is_not_there_says_which_page_answers() {
        let text = explained("/missing", &[], "GET");
        assert_says(
            &text,
            &["Nothing has this path.", "the page of / for this status", "HTTP/1.1 404 Not Found\n"],
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
        assert_says(&explained("/no/thing", &[], "GET"), &["the page of / for this status", "HTTP/1.1 404 "]);
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
        let told = |field: &str, method: &str| Explain {
            archive: "a".into(),
            url: "/".into(),
            fields: vec![field.to_owned()],
            method: method.to_owned(),
        };
        assert!(spell_request(&told("no colon", "GET")).is_err());
        assert!(spell_request(&told("A: b\r\nC: d", "GET")).is_err());
        assert!(spell_request(&told("A: b", "GE T")).is_err());
        assert!(spell_request(&told("A: b", "GET")).is_ok());
    }
}
