//! The host's side of a connection: does what a client asks for, with the releases of a [`Host`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use cannery_archive::{Archive, Digest, WriteError};

use crate::protocol::{
    Activate, Activated, Base, Frame, FrameError, FrameKind, Hello, HostSession, Missing, Offer, Preview,
    Refusal, RefusalKind, Releases, Removed, Request, Staged, read_frame, write_frame, write_stream,
};
use crate::recipe::bodies::BodyIndex;
use crate::recipe::rebuild::{RebuildError, rebuild};
use crate::recipe::{Recipe, RecipeError};

/// The releases of a host.
pub trait Host {
    /// Lists the releases, newest first.
    ///
    /// # Errors
    /// Returns a refusal if they can't be read.
    fn releases(&mut self) -> Result<Releases, Refusal>;

    /// Opens the release with this digest, or returns `None` if there is none.
    ///
    /// # Errors
    /// Returns a refusal if the releases can't be read.
    fn open(&mut self, digest: &str) -> Result<Option<(String, Arc<Archive>)>, Refusal>;

    /// Returns the name of the release with this digest, if it is there and intact.
    ///
    /// # Errors
    /// Returns a refusal if the releases can't be read.
    fn find_intact(&mut self, digest: &str) -> Result<Option<String>, Refusal> {
        let found = self.open(digest)?;
        Ok(found.filter(|(_, archive)| archive.verify_digest().is_ok()).map(|(name, _)| name))
    }

    /// Decides whether a release may be staged, before anything is transferred.
    ///
    /// # Errors
    /// Returns a refusal if it isn't signed as the host demands, for example.
    fn admit(&mut self, offer: &Offer) -> Result<(), Refusal>;

    /// Opens the releases whose bodies may be part of a new one, best first.
    fn sources(&mut self) -> Vec<Source>;

    /// Creates an empty file for a new release. A file that was created before and not published is removed.
    ///
    /// # Errors
    /// Returns a refusal if that isn't possible.
    fn create(&mut self) -> Result<File, Refusal>;

    /// Makes the file a release, durably. Returns the name of the release.
    ///
    /// # Errors
    /// Returns a refusal if that isn't possible. The file is removed then.
    fn publish(&mut self, file: File) -> Result<String, Refusal>;

    /// Serves a release.
    ///
    /// # Errors
    /// Returns a refusal if there is no such release, or if it can't be served.
    fn activate(&mut self, activate: &Activate) -> Result<Activated, Refusal>;

    /// Selects a preview. All other calls are about its releases from now on.
    ///
    /// # Errors
    /// Returns a refusal if the host has no previews, or if it has another site of this name.
    fn select_preview(&mut self, preview: &Preview) -> Result<(), Refusal> {
        Err(Refusal::new(RefusalKind::Host, format!("there is no place for the preview {:?}", preview.host)))
    }

    /// Removes the preview that was selected, with all of its releases.
    ///
    /// # Errors
    /// Returns a refusal if none was selected, or if it can't be removed.
    fn remove_preview(&mut self) -> Result<Removed, Refusal> {
        Err(Refusal::new(RefusalKind::Protocol, "no preview was selected"))
    }
}

/// A release of this machine whose bodies may be part of a new one.
#[derive(Clone)]
pub struct Source {
    /// The name of its file.
    pub name: String,
    /// The archive.
    pub archive: Arc<Archive>,
}

/// Leaves out the sources that are damaged, and returns their names. This reads all of them.
pub fn drop_damaged(sources: &mut Vec<Source>) -> Vec<String> {
    let is_damaged = |source: &mut Source| source.archive.verify_digest().is_err();
    sources.extract_if(.., is_damaged).map(|source| source.name).collect()
}

/// Why a session has ended early.
enum Ending {
    /// The connection has ended, so the client can't be told.
    Gone(FrameError),
    /// The client should know.
    Refused(Refusal),
}

/// Serves a client until it closes the connection. Returns the refusal if there was one, after the client was told.
///
/// # Errors
/// Returns [`FrameError`] if the connection was lost.
pub fn serve(
    input: &mut dyn Read,
    output: &mut dyn Write,
    host: &mut dyn Host,
) -> Result<Option<Refusal>, FrameError> {
    let session = HostSession::default();
    let ended = Connection { input, output: &mut *output, host, session }.run();
    match ended {
        Ok(()) => Ok(None),
        Err(Ending::Gone(error)) if has_left(&error) => Ok(None),
        Err(Ending::Gone(error)) => Err(error),
        Err(Ending::Refused(refusal)) => {
            let told = write_frame(output, &Frame::json(FrameKind::Refused, &refusal));
            match told.and_then(|()| output.flush()).map_err(FrameError::Io) {
                Err(error) if !has_left(&error) => Err(error),
                _ => Ok(Some(refusal)),
            }
        }
    }
}

