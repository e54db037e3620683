//! The host's side as a state machine: takes the client's frames and returns what to do next.

use super::{Activate, Fetch, Frame, FrameError, FrameKind, Hello, Offer, Preview};
use crate::limits::RECIPE_BYTES_MAX;

/// A client's request, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// More frames are needed.
    More,
    /// Say hello.
    Greet(Hello),
    /// List the releases.
    List,
    /// Send this archive.
    Fetch(Fetch),
    /// Find out which bodies of this recipe are missing, then call [`HostSession::declined`] or [`HostSession::missing`].
    Stage {
        /// The release.
        offer: Offer,
        /// The compressed recipe.
        recipe: Vec<u8>,
    },
    /// The next bytes of the missing bodies.
    Bodies(Vec<u8>),
    /// The missing bodies are complete: call [`HostSession::staged`] once the release is.
    BodiesEnd,
    /// Serve this release.
    Activate(Activate),
    /// Select this preview, and list its releases.
    Preview(Preview),
    /// Remove the preview.
    Remove,
}

/// The state of a session.
#[derive(Debug, Default)]
enum State {
    /// The client hasn't said hello.
    #[default]
    Greeting,
    /// The next request can come.
    Ready,
    /// A recipe is being received.
    Recipe { offer: Offer, recipe: Vec<u8> },
    /// We are looking for the bodies of a recipe.
    Looking,
    /// The missing bodies are being received.
    Bodies,
    /// All bodies have arrived.
    Rebuilding,
}

/// A session with a client.
#[derive(Debug, Default)]
pub struct HostSession {
    state: State,
}

impl HostSession {
    /// Handles the next frame.
    ///
    /// # Errors
    /// Returns [`FrameError`] if the frame can't come now. The session is over then.
    pub fn handle(&mut self, frame: Frame) -> Result<Request, FrameError> {
        match (std::mem::take(&mut self.state), frame.kind) {
            (State::Greeting, FrameKind::Hello) => {
                let hello: Hello = frame.parse()?;
                self.state = State::Ready;
                Ok(Request::Greet(hello))
            }
            (State::Greeting, _) => Err(frame.unexpected("Hello")),

            (State::Ready, FrameKind::List) => self.stay_ready(Request::List),
            (State::Ready, FrameKind::Fetch) => {
                let fetch = frame.parse()?;
                self.stay_ready(Request::Fetch(fetch))
            }
            (State::Ready, FrameKind::Activate) => {
                let activate = frame.parse()?;
                self.stay_ready(Request::Activate(activate))
            }
            (State::Ready, FrameKind::Preview) => {
                let preview = frame.parse()?;
                self.stay_ready(Request::Preview(preview))
            }
            (State::Ready, FrameKind::Remove) => self.stay_ready(Request::Remove),
            (State::Ready, FrameKind::Offer) => {
                self.state = State::Recipe { offer: frame.parse()?, recipe: Vec::new() };
                Ok(Request::More)
            }
            (State::Ready, _) => Err(frame.unexpected("a request")),

            (State::Recipe { offer, mut recipe }, FrameKind::Data) => {
                if recipe.len() + frame.payload.len() > RECIPE_BYTES_MAX {
                    return Err(FrameError::StreamTooLong(RECIPE_BYTES_MAX));
                }
                recipe.extend_from_slice(&frame.payload);
                self.state = State::Recipe { offer, recipe };
                Ok(Request::More)
            }
            (State::Recipe { offer, recipe }, FrameKind::End) => {
                self.state = State::Looking;
                Ok(Request::Stage { offer, recipe })
            }
            (State::Recipe { .. }, _) => Err(frame.unexpected("the recipe")),

            (State::Bodies, FrameKind::Data) => {
                self.state = State::Bodies;
                Ok(Request::Bodies(frame.payload))
            }
            (State::Bodies, FrameKind::End) => {
                self.state = State::Rebuilding;
                Ok(Request::BodiesEnd)
            }
            (State::Bodies, _) => Err(frame.unexpected("contents")),

            (State::Looking | State::Rebuilding, _) => Err(frame.unexpected("nothing")),
        }
    }

    fn stay_ready(&mut self, request: Request) -> Result<Request, FrameError> {
        self.state = State::Ready;
        Ok(request)
    }

    /// The host already has the release that was offered, or it doesn't have the base of the patch.
    pub fn declined(&mut self) {
        self.state = State::Ready;
    }

    /// The host waits for the missing bodies.
    pub fn missing(&mut self) {
        self.state = State::Bodies;
    }

    /// The release is staged.
    pub fn staged(&mut self) {
        self.state = State::Ready;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Selector;

    fn hello() -> Frame {
        Frame::json(FrameKind::Hello, &Hello::own())
    }

    #[test]
    fn requests_come_in_order() {
        let mut session = HostSession::default();
        assert!(matches!(session.handle(hello()), Ok(Request::Greet(_))));
        assert_eq!(session.handle(Frame::empty(FrameKind::List)).unwrap(), Request::List);
        let offer = Offer { digest: "a".into(), base: None, signed: None, retries: false };
        assert_eq!(session.handle(Frame::json(FrameKind::Offer, &offer)).unwrap(), Request::More);
        let data = Frame { kind: FrameKind::Data, payload: b"xy".to_vec() };
        assert_eq!(session.handle(data.clone()).unwrap(), Request::More);
        assert_eq!(session.handle(data.clone()).unwrap(), Request::More);
        let stage = session.handle(Frame::empty(FrameKind::End)).unwrap();
        assert_eq!(stage, Request::Stage { offer, recipe: b"xyxy".to_vec() });

        session.missing();
        assert_eq!(session.handle(data).unwrap(), Request::Bodies(b"xy".to_vec()));
        assert_eq!(session.handle(Frame::empty(FrameKind::End)).unwrap(), Request::BodiesEnd);
        session.staged();
        let activate = Activate {
            release: Selector::Name("previous".into()),
            keep: Some(3),
            signed: None,
            settle_ms: None,
        };
        let frame = Frame::json(FrameKind::Activate, &activate);
        assert_eq!(session.handle(frame).unwrap(), Request::Activate(activate));
    }

    #[test]
    fn a_frame_out_of_order_ends_the_session() {
        for kind in [FrameKind::List, FrameKind::Data, FrameKind::Activate, FrameKind::Refused] {
            let mut session = HostSession::default();
            assert!(session.handle(Frame::empty(kind)).is_err(), "{kind:?}");
        }
        let mut session = HostSession::default();
        session.handle(hello()).unwrap();
        for kind in [FrameKind::Data, FrameKind::End, FrameKind::Releases] {
            assert!(session.handle(Frame::empty(kind)).is_err(), "{kind:?}");
            // The session starts over, so requests are refused until the next hello.
            assert!(session.handle(Frame::empty(FrameKind::List)).is_err());
            session.handle(hello()).unwrap();
        }
    }

    #[test]
    fn other_versions_are_compatible_if_they_overlap() {
        let hello = |protocol, protocol_oldest| Hello { cannery: "9.9.9".into(), protocol, protocol_oldest };
        assert!(hello(1, 1).check().is_ok());
        assert!(hello(7, 1).check().is_ok());
        assert!(hello(7, 3).check().is_err());
        assert!(hello(0, 0).check().is_err());
    }
}
