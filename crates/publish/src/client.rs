//! The client's side of a connection: lists, fetches, stages and activates releases of a host.

use std::io::{self, Read, Write};

use cannery_archive::{Archive, Corrupt, Digest, RecordKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::{DATA_BYTES, MISSING_BYTES_MAX};
use crate::protocol::{
    Activate, Activated, Base, Fetch, Frame, FrameError, FrameKind, Hello, Missing, MissingError, Offer,
    Preview, Refusal, Releases, Removed, Staged, read_frame, write_frame, write_stream,
};
use crate::recipe::{Recipe, RecipeError};
use cannery_trust::Signed;

/// A connection to a host.
pub struct Client {
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
}

/// The costs of staging a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageReport {
    /// Where the release is.
    pub staged: Staged,
    /// Length of the compressed recipe in bytes, if it was sent.
    pub recipe_bytes: u64,
    /// Number of bodies that were sent.
    pub bodies: u64,
    /// Their total length in bytes.
    pub body_bytes: u64,
}

/// Why a host didn't do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// It says why.
    #[error(transparent)]
    Refused(Refusal),
    /// The connection has ended, or something else arrived.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The connection has ended while we were sending.
    #[error("the connection was lost: {0}")]
    Lost(io::Error),
    /// The host's list of missing contents is wrong.
    #[error(transparent)]
    Missing(#[from] MissingError),
    /// Our archive has no recipe.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Our archive is corrupt.
    #[error(transparent)]
    Archive(#[from] Corrupt),
    /// The fetched archive can't be written.
    #[error("cannot write what was fetched: {0}")]
    Write(io::Error),
}

impl Client {
    /// Says hello.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the other side is not a host of a compatible version.
    pub fn greet(
        input: Box<dyn Read + Send>,
        output: Box<dyn Write + Send>,
    ) -> Result<(Client, Hello), ClientError> {
        let mut client = Client { input, output };
        let hello: Hello = client.ask(FrameKind::Hello, &Hello::own(), FrameKind::Hello)?;
        hello.check()?;
        Ok((client, hello))
    }

    /// Says hello, and asks for an activation at the same time, so that this takes a single round trip. The host refuses the second
    /// message if it doesn't know our version. Callers should then call [`activated`](Client::activated).
    ///
    /// # Errors
    /// Returns [`ClientError`] if the other side is not a host of a compatible version.
    pub fn greet_and_activate(
        input: Box<dyn Read + Send>,
        output: Box<dyn Write + Send>,
        activate: &Activate,
    ) -> Result<Client, ClientError> {
        let mut client = Client { input, output };
        let hello = Frame::json(FrameKind::Hello, &Hello::own());
        let written = write_frame(&mut client.output, &hello)
            .and_then(|()| write_frame(&mut client.output, &Frame::json(FrameKind::Activate, activate)))
            .and_then(|()| client.output.flush());
        client.check_sent(written)?;
        client.receive_message::<Hello>(FrameKind::Hello)?.check()?;
        Ok(client)
    }

    /// Waits for the outcome of the activation that was asked for with the hello.
    ///
    /// # Errors
    /// As for [`activate`](Client::activate).
    pub fn activated(&mut self) -> Result<Activated, ClientError> {
        self.receive_message(FrameKind::Activated)
    }

    /// Lists the releases of the host.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the host refuses or the connection is lost.
    pub fn list(&mut self) -> Result<Releases, ClientError> {
        self.send(&Frame::empty(FrameKind::List))?;
        self.receive_message(FrameKind::Releases)
    }

    /// Selects a preview and lists its releases. All other requests are about these from now on.
    ///
    /// The host must speak [`PROTOCOL_WITH_PREVIEWS`](crate::protocol::PROTOCOL_WITH_PREVIEWS) or a later version.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the host refuses or the connection is lost.
    pub fn select_preview(&mut self, preview: &Preview) -> Result<Releases, ClientError> {
        self.ask(FrameKind::Preview, preview, FrameKind::Releases)
    }

    /// Removes the preview that was selected.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the host refuses or the connection is lost.
    pub fn remove_preview(&mut self) -> Result<Removed, ClientError> {
        self.send(&Frame::empty(FrameKind::Remove))?;
        self.receive_message(FrameKind::Removed)
    }

    /// Copies the archive with this digest to `out`, which should check it afterwards. `progress` gets the number of bytes
    /// received.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the host doesn't have the archive, the connection is lost, or `out` can't be written.
    pub fn fetch(
        &mut self,
        digest: &str,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ClientError> {
        self.send(&Frame::json(FrameKind::Fetch, &Fetch { digest: digest.to_owned() }))?;
        loop {
            let frame = self.receive()?;
            match frame.kind {
                FrameKind::Data => {
                    out.write_all(&frame.payload).map_err(ClientError::Write)?;
                    progress(frame.payload.len() as u64);
                }
                FrameKind::End => return Ok(()),
                _ => return Err(frame.unexpected("the archive").into()),
            }
        }
    }

    /// Stages a release: sends its recipe, as a patch of a base if there is one, and the bodies that the host is missing. A host
    /// may demand a signed statement about it.
    ///
    /// `plan` gets the total length of these bodies once it is known, and `progress` then the number of bytes sent.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the host can't stage it or the connection is lost. In both cases, it serves what it served before.
    pub fn stage(
        &mut self,
        archive: &Archive,
        recipe: &Recipe,
        base: Option<&Recipe>,
        signed: Option<&Signed>,
        plan: &mut dyn FnMut(u64),
        progress: &mut dyn FnMut(u64),
    ) -> Result<StageReport, ClientError> {
        let digest = archive.facts().digest.to_string();
        let mut report = StageReport {
            staged: Staged { name: String::new(), was_known: true, damaged: Vec::new() },
            recipe_bytes: 0,
            bodies: 0,
            body_bytes: 0,
        };

        let mut answer = self.offer(&digest, recipe, base, signed, &mut report)?;
        if answer.kind == FrameKind::Baseless && base.is_some() {
            answer = self.offer(&digest, recipe, None, signed, &mut report)?;
        }
        if answer.kind == FrameKind::Known {
            report.staged = answer.parse()?;
            return Ok(report);
        }
        // The second list comes if a release of the host is damaged.
        for _ in 0..2 {
            if answer.kind != FrameKind::Missing {
                break;
            }
            let missing = Missing::from_bytes(self.receive_stream(MISSING_BYTES_MAX)?);
            let flags = missing.flags(recipe.bodies().count())?;
            let missing = recipe.bodies().zip(&flags).filter(|(_, is_missing)| **is_missing);
            plan(missing.map(|(body, _)| body.length).sum());
            self.send_bodies(archive, &flags, &mut report, progress)?;
            answer = self.receive()?;
            if answer.kind == FrameKind::Staged {
                report.staged = answer.parse()?;
                return Ok(report);
            }
        }
        Err(answer.unexpected("the missing contents").into())
    }

    fn offer(
        &mut self,
        digest: &str,
        recipe: &Recipe,
        base: Option<&Recipe>,
        signed: Option<&Signed>,
        report: &mut StageReport,
    ) -> Result<Frame, ClientError> {
        let compressed = recipe.compress(base)?;
        report.recipe_bytes += compressed.len() as u64;
        let base = base.map(|base| Base {
            digest: base.digest().to_string(),
            recipe_digest: Digest::of(base.bytes()).to_string(),
        });
        self.send(&Frame::json(
            FrameKind::Offer,
            &Offer { digest: digest.to_owned(), base, signed: signed.cloned(), retries: true },
        ))?;
        let written = write_stream(&mut self.output, &compressed, &mut |_| {});
        self.check_sent(written)?;
        self.send(&Frame::empty(FrameKind::End))?;
        self.receive()
    }

    /// Sends the bodies with a flag, each after its digest. Small bodies share a frame.
    fn send_bodies(
        &mut self,
        archive: &Archive,
        flags: &[bool],
        report: &mut StageReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ClientError> {
        let mut flags = flags.iter();
        let mut pending: Vec<u8> = Vec::with_capacity(DATA_BYTES);
        for entry in archive.entries() {
            let entry = entry?;
            let RecordKind::Body(digest) = entry.kind() else { continue };
            if flags.next() != Some(&true) {
                continue;
            }
            report.bodies += 1;
            report.body_bytes += entry.data.len() as u64;
            pending.extend_from_slice(&digest.0);
            if pending.len() + entry.data.len() <= DATA_BYTES {
                pending.extend_from_slice(entry.data);
                continue;
            }
            self.send_data(&pending, progress)?;
            pending.clear();
            self.send_data(entry.data, progress)?;
        }
        self.send_data(&pending, progress)?;
        self.send(&Frame::empty(FrameKind::End))
    }

    fn send_data(&mut self, bytes: &[u8], progress: &mut dyn FnMut(u64)) -> Result<(), ClientError> {
        let written = write_stream(&mut self.output, bytes, progress);
        self.check_sent(written)
    }

    /// Makes the host serve a release.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the host refuses, or if the connection is lost. In the second case, it is unknown which release
    /// the host serves.
    pub fn activate(&mut self, activate: &Activate) -> Result<Activated, ClientError> {
        self.ask(FrameKind::Activate, activate, FrameKind::Activated)
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        kind: FrameKind,
        message: &impl Serialize,
        answer: FrameKind,
    ) -> Result<T, ClientError> {
        self.send(&Frame::json(kind, message))?;
        self.receive_message(answer)
    }

    fn send(&mut self, frame: &Frame) -> Result<(), ClientError> {
        let written = write_frame(&mut self.output, frame).and_then(|()| self.output.flush());
        self.check_sent(written)
    }

    /// If the host has closed the connection, it may have said why.
    fn check_sent(&mut self, written: io::Result<()>) -> Result<(), ClientError> {
        let Err(error) = written else { return Ok(()) };
        match self.receive() {
            Err(ClientError::Refused(refusal)) => Err(ClientError::Refused(refusal)),
            Err(ClientError::Frame(error)) => Err(ClientError::Frame(error)),
            _ => Err(ClientError::Lost(error)),
        }
    }

    fn receive(&mut self) -> Result<Frame, ClientError> {
        let frame = read_frame(&mut self.input)?;
        if frame.kind == FrameKind::Refused {
            return Err(ClientError::Refused(frame.parse()?));
        }
        Ok(frame)
    }

    fn receive_message<T: DeserializeOwned>(&mut self, kind: FrameKind) -> Result<T, ClientError> {
        let frame = self.receive()?;
        if frame.kind == kind { Ok(frame.parse()?) } else { Err(frame.unexpected("the response").into()) }
    }

    fn receive_stream(&mut self, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        loop {
            let frame = self.receive()?;
            match frame.kind {
                FrameKind::Data if bytes.len() + frame.payload.len() > bytes_max => {
                    return Err(FrameError::StreamTooLong(bytes_max).into());
                }
                FrameKind::Data => bytes.extend_from_slice(&frame.payload),
                FrameKind::End => return Ok(bytes),
                _ => return Err(frame.unexpected("a stream").into()),
            }
        }
    }
}
