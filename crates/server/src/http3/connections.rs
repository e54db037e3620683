//! The HTTP/3 connections of a worker, by key.

use cannery_secure::quic::ConnectionKey;

use super::connection::Connection;

/// Connections by the index of their key.
#[derive(Default)]
pub(super) struct Connections(Vec<Option<Connection>>);

impl Connections {
    /// Adds a connection under its key.
    pub(super) fn insert(&mut self, connection: Connection) {
        let index = connection.key().index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(connection);
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, key: ConnectionKey) -> Option<Connection> {
        self.0.get_mut(key.index())?.take()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        self.at_index(key.index())
    }

    /// Returns the connection whose key has this index.
    #[inline]
    pub(super) fn at_index(&mut self, index: usize) -> Option<&mut Connection> {
        self.0.get_mut(index)?.as_mut()
    }

    /// Returns an index beyond those of all keys.
    pub(super) fn index_end(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.0.iter().flatten()
    }
}
