//! Checks of responses before any load: status, content coding and content, by curl.
//!
//! We leave decoding to curl, so no code of ours that is measured is trusted with its own check.

use std::fs;
use std::net::SocketAddrV4;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::certificates::{self, Certificate};
use crate::project;
use crate::scenario::{Load, Scenario, Wire};

/// The expected response of a target.
pub(crate) struct Expected<'a> {
    pub(crate) target: &'a str,
    pub(crate) status: u16,
    /// The content without its coding, or `None` if any content is right.
    pub(crate) content: Option<Vec<u8>>,
}

/// Requests some targets on one connection and compares each response with the expected one. Returns the bytes of the
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
    expected: &[Expected<'_>],
) -> Result<f64> {
    let folder = project::scratch("running/check/headers")?.with_file_name("");
    let header_file = folder.join("headers");
    let mut curl = curl(wire)?;
    curl.arg("--compressed").arg("--dump-header").arg(&header_file);
    if let Load::Ab { keep_alive } = scenario.load {
        curl.arg("--http1.0");
        if keep_alive {
            curl.args(["--header", "Connection: Keep-Alive"]);
        }
    }
    for header in headers {
        curl.args(["--header", header]);
    }
    curl.args(["--write-out", "%{http_code} %{size_header} %{size_download}\n"]);
    for (number, Expected { target, .. }) in expected.iter().enumerate() {
        curl.arg("--output").arg(folder.join(number.to_string()));
        curl.arg(format!("{}://{address}{target}", wire.scheme()));
    }

    let summary = project::output(&mut curl)?;
    let lines: Vec<_> = summary.lines().collect();
    ensure!(lines.len() == expected.len(), "{} responses for {} requests", lines.len(), expected.len());
    for (number, (line, Expected { target, status, content })) in lines.iter().zip(expected).enumerate() {
        ensure!(line.starts_with(&status.to_string()), "{target}: status {status} expected, got {line}");
        let path = folder.join(number.to_string());
        // curl creates no file for a response without content.
        let received = fs::read(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        if let Some(content) = content {
            ensure!(
                &received == content,
                "{target}: content differs ({} bytes, not {})",
                received.len(),
                content.len()
            );
        }
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

/// Returns the headers of a conditional request: the validators of the response for a target.
pub(crate) fn validators(wire: Wire, address: SocketAddrV4, target: &str) -> Result<Vec<String>> {
    let mut curl = curl(wire)?;
    curl.args(["--dump-header", "-", "--output", "/dev/null"]);
    let response = project::output(curl.arg(format!("{}://{address}{target}", wire.scheme())))?;
    let find = |name: &str| response.lines().find_map(|line| value_of(line, name));
    let mut headers = Vec::new();
    for (condition, validator) in [("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")] {
        headers.extend(find(validator).map(|value| format!("{condition}: {value}")));
    }
    ensure!(!headers.is_empty(), "the response for {target} has no validator");
    Ok(headers)
}

/// Returns the value of a header line if it has this name.
fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (other, value) = line.split_once(':')?;
    other.eq_ignore_ascii_case(name).then(|| value.trim())
}

/// Reads the content of a target that a scenario expects.
pub(crate) fn expected_content(
    scenario: &Scenario,
    site: &crate::site::Site,
    target: &str,
) -> Result<Vec<u8>> {
    let content = match scenario.status {
        304 => return Ok(Vec::new()),
        404 => site.content("/404.html")?,
        _ => site.content(target)?,
    };
    match scenario.range {
        Some([first, last]) => {
            Ok(content.get(first..=last).context("the range is outside the file")?.to_vec())
        }
        None => Ok(content),
    }
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
