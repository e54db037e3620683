//! What is asked in a scenario, spelled once for the checks here and once for the load generator.

use std::net::SocketAddrV4;

use super::answer::Answer;
use super::wire::{self, Wire};

/// A request, but for its target.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// `1.1`, or `1.0` as ab speaks it, which asks to keep the connection.
    version: &'static str,
    /// Name and value of each field but `Host`.
    fields: Vec<(String, String)>,
    wire: Wire,
}

impl Question {
    pub(crate) fn new(fields: &[(&str, &str)]) -> Question {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Question { version: "1.1", fields: fields.iter().map(owned).collect(), wire: wire::CLEAR }
    }

    /// The same over another wire.
    pub(crate) fn over(self, wire: Wire) -> Question {
        Question { wire, ..self }
    }

    /// The way that it goes.
    pub(crate) fn wire(&self) -> Wire {
        self.wire
    }

    /// As ab asks, who wants to keep the connection or not.
    pub(crate) fn of_http_1_0(self, keeps: bool) -> Question {
        let mut fields = Vec::new();
        if keeps {
            fields.push(("Connection".to_owned(), "Keep-Alive".to_owned()));
        }
        fields.extend(self.fields);
        Question { version: "1.0", fields, ..self }
    }

    /// Whether the connection is there for another question afterwards.
    pub(crate) fn keeps(&self) -> bool {
        let connection = self.fields.iter().find(|(name, _)| name == "Connection");
        match connection {
            Some((_, value)) => !value.eq_ignore_ascii_case("close"),
            None => self.version != "1.0",
        }
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

    /// The fields of the request's head over HTTP/2, whose names are in lower case (RFC 9113 §8.3.1).
    pub(crate) fn fields_of_http2(&self, address: SocketAddrV4, target: &str) -> Vec<(String, String)> {
        let authority = address.to_string();
        let head = [
            (":method", "GET"),
            (":scheme", self.wire.scheme()),
            (":authority", &authority),
            (":path", target),
        ];
        let mut fields: Vec<_> = head.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        fields.extend(self.fields.iter().map(|(name, value)| (name.to_lowercase(), value.clone())));
        fields
    }

    /// The fields as words for load generators.
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
