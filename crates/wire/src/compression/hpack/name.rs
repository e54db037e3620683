//! Names of request fields. We only compare them once, when we decode them.

/// Defines all names and their text.
macro_rules! names {
    ($($name:ident $text:literal)*) => {
        /// A field name we need in requests.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is named after its text")]
        pub enum Name {
            $($name,)*
            /// Any other name.
            Other,
        }

        impl Name {
            /// Returns the name with this text. It must be in lower case.
            #[must_use]
            pub const fn from_bytes(text: &[u8]) -> Name {
                match text {
                    $($text => Name::$name,)*
                    _ => Name::Other,
                }
            }

            /// Returns the name's text, or nothing for [`Name::Other`].
            #[must_use]
            pub const fn as_bytes(self) -> &'static [u8] {
                match self {
                    $(Name::$name => $text,)*
                    Name::Other => b"",
                }
            }
        }
    };
}

names! {
    // Pseudo-header fields of requests (RFC 9113 §8.3.1).
    Authority b":authority"
    Method b":method"
    Path b":path"
    Scheme b":scheme"
    Accept b"accept"
    AcceptEncoding b"accept-encoding"
    Connection b"connection"
    ContentLength b"content-length"
    Expect b"expect"
    Forwarded b"forwarded"
    Host b"host"
    IfMatch b"if-match"
    IfModifiedSince b"if-modified-since"
    IfNoneMatch b"if-none-match"
    IfRange b"if-range"
    IfUnmodifiedSince b"if-unmodified-since"
    KeepAlive b"keep-alive"
    Priority b"priority"
    ProxyConnection b"proxy-connection"
    Range b"range"
    Referer b"referer"
    SecFetchDest b"sec-fetch-dest"
    Te b"te"
    TransferEncoding b"transfer-encoding"
    Upgrade b"upgrade"
    UserAgent b"user-agent"
    XForwardedFor b"x-forwarded-for"
}

impl Name {
    /// Returns `true` if this is a pseudo-header field of requests. Pseudo-header fields precede all other
    /// fields.
    #[must_use]
    pub const fn is_pseudo(self) -> bool {
        matches!(self, Name::Authority | Name::Method | Name::Path | Name::Scheme)
    }
}
