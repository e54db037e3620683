//! The HTTP/3 connections of a worker, by key, and what the worker knows about each.

use std::time::Instant;

use cannery_secure::quic::ConnectionKey;

use super::connection::Connection;

/// A connection in the table.
pub(super) struct Slot {
    pub(super) connection: Connection,
    /// Whether the connection is among those that run next.
    pub(super) is_marked: bool,
    /// Whether the connection is counted among those that neither side has closed.
    pub(super) is_counted: bool,
    /// When its timer expires, if it has one.
    pub(super) timer: Option<Instant>,
}

/// Connections by the index of their key.
#[derive(Default)]
pub(super) struct Connections(Vec<Option<Slot>>);

impl Connections {
    /// Adds a connection under its key.
    pub(super) fn insert(&mut self, connection: Connection) {
        let index = connection.key().index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(Slot { connection, is_marked: false, is_counted: true, timer: None });
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, key: ConnectionKey) -> Option<Slot> {
        self.0.get_mut(key.index())?.take()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut Slot> {
        self.0.get_mut(key.index())?.as_mut()
    }

    /// Returns the connection with a key of this index.
    #[inline]
    pub(super) fn at_index(&mut self, index: usize) -> Option<&mut Connection> {
        Some(&mut self.0.get_mut(index)?.as_mut()?.connection)
    }

    /// Returns an index beyond those of all keys.
    pub(super) fn index_end(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.0.iter().flatten().map(|slot| &slot.connection)
    }
}
