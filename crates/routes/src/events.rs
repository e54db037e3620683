//! Server-sent events (WHATWG HTML, section 9.2).

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::body::BodyWriter;
use crate::response::Response;

/// An event for [`EventWriter`].
///
/// ```
/// # extern crate cannery_routes as cannery;
/// let event = cannery::Event::new("21.5").with_name("temperature").with_id("7");
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Event {
    data: String,
    name: Option<String>,
    id: Option<String>,
    retry_ms: Option<u64>,
}

/// Sends events to one client. This can be done in any thread or task.
///
/// Clients connect again when the writer is dropped.
#[derive(Debug)]
pub struct EventWriter {
    body: BodyWriter,
}

impl Event {
    /// Creates an event with this data, which can have several lines.
    pub fn new(data: impl Into<String>) -> Event {
        Event { data: data.into(), ..Event::default() }
    }

    /// Sets the name, for listeners of the client. Line feeds are removed.
    pub fn with_name(self, name: &str) -> Event {
        Event { name: Some(single_line(name)), ..self }
    }

    /// Sets the ID, which the client sends in `Last-Event-ID` when it connects again. Line feeds are removed.
    pub fn with_id(self, id: &str) -> Event {
        Event { id: Some(single_line(id)), ..self }
    }

    /// Sets how long the client should wait before it connects again, in milliseconds.
    pub fn with_retry_ms(self, retry_ms: u64) -> Event {
        Event { retry_ms: Some(retry_ms), ..self }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.data.len() + 32);
        // Writing to a string cannot fail.
        if let Some(name) = &self.name {
            let _ = writeln!(text, "event: {name}");
        }
        if let Some(id) = &self.id {
            let _ = writeln!(text, "id: {id}");
        }
        if let Some(retry_ms) = self.retry_ms {
            let _ = writeln!(text, "retry: {retry_ms}");
        }
        // A carriage return ends a line as well, so it must not start a field.
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        text
    }
}

/// Removes all characters that would end the line, and NUL, which makes clients ignore an ID.
fn single_line(text: &str) -> String {
    text.chars().filter(|character| !matches!(character, '\n' | '\r' | '\0')).collect()
}

impl Response {
    /// Creates a 200 and a writer for events, which the client gets with `EventSource`.
    ///
    /// In contrast to [`Response::stream`], this does not occupy a thread while there is no event. If all clients get the same events,
    /// use a [`Broadcast`](crate::Broadcast).
    ///
    /// ```
    /// # extern crate cannery_routes as cannery;
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// use cannery::{Event, Request, Response};
    ///
    /// fn countdown(_: &Request) -> Response {
    ///     let (mut writer, response) = Response::events();
    ///     thread::spawn(move || {
    ///         for number in (0..10).rev() {
    ///             writer.send(&Event::new(number.to_string()))?;
    ///             thread::sleep(Duration::from_secs(1));
    ///         }
    ///         std::io::Result::Ok(())
    ///     });
    ///     response
    /// }
    /// ```
    #[must_use]
    pub fn events() -> (EventWriter, Response) {
        let (body, response) = Response::channel("text/event-stream");
        (EventWriter { body }, response.with_header("Cache-Control", "no-store"))
    }
}

impl EventWriter {
    /// Sends an event. Blocks if the client is slower than the events.
    ///
    /// # Errors
    /// Returns an error if the client has left.
    pub fn send(&mut self, event: &Event) -> io::Result<()> {
        self.body.write_all(event.to_text().as_bytes())
    }

    /// Sends an event without blocking.
    ///
    /// # Errors
    /// Returns an error if the client has left, or [`io::ErrorKind::WouldBlock`] if it is slower than the events.
    pub fn try_send(&mut self, event: &Event) -> io::Result<()> {
        self.try_send_text(&event.to_text())
    }

    pub(crate) fn try_send_text(&mut self, text: &str) -> io::Result<()> {
        self.body.try_write_whole(text.as_bytes())
    }

    /// Sends an event, waiting for a slow client without blocking the thread.
    ///
    /// # Errors
    /// Returns an error if the client has left.
    pub async fn send_when_ready(&mut self, event: &Event) -> io::Result<()> {
        self.body.ready().await?;
        self.try_send(event)
    }

    /// Sends a comment, which clients ignore. Some proxies close connections that are idle, so you may want to do this from time to
    /// time. It also finds out if the client has left.
    ///
    /// # Errors
    /// Like [`EventWriter::try_send`].
    pub fn keep_alive(&mut self) -> io::Result<()> {
        self.body.try_write_whole(b":\n\n")
    }

    /// Returns `true` if the client has left.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.body.is_cancelled()
    }

    /// Ends the stream.
    pub fn finish(self) {
        self.body.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_one_field_per_line() {
        let event =
            Event::new("a\nb\r\nc\rid: forged").with_name("x\nid: forged").with_id("7").with_retry_ms(50);
        assert_eq!(
            event.to_text(),
            "event: xid: forged\nid: 7\nretry: 50\ndata: a\ndata: b\ndata: c\ndata: id: forged\n\n"
        );
        assert_eq!(Event::new("").to_text(), "data: \n\n");
    }

    #[test]
    fn slow_client_gets_no_part_of_an_event() {
        let (mut writer, response) = Response::events();
        let event = Event::new("x".repeat(1000));
        let sent = std::iter::repeat_with(|| writer.try_send(&event)).take_while(Result::is_ok).count();
        assert_eq!(writer.try_send(&event).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        writer.finish();
        let content = String::from_utf8(response.into_content().unwrap()).unwrap();
        assert_eq!(content.matches("data: ").count(), sent);
        assert!(content.ends_with("\n\n"));
    }
}
