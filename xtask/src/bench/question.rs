//! What is asked in a scenario, spelled once for the checks here and once for the load generator.

use std::net::SocketAddrV4;

use super::answer::Answer;

/// A request, but for its target.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// `1.1`, or `1.0` as ab speaks it, which asks to keep the connection.
    version: &'static str,
    /// Name and value of each field but `Host`.
    fields: Vec<(String, String)>,
}

impl Question {
    pub(crate) fn new(fields: &[(&str, &str)]) -> Question {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Question { version: "1.1", fields: fields.iter().map(owned).collect() }
    }

    /// As ab asks.
    pub(crate) fn of_http_1_0(self) -> Question {
        let mut fields = vec![("Connection".to_owned(), "Keep-Alive".to_owned())];
        fields.extend(self.fields);
        Question { version: "1.0", fields }
    }

    /// As a browser asks again for what it has: with the tag and the date of the answer it got.
    pub(crate) fn again_after(&self, answer: &Answer) -> Question {
        let mut question = self.clone();
        for (condition, validator) in [("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified")] {
            if let Some(value) = answer.field(validator) {
                question.fields.push((condition.to_owned(), value.to_owned()));
            }
        }
        question
    }

    /// The bytes of the request.
    pub(crate) fn spell(&self, address: SocketAddrV4, target: &str) -> Vec<u8> {
        let mut text = format!("GET {target} HTTP/{}\r\nHost: {address}\r\n", self.version);
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// The fields as words for wrk and ab.
    pub(crate) fn words(&self) -> Vec<String> {
        let said_by_ab = |name: &str| self.version == "1.0" && name == "Connection";
        let fields = self.fields.iter().filter(|(name, _)| !said_by_ab(name));
        fields.map(|(name, value)| format!("{name}: {value}")).collect()
    }

    /// The codings that it accepts.
    pub(crate) fn codings(&self) -> &str {
        let accepted = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("Accept-Encoding"));
        accepted.map_or("", |(_, value)| value)
    }
}
