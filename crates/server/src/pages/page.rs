//! Pages that the server generates: admin and built-in pages, ACME challenges, and pages of a site with the
//! live reload script.
//!
//! They are rendered for each request because they are not requested often.

use std::borrow::Cow;

use cannery_wire::response_head::{put_field, status_line};

/// A page that the server generates.
pub(crate) struct Page<'a> {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) body: Cow<'a, [u8]>,
    /// Fields in addition to those that all pages have.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

/// A response with fields and a body that do not come from an archive.
pub(crate) struct OwnResponse {
    pub(crate) status: u16,
    /// Field lines in HTTP/1 syntax, except for `Content-Length` and `Connection`.
    pub(crate) lines: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl OwnResponse {
    /// Renders the head of the HTTP/1 response.
    pub(crate) fn head(&self, connection: Option<&str>) -> Vec<u8> {
        let mut out = status_line(self.status);
        out.extend_from_slice(&self.lines);
        put_field(&mut out, "Content-Length", self.body.len().to_string().as_bytes());
        if let Some(option) = connection {
            put_field(&mut out, "Connection", option.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

impl Page<'_> {
    /// Renders the head of the HTTP/1 response. `server_lines` are the fields that all responses have.
    pub(crate) fn head(&self, connection: Option<&str>, server_lines: &[u8]) -> Vec<u8> {
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
        out
    }
}
