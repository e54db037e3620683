//! The protocol between a client, who publishes, and a host, who has the releases.
//!
//! Each side sends frames: a byte for the kind, the length of the payload as four little-endian bytes, and the payload. Streams
//! are data frames followed by an end frame. All other payloads are JSON, so that versions can add fields.
//!
//! | client | host |
//! |---|---|
//! | `Hello` | `Hello` |
//! | `List` | `Releases` |
//! | `Preview` (since version 2) | `Releases` of this preview, which all other requests are about from now on |
//! | `Fetch` | a stream with the archive |
//! | `Offer`, a stream with the compressed recipe | `Known`; or `Baseless`; or `Missing` and a stream that lists bodies |
//! | a stream with these bodies, each after its digest | `Staged`; or `Missing` and a stream again, once |
//! | `Activate` | `Activated` |
//! | `Remove` (since version 2) | `Removed`: the preview with all of its releases |
//!
//! The client always speaks first. The host may send `Refused` instead of any response, and then closes the connection. If the
//! connection ends before `Activate`, the host serves what it served before. After `Baseless`, the client offers the recipe again,
//! but not as a patch. The second `Missing` lists the bodies again without those of releases that turned out to be damaged; it comes
//! only if the offer says that the client `retries`.

mod frame;
mod host;
mod message;
mod missing;

pub use frame::{Frame, FrameError, FrameKind, read_frame, write_frame, write_stream};
pub use host::{HostSession, Request};
pub use message::{
    Activate, Activated, Base, Fetch, Hello, Offer, Preview, PreviewPassword, Refusal, RefusalKind,
    ReleaseInfo, ReleaseState, Releases, Removed, Selector, Staged, TrustInfo,
};
pub use missing::{Missing, MissingError};

/// The newest version of the protocol that this program speaks.
pub const PROTOCOL: u32 = 2;

/// The first version of the protocol with previews. Earlier ones would ignore their passwords.
pub const PROTOCOL_WITH_PREVIEWS: u32 = 2;

/// The oldest version of the protocol that this program speaks.
pub const PROTOCOL_OLDEST: u32 = 1;