/// Whether the client has closed the connection without waiting for an answer. It has said why to its user, so a message of ours would
/// be the second one.
fn has_left(error: &FrameError) -> bool {
    matches!(error, FrameError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

struct Connection<'a> {
    input: &'a mut dyn Read,
    output: &'a mut dyn Write,
    host: &'a mut dyn Host,
    session: HostSession,
}

impl Connection<'_> {
    fn run(&mut self) -> Result<(), Ending> {
        loop {
            let frame = match read_frame(self.input) {
                Err(FrameError::Closed) => return Ok(()),
                frame => frame.map_err(frame_ending)?,
            };
            match self.session.handle(frame).map_err(frame_ending)? {
                Request::More => {}
                Request::Greet(hello) => {
                    // The answer helps the client even if there is no common version.
                    self.answer(&Frame::json(FrameKind::Hello, &Hello::own()))?;
                    hello.check().map_err(frame_ending)?;
                }
                Request::List => {
                    let releases = self.host.releases()?;
                    self.answer(&Frame::json(FrameKind::Releases, &releases))?;
                }
                Request::Preview(preview) => {
                    self.host.select_preview(&preview)?;
                    let releases = self.host.releases()?;
                    self.answer(&Frame::json(FrameKind::Releases, &releases))?;
                }
                Request::Remove => {
                    let removed = self.host.remove_preview()?;
                    self.answer(&Frame::json(FrameKind::Removed, &removed))?;
                }
                Request::Fetch(fetch) => self.send_archive(&fetch.digest)?,
                Request::Stage { offer, recipe } => self.stage(&offer, &recipe)?,
                Request::Activate(activate) => {
                    let activated = self.host.activate(&activate)?;
                    self.answer(&Frame::json(FrameKind::Activated, &activated))?;
                }
                Request::Bodies(_) | Request::BodiesEnd => {
                    unreachable!("the session expects contents only while a release is rebuilt")
                }
            }
        }
    }

    fn answer(&mut self, frame: &Frame) -> Result<(), Ending> {
        write_frame(self.output, frame)?;
        Ok(self.output.flush()?)
    }

    fn send_archive(&mut self, digest: &str) -> Result<(), Ending> {
        let found = self.host.open(digest)?;
        let (_, archive) = found.ok_or_else(|| {
            Refusal::new(RefusalKind::Request, format!("the host has no release with the digest {digest}"))
        })?;
        write_stream(self.output, archive.bytes(), &mut |_| {})?;
        self.answer(&Frame::empty(FrameKind::End))
    }

    fn stage(&mut self, offer: &Offer, compressed: &[u8]) -> Result<(), Ending> {
        self.host.admit(offer)?;
        if let Some(name) = self.host.find_intact(&offer.digest)? {
            self.session.declined();
            let staged = Staged { name, was_known: true, damaged: Vec::new() };
            return self.answer(&Frame::json(FrameKind::Known, &staged));
        }
        let base = match &offer.base {
            None => None,
            Some(base) => match self.base(base)? {
                Some(recipe) => Some(recipe),
                None => {
                    self.session.declined();
                    return self.answer(&Frame::empty(FrameKind::Baseless));
                }
            },
        };
        let recipe = Recipe::decompress(compressed, base.as_ref()).map_err(|error| recipe_refusal(&error))?;
        if recipe.digest().to_string() != offer.digest {
            let message = "the recipe is for another release than was offered";
            return Err(Refusal::new(RefusalKind::Protocol, message).into());
        }

        let mut sources = self.host.sources();
        let mut damaged = Vec::new();
        let file = match self.receive_bodies(&recipe, &sources)? {
            Rebuilt::Complete(file) => file,
            // All sources are read only now, because a damaged one is rare.
            Rebuilt::Damaged(_) if offer.retries => {
                damaged = drop_damaged(&mut sources);
                match self.receive_bodies(&recipe, &sources)? {
                    Rebuilt::Complete(file) => file,
                    Rebuilt::Damaged(name) => return Err(damage_refusal(&name).into()),
                }
            }
            Rebuilt::Damaged(name) => return Err(damage_refusal(&name).into()),
        };
        let name = self.host.publish(file)?;
        self.session.staged();
        self.answer(&Frame::json(FrameKind::Staged, &Staged { name, was_known: false, damaged }))
    }

    /// Asks for the bodies that no source has, and rebuilds the archive while they arrive.
    fn receive_bodies(&mut self, recipe: &Recipe, sources: &[Source]) -> Result<Rebuilt, Ending> {
        let index = BodyIndex::of(sources.iter().map(|source| &source.archive));
        // Create the file before the client sends anything, so that it doesn't do so in vain.
        let file = self.host.create()?;
        let missing = Missing::from_flags(recipe.bodies().map(|body| index.find(&body).is_none()));
        self.answer(&Frame::empty(FrameKind::Missing))?;
        write_stream(self.output, missing.bytes(), &mut |_| {})?;
        self.answer(&Frame::empty(FrameKind::End))?;

        self.session.missing();
        let mut bodies = BodyReader {
            input: &mut *self.input,
            session: &mut self.session,
            chunk: Vec::new(),
            at: 0,
            ending: None,
        };
        let error = match rebuild(recipe, &index, &mut bodies, file) {
            Ok((file, _)) => return bodies.finish().map(|()| Rebuilt::Complete(file)),
            Err(error) => error,
        };
        if let Some(ending) = bodies.ending.take() {
            return Err(ending);
        }
        let damaged = match error {
            RebuildError::Assemble(_) => index.find_damaged(recipe.bodies()),
            _ => None,
        };
        let damaged = damaged.and_then(|damaged| {
            sources
                .iter()
                .find(|source| Arc::ptr_eq(&source.archive, damaged))
                .map(|source| source.name.clone())
        });
        match damaged {
            Some(name) => bodies.drain().map(|()| Rebuilt::Damaged(name)),
            None => Err(rebuild_refusal(&error, recipe).into()),
        }
    }

    /// Returns the recipe that a patch was made for, or `None` if we can't make the same.
    fn base(&mut self, base: &Base) -> Result<Option<Recipe>, Ending> {
        let Some((_, archive)) = self.host.open(&base.digest)? else { return Ok(None) };
        let recipe = Recipe::of(&archive).ok();
        Ok(recipe.filter(|recipe| Digest::of(recipe.bytes()).to_string() == base.recipe_digest))
    }
}

