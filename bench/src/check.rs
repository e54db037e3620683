//! Checks of responses before any load: status, content coding and content, by curl.
//!
//! We leave decoding to curl, so no code of ours that is measured is trusted with its own check.

use std::fs;
use std::net::SocketAddrV4;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::certificates;
use crate::forecast;
use crate::http::field_value;
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
    pub(crate) fn from_site(scenario: &Scenario, site: &Site, target: &str) -> Result<Content> {
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

/// Requests some targets on one connection and compares each response with the status and the expected content. Returns
/// the bytes of the first response over HTTP/1, with its header section.
pub(crate) fn check(
    scenario: &Scenario,
    wire: Wire,
    address: SocketAddrV4,
    headers: &[String],
    status: u16,
    expected: &[(&str, Content)],
) -> Result<f64> {
    let folder = project::empty_folder("running/check")?;
    let mut curl = curl(wire, headers)?;
    curl.arg("--compressed");
    if matches!(scenario.load, Load::Ab { .. } | Load::STime) {
        // As these generators, which don't negotiate the protocol: `http/1.0` has no server.
        curl.args(["--http1.0", "--no-alpn"]);
    }
    if let Load::Ab { keep_alive: true } = scenario.load {
        curl.args(["--header", "Connection: Keep-Alive"]);
    }
    curl.args(["--write-out", "%{http_code} %{size_header} %{size_download} %header{content-encoding}\n"]);
    for (number, (target, _)) in expected.iter().enumerate() {
        curl.arg("--output").arg(folder.join(number.to_string()));
        curl.arg(format!("{}://{address}{target}", wire.scheme()));
    }

    let summary = project::output(&mut curl)?;
    let lines: Vec<_> = summary.lines().collect();
    ensure!(lines.len() == expected.len(), "{} responses for {} requests", lines.len(), expected.len());
    let accepted =
        headers.iter().find_map(|header| field_value(header, "accept-encoding")).unwrap_or_default();
    let mut sizes = Vec::new();
    for (number, (line, (target, content))) in lines.into_iter().zip(expected).enumerate() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        let [code, header_bytes, content_bytes, coding] = words[..] else { bail!("curl printed {line}") };
        ensure!(code == status.to_string(), "{target}: status {status} expected, got {line}");
        ensure!(
            is_acceptable(coding, accepted),
            "{target}: content coding `{coding}`, but only `{accepted}` is acceptable"
        );
        // curl creates no file for a response without content.
        let received = fs::read(folder.join(number.to_string())).unwrap_or_default();
        content.compare(&received).with_context(|| (*target).to_owned())?;
        sizes.push(header_bytes.parse::<f64>()? + content_bytes.parse::<f64>()?);
    }
    sizes.first().copied().context("no targets")
}

/// Returns `true` if the value of `Accept-Encoding` has a content coding, or the response has none.
fn is_acceptable(coding: &str, accepted: &str) -> bool {
    coding.is_empty() || accepted.split([',', ';', ' ']).any(|word| word == coding)
}

/// Returns curl with the settings of a wire.
fn curl(wire: Wire, headers: &[String]) -> Result<Command> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "30"]);
    curl.env("OPENSSL_CONF", certificates::openssl_settings());
    curl.arg("--cacert").arg(certificates::folder(wire)?.join("public.pem"));
    curl.arg(if wire == Wire::H2 { "--http2" } else { "--http1.1" });
    curl.args(headers.iter().flat_map(|header| ["--header", header]));
    Ok(curl)
}

/// Returns the headers of a conditional request: the validators of the response to a request with these headers.
pub(crate) fn validators(
    wire: Wire,
    address: SocketAddrV4,
    target: &str,
    headers: &[String],
) -> Result<Vec<String>> {
    let mut curl = curl(wire, headers)?;
    let conditions = "If-None-Match: %header{etag}\nIf-Modified-Since: %header{last-modified}\n";
    curl.args(["--output", "/dev/null", "--write-out", conditions]);
    let conditions = project::output(curl.arg(format!("{}://{address}{target}", wire.scheme())))?;
    let validators: Vec<_> =
        conditions.lines().filter(|line| !line.ends_with(": ")).map(String::from).collect();
    ensure!(!validators.is_empty(), "the response for {target} has no validator");
    Ok(validators)
}
