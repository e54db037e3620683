//! Messages in frames. Unknown fields are ignored, so a version may add some.

use serde::{Deserialize, Serialize};

use super::{FrameError, PROTOCOL, PROTOCOL_OLDEST};
use cannery_trust::Signed;

/// The first message of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the program.
    pub cannery: String,
    /// The newest version of the protocol that it speaks.
    pub protocol: u32,
    /// The oldest version of the protocol that it speaks.
    pub protocol_oldest: u32,
}

impl Hello {
    /// Returns the message of this program.
    #[must_use]
    pub fn own() -> Hello {
        Hello {
            cannery: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            protocol_oldest: PROTOCOL_OLDEST,
        }
    }

    /// Checks that we have a version in common with the other side. It is the lower one of the two newest.
    ///
    /// # Errors
    /// Returns [`FrameError::Version`] if there is none.
    pub fn check(&self) -> Result<(), FrameError> {
        if self.protocol.min(PROTOCOL) >= self.protocol_oldest.max(PROTOCOL_OLDEST) {
            return Ok(());
        }
        Err(FrameError::Version {
            program: self.cannery.clone(),
            oldest: self.protocol_oldest,
            newest: self.protocol,
        })
    }
}

/// The releases of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Releases {
    /// The release directory, as the host knows it.
    pub directory: String,
    /// Whether that directory doesn't exist yet. Older hosts don't say it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_missing: bool,
    /// Newest first.
    pub releases: Vec<ReleaseInfo>,
    /// Set if the host accepts only signed releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustInfo>,
}

/// The state of a host that has public keys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TrustInfo {
    /// The site, if it is known yet.
    pub site: Option<String>,
    /// The highest sequence. The next statement must have a higher one.
    pub sequence: u64,
}

impl Releases {
    /// Returns the release that is served.
    #[must_use]
    pub fn current(&self) -> Option<&ReleaseInfo> {
        self.releases.iter().find(|release| release.current)
    }

    /// Returns the release with this digest.
    #[must_use]
    pub fn with_digest(&self, digest: &str) -> Option<&ReleaseInfo> {
        self.releases.iter().find(|release| release.digest.as_deref() == Some(digest))
    }

    /// Returns the highest serial, or 0 if there is no release.
    #[must_use]
    pub fn serial_max(&self) -> u64 {
        self.releases.iter().filter_map(|release| release.serial).max().unwrap_or(0)
    }
}

/// A release of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseInfo {
    /// The name of its file.
    pub name: String,
    /// Whether it is served.
    pub current: bool,
    /// The length of its file in bytes.
    pub bytes: u64,
    /// Its serial, unless it is damaged.
    pub serial: Option<u64>,
    /// Its digest, unless it is damaged.
    pub digest: Option<String>,
    /// Number of its paths.
    pub paths: u64,
    /// Its date in seconds since 1970.
    pub date: Option<u64>,
    /// Why it can't be opened.
    pub damaged: Option<String>,
    /// The statement about it, if it came with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Signed>,
    /// Whether it is or was served. Older hosts don't say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ReleaseState>,
}

/// Whether a release is or was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseState {
    /// It is served.
    Current,
    /// It is newer than the current one, and hasn't been served.
    Staged,
    /// It is newer than the current one, and a rollback has skipped it. It was probably served.
    RolledBack,
    /// It is older than the current one.
    Earlier,
    /// A state that a later version added.
    #[serde(other)]
    Other,
}

impl ReleaseState {
    /// Returns a word for lists, which is empty for releases that need none.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ReleaseState::Current => "current",
            ReleaseState::Staged => "staged",
            ReleaseState::RolledBack => "rolled back",
            ReleaseState::Earlier | ReleaseState::Other => "",
        }
    }
}

/// Asks for an archive of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The digest of the archive, in hexadecimal digits.
    pub digest: String,
}

/// Offers a release. A stream with the compressed recipe follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The digest of the archive, in hexadecimal digits.
    pub digest: String,
    /// If the recipe is a patch, the release whose recipe it was made for.
    pub base: Option<Base>,
    /// The statement about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Signed>,
    /// Whether the client answers a second `Missing`, which comes if a release of the host turns out to be damaged.
    #[serde(default)]
    pub retries: bool,
}

/// The base of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The digest of the archive, in hexadecimal digits.
    pub digest: String,
    /// The digest of its recipe, in hexadecimal digits. Another version of the program may make another recipe.
    pub recipe_digest: String,
}

/// The release is on the host, but isn't served yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The name of its file.
    pub name: String,
    /// Whether the host had it before.
    pub was_known: bool,
    /// The names of damaged releases of the host, whose contents were transferred again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// Which release to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selector {
    /// The release with this digest.
    Digest(String),
    /// A file name, a serial, or `previous`: what people write.
    Name(String),
}

/// Makes the host serve another of its releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activate {
    /// The release.
    pub release: Selector,
    /// How many releases to keep. Older ones that were pushed are removed.
    pub keep: Option<u32>,
    /// The statement about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Signed>,
    /// Milliseconds that the release must have had its name before. The host waits for the rest. Older hosts don't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_ms: Option<u64>,
}

/// The host serves the release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activated {
    /// The name of its file.
    pub name: String,
    /// Its serial.
    pub serial: u64,
    /// The name of the release that was served before.
    pub before: Option<String>,
    /// The names of the releases that were removed.
    pub removed: Vec<String>,
    /// Something that people should know.
    pub warning: Option<String>,
}

/// Selects a preview. Its settings take effect when a release is activated; those that are absent stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The host name of the preview, which is also the name of its release directory.
    pub host: String,
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The password that its visitors need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<PreviewPassword>,
}

/// A password, as a server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewPassword {
    /// Random text that comes before the password.
    pub salt: String,
    /// The digest of both, in hexadecimal digits.
    pub digest: String,
    /// Whether visitors may send it without TLS.
    pub plain: bool,
}

/// The preview is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Whether there was one.
    pub existed: bool,
}

/// The host can't do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Whose fault it is.
    pub kind: RefusalKind,
    /// The reason, as a sentence.
    pub message: String,
    /// The remedy, unless the message makes it clear.
    pub hint: Option<String>,
}

/// Whose fault a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The client asks for something that doesn't exist.
    Request,
    /// The host can't do it: its disk is full, for example.
    Host,
    /// The host can't write into the release directory. Earlier clients take this for `Other`.
    Write,
    /// The client doesn't speak the protocol.
    Protocol,
    /// A kind that a later version added.
    #[serde(other)]
    Other,
}

impl Refusal {
    /// Returns a refusal without a hint.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), hint: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Refusal {
        Refusal { hint: Some(hint.into()), ..self }
    }
}
