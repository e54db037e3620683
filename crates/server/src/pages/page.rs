//! A page that is the server's and of no site: what operators ask for, and what is below `/__/`.
//!
//! Spelled when it is asked for, by monitors and people; never on the way of a site.

use std::borrow::Cow;

use cannery_wire::response_head::{put_field, status_line};

/// A page that is the server's.
pub(crate) struct Page<'a> {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) body: Cow<'a, [u8]>,
    /// Fields besides those that every page has.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

impl Page<'_> {
    /// The whole answer as HTTP/1 has it, without the body if it is to `HEAD`; `server_lines` are those of every answer.
    pub(crate) fn spell(&self, is_head: bool, connection: Option<&str>, server_lines: &[u8]) -> Vec<u8> {
        let mut out = status_line(self.status);
        put_field(&mut out, "Content-Type", self.media_type.as_bytes());
        put_field(&mut out, "Content-Length", self.body.len().to_string().as_bytes());
        put_field(&mut out, "Cache-Control", b"no-store");
        for (name, value) in self.fields {
            put_field(&mut out, name, value.as_bytes());
        }
        if let Some(option) = connection {
            put_field(&mut out, "Connection", option.as_bytes());
        }
        out.extend_from_slice(server_lines);
        out.extend_from_slice(b"\r\n");
        if !is_head {
            out.extend_from_slice(&self.body);
        }
        out
    }
}