/// The outcome of rebuilding an archive.
enum Rebuilt {
    Complete(File),
    /// The release with this name is damaged, and a part of it was needed.
    Damaged(String),
}

/// The missing bodies as a reader. Frames are read when their bytes are needed.
struct BodyReader<'a> {
    input: &'a mut dyn Read,
    session: &'a mut HostSession,
    chunk: Vec<u8>,
    at: usize,
    /// Why the stream has ended early.
    ending: Option<Ending>,
}

impl BodyReader<'_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Ending> {
        let frame = read_frame(self.input).map_err(|error| match error {
            FrameError::Closed => Ending::Gone(FrameError::Cut),
            other => frame_ending(other),
        })?;
        match self.session.handle(frame).map_err(frame_ending)? {
            Request::Bodies(bytes) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Reads the rest of the stream.
    fn drain(&mut self) -> Result<(), Ending> {
        while self.next()?.is_some() {}
        Ok(())
    }

    /// Checks that the stream ends here.
    fn finish(&mut self) -> Result<(), Ending> {
        let is_empty = self.at == self.chunk.len() && self.next()?.is_none();
        let message = "more contents arrived than were missing";
        if is_empty { Ok(()) } else { Err(Refusal::new(RefusalKind::Protocol, message).into()) }
    }
}

impl Read for BodyReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            self.chunk = match self.next() {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    let message = "fewer contents arrived than were missing";
                    self.ending = Some(Refusal::new(RefusalKind::Protocol, message).into());
                    return Ok(0);
                }
                Err(ending) => {
                    self.ending = Some(ending);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            };
            self.at = 0;
        }
        let count = buffer.len().min(self.chunk.len() - self.at);
        buffer[..count].copy_from_slice(&self.chunk[self.at..][..count]);
        self.at += count;
        Ok(count)
    }
}

impl From<Refusal> for Ending {
    fn from(refusal: Refusal) -> Ending {
        Ending::Refused(refusal)
    }
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Ending {
        Ending::Gone(FrameError::Io(error))
    }
}

fn frame_ending(error: FrameError) -> Ending {
    match error {
        FrameError::Io(_) | FrameError::Closed | FrameError::Cut => Ending::Gone(error),
        FrameError::Version { .. } => {
            let refusal = Refusal::new(RefusalKind::Protocol, error.to_string());
            Ending::Refused(refusal.hint("install the same version of Cannery on both machines"))
        }
        other => Ending::Refused(Refusal::new(RefusalKind::Protocol, other.to_string())),
    }
}

fn recipe_refusal(error: &RecipeError) -> Refusal {
    Refusal::new(RefusalKind::Request, error.to_string())
}

fn damage_refusal(name: &str) -> Refusal {
    Refusal::new(RefusalKind::Host, format!("the release {name} on the host is damaged"))
        .hint("delete it on the host, and push again; archives cannot be repaired")
}

/// Says why an archive could not be rebuilt.
fn rebuild_refusal(error: &RebuildError, recipe: &Recipe) -> Refusal {
    match error {
        RebuildError::Write(WriteError::Io(error)) => {
            let refusal = Refusal::new(RefusalKind::Write, format!("cannot write the release: {error}"));
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => refusal
                    .hint(format!("the release takes {} bytes: make room on the host", recipe.file_bytes())),
                _ => refusal,
            }
        }
        RebuildError::Assemble(_) => Refusal::new(RefusalKind::Request, error.to_string())
            .hint("check the archive with `cannery verify`"),
        _ => Refusal::new(RefusalKind::Request, error.to_string()),
    }
}
