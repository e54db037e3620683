//! What every connection of a worker uses in turn, and none of them keeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_eventloop::Now;
use cannery_secure::Context;
use cannery_site::Scratch;
use cannery_wire::h2::HeadStore;
use cannery_wire::{Output, ServerFields};

use super::memory_budget::Memory;
use super::recv::Share;
use super::send_batch::Due;
use super::transport::Buffers;
use crate::config::Timeouts;
use crate::content::Content;
use crate::observe::Observer;

/// How long an idle connection stays open once the server stops. A request that was under way when the order came is
/// answered, and the answer tells the client that it is the last.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// What every connection of a worker uses in turn.
pub(crate) struct Shared {
    pub(crate) content: Arc<Content>,
    pub(crate) fields: Fields,
    pub(crate) scratch: Scratch,
    /// Room for the heads of HTTP/2.
    pub(crate) heads: HeadStore,
    pub(crate) output: Output,
    /// Answers that are sent together with those of other connections.
    pub(crate) due: Due,
    pub(crate) buffers: Buffers,
    pub(crate) memory: Memory,
    pub(crate) timeouts: Option<Timeouts>,
    /// Whether HTTP/1 is spoken, and with whom no other protocol was agreed on.
    pub(crate) http1: bool,
    /// Whether HTTP/2 is spoken in the clear, with who begins with it.
    pub(crate) http2: bool,
    /// When the current release was taken up.
    pub(crate) content_since: Instant,
    /// The port of `https` that requests in the clear are sent to, if they are.
    pub(crate) https_port: Option<u16>,
    /// Whether each connection begins with a PROXY header.
    pub(crate) proxied: bool,
    pub(crate) now: Instant,
    /// Whether the worker stops: each connection ends after its next answer.
    pub(crate) is_draining: bool,
    /// Idle deadline for a connection that becomes idle now.
    pub(crate) idle_until: Option<Instant>,
    /// The same in seconds since 1970, as all that spells or compares dates was told.
    pub(crate) seconds: u64,
    pub(crate) observer: Observer,
    /// Bytes that a connection may receive and send in a turn.
    pub(crate) turn_bytes_max: u64,
    /// What is left of that to the connection whose turn it is, and of the worker's handshakes.
    pub(crate) share: Share,
    /// What makes TLS of connections, if there is any.
    pub(crate) tls: Option<Context>,
}

impl Shared {
    /// Sets the time. Dates change once a second: nobody need be told more often.
    #[inline]
    pub(crate) fn set_time(&mut self, now: Now) {
        self.now = now.instant;
        self.observer.begin_turn(now.instant);
        self.idle_until = self.idle().map(|idle| now.instant + idle);
        if now.unix_seconds != self.seconds {
            self.set_seconds(now.unix_seconds);
        }
    }

    /// Returns how long an idle connection is kept, if there is a limit.
    #[inline]
    fn idle(&self) -> Option<Duration> {
        if self.is_draining { Some(DRAIN_GRACE) } else { self.timeouts.map(|timeouts| timeouts.idle) }
    }

    /// The worker stops: connections are idle for no longer than a moment.
    pub(crate) fn begin_drain(&mut self) {
        self.is_draining = true;
        self.idle_until = Some(self.now + DRAIN_GRACE);
    }

    /// Tells the time to all that spells or compares dates, in seconds since 1970.
    #[cold]
    pub(crate) fn set_seconds(&mut self, seconds: u64) {
        self.seconds = seconds;
        self.fields.set_time(seconds);
        self.scratch.set_now(seconds);
        self.heads.set_now(seconds);
        self.observer.set_time(seconds);
    }

    /// Forgets what a connection has left behind that ended in the middle of its turn, and whatever it had borrowed.
    #[cold]
    pub(crate) fn begin_anew(&mut self) {
        self.output.clear();
        self.due.forget_last();
        self.buffers = Buffers::new();
        self.heads = HeadStore::new();
        self.heads.set_now(self.seconds);
    }
}

/// The fields that end every head.
pub(crate) struct Fields {
    plain: ServerFields,
    secured: ServerFields,
}

/// The fields that the server adds to every answer, each with its value.
#[derive(Debug, Clone)]
pub(crate) struct AddedFields {
    /// In the clear.
    pub(crate) plain: Vec<(&'static str, &'static str)>,
    /// Within TLS.
    pub(crate) secured: Vec<(&'static str, &'static str)>,
    /// Whether clients may keep permanent redirects.
    pub(crate) keeps_redirects: bool,
}

impl Fields {
    /// At a time in seconds since 1970.
    pub(crate) fn new(added: &AddedFields, seconds: u64) -> Fields {
        let [plain, secured] = [&added.plain, &added.secured]
            .map(|fields| ServerFields::new(fields, seconds).with_kept_redirects(added.keeps_redirects));
        Fields { plain, secured }
    }

    /// Sets the time.
    fn set_time(&mut self, seconds: u64) {
        self.plain.set_time(seconds);
        self.secured.set_time(seconds);
    }

    /// Those of a connection, in the clear or not.
    #[inline]
    pub(crate) fn of(&self, is_secured: bool) -> &ServerFields {
        if is_secured { &self.secured } else { &self.plain }
    }
}
