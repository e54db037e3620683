//! Checks of responses before any load: status, content coding and content, by curl.
//!
//! We leave decoding to curl, so no code of ours that is measured is trusted with its own check.

use std::fs;
use std::net::SocketAddrV4;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::certificates::{self, Certificate};
use crate::forecast;
use crate::http::value_of;
use crate::project;
use crate::scenario::{Load, Scenario, Wire};
use crate::site::Site;

/// The expected content, without its coding.
pub(crate) enum Content {
    Any,
    Exactly(Vec<u8>),
    /// A weather forecast of now.
    Forecast,
}

impl Content {
    /// Returns the content of a target that a scenario expects.
    pub(crate) fn of_site(scenario: &Scenario, site: &Site, target: &str) -> Result<Content> {
        let content = match scenario.status {
            304 => Vec::new(),
            404 => site.content("/404.html")?,
            _ => site.content(target)?,
        };
        Ok(Content::Exactly(match scenario.range {
            Some([first, last]) => {
                content.get(first..=last).context("the range is outside the file")?.to_vec()
            }
            None => content,
        }))
    }

    fn compare(&self, received: &[u8]) -> Result<()> {
        match self {
            Content::Any => Ok(()),
            Content::Exactly(content) => {
                let [bytes, expected] = [received.len(), content.len()];
                ensure!(received == content, "content differs ({bytes} bytes, not {expected})");
                Ok(())
            }
            Content::Forecast => forecast::check(received).context("not a forecast"),
        }
    }
}

/// Requests some targets on one connection and compares each response with the status and the expected content. Returns the bytes of the
/// first response over HTTP/1, with its header section.
///
/// # Errors
///
/// Fails at the first difference.
pub(crate) fn check(
    scenario: &Scenario,
    wire: Wire,
    address: SocketAddrV4,
    headers: &[String],
    status: u16,
    expected: &[(&str, Content)],
) -> Result<f64> {
    let header_file = project::scratch("running/check/headers")?;
    let content_file = |number: usize| header_file.with_file_name(number.to_string());
    let mut curl = curl(wire)?;
    curl.arg("--compressed").arg("--dump-header").arg(&header_file);
    if matches!(scenario.load, Load::Ab { .. } | Load::STime) {
        // As these generators, which don't negotiate the protocol: `http/1.0` has no server.
        curl.args(["--http1.0", "--no-alpn"]);
    }
    if let Load::Ab { keep_alive: true } = scenario.load {
        curl.args(["--header", "Connection: Keep-Alive"]);
    }
    curl.args(headers.iter().flat_map(|header| ["--header", header]));
    curl.args(["--write-out", "%{http_code} %{size_header} %{size_download}\n"]);
    for (number, (target, _)) in expected.iter().enumerate() {
        curl.arg("--output").arg(content_file(number));
        curl.arg(format!("{}://{address}{target}", wire.scheme()));
    }

    let summary = project::output(&mut curl)?;
    let lines: Vec<_> = summary.lines().collect();
    ensure!(lines.len() == expected.len(), "{} responses for {} requests", lines.len(), expected.len());
    for (number, (line, (target, content))) in lines.iter().zip(expected).enumerate() {
        ensure!(line.starts_with(&status.to_string()), "{target}: status {status} expected, got {line}");
        // curl creates no file for a response without content.
        let received = fs::read(content_file(number)).unwrap_or_default();
        let _ = fs::remove_file(content_file(number));
        content.compare(&received).with_context(|| (*target).to_owned())?;
    }
    check_codings(&fs::read_to_string(&header_file)?, headers)?;

    let sizes: Result<Vec<f64>, _> = lines[0].split(' ').skip(1).map(str::parse).collect();
    Ok(sizes.context("curl printed no sizes")?.iter().sum())
}

/// Returns curl with the settings of a wire.
fn curl(wire: Wire) -> Result<Command> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "30"]);
    curl.env("OPENSSL_CONF", certificates::openssl_settings());
    curl.arg("--cacert").arg(Certificate::for_wire(wire)?.public);
    curl.arg(if wire == Wire::H2 { "--http2" } else { "--http1.1" });
    Ok(curl)
}

/// Fails if a response has a content coding that the request doesn't accept.
fn check_codings(response_headers: &str, request_headers: &[String]) -> Result<()> {
    let accepted = request_headers.iter().find_map(|header| value_of(header, "accept-encoding"));
    let accepted = accepted.unwrap_or_default();
    for coding in response_headers.lines().filter_map(|line| value_of(line, "content-encoding")) {
        let is_accepted = accepted.split([',', ';', ' ']).any(|word| word == coding);
        ensure!(is_accepted, "content coding `{coding}`, but only `{accepted}` is acceptable");
    }
    Ok(())
}

/// Returns the headers of a conditional request: the validators of the response to a request with these headers.
pub(crate) fn validators(
    wire: Wire,
    address: SocketAddrV4,
    target: &str,
    headers: &[String],
) -> Result<Vec<String>> {
    let mut curl = curl(wire)?;
    curl.args(headers.iter().flat_map(|header| ["--header", header]));
    curl.args(["--dump-header", "-", "--output", "/dev/null"]);
    let response = project::output(curl.arg(format!("{}://{address}{target}", wire.scheme())))?;
    let find = |name: &str| response.lines().find_map(|line| value_of(line, name));
    let mut conditions = Vec::new();
    for (condition, validator) in [("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")] {
        conditions.extend(find(validator).map(|value| format!("{condition}: {value}")));
    }
    ensure!(!conditions.is_empty(), "the response for {target} has no validator");
    Ok(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coding_must_be_acceptable() {
        let response = "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n";
        assert!(check_codings(response, &["accept-encoding: gzip, br;q=0.5".into()]).is_ok());
        assert!(check_codings(response, &["Accept-Encoding: gzip".into()]).is_err());
        assert!(check_codings(response, &[]).is_err());
        assert!(check_codings("HTTP/1.1 200 OK\r\n\r\n", &[]).is_ok());
    }
}
