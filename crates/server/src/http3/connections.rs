//! Table of the worker's HTTP/3 connections.

use std::time::Instant;

use cannery_transport::quic::ConnectionKey;

use super::connection::Connection;

/// An entry of the table.
pub(super) struct Slot {
    pub(super) connection: Connection,
    /// Whether the connection is going to run next.
    pub(super) is_marked: bool,
    /// Whether we are counting the connection as open.
    pub(super) is_counted: bool,
    /// Expiry of the timer, if it is armed.
    pub(super) timer: Option<Instant>,
}

/// Connections, indexed by their keys.
#[derive(Default)]
pub(super) struct Connections(Vec<Option<Slot>>);

impl Connections {
    /// Adds a connection at the index of the key.
    pub(super) fn insert(&mut self, connection: Connection) {
        let index = connection.key().index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(Slot { connection, is_marked: false, is_counted: true, timer: None });
    }

    pub(super) fn remove(&mut self, key: ConnectionKey) -> Option<Slot> {
        self.0.get_mut(key.index())?.take()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut Slot> {
        self.0.get_mut(key.index())?.as_mut()
    }

    /// Returns the connection at this index.
    #[inline]
    pub(super) fn at_index(&mut self, index: usize) -> Option<&mut Connection> {
        Some(&mut self.0.get_mut(index)?.as_mut()?.connection)
    }

    /// Returns the end of the index range.
    pub(super) fn index_end(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.0.iter().flatten().map(|slot| &slot.connection)
    }
}
