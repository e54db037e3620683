//! The names of fields that a request is made of, so that nobody compares them twice.
//!
//! Never decides what a field means.

/// The names, each with what it is spelled.
macro_rules! names {
    ($($name:ident $text:literal)*) => {
        /// A field's name, as far as requests need to know it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is called what it is spelled")]
        pub enum Name {
            $($name,)*
            /// Any other.
            Other,
        }

        impl Name {
            /// The name that is spelled so, in small letters.
            #[must_use]
            pub const fn of(text: &[u8]) -> Name {
                match text {
                    $($text => Name::$name,)*
                    _ => Name::Other,
                }
            }

            /// How it is spelled; nothing for [`Name::Other`].
            #[must_use]
            pub const fn text(self) -> &'static [u8] {
                match self {
                    $(Name::$name => $text,)*
                    Name::Other => b"",
                }
            }
        }
    };
}

names! {
    // The pseudo-fields of a request (RFC 9113 §8.3.1).
    Authority b":authority"
    Method b":method"
    Path b":path"
    Scheme b":scheme"
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
    Te b"te"
    TransferEncoding b"transfer-encoding"
    Upgrade b"upgrade"
    UserAgent b"user-agent"
    XForwardedFor b"x-forwarded-for"
}

impl Name {
    /// Whether it is one of the pseudo-fields of a request, which come before the others.
    #[must_use]
    pub const fn is_pseudo(self) -> bool {
        matches!(self, Name::Authority | Name::Method | Name::Path | Name::Scheme)
    }
}
