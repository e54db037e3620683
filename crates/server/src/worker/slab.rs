//! Stores the worker's connections in reusable slots, and finds them by token.

use cannery_eventloop::Token;

/// Values in numbered slots.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Head of the free list.
    first_free: Option<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// Incremented for each value. Events for an earlier value have a different generation, so we can tell.
    generation: u32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Occupied(T),
    Free { next: Option<u32> },
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { slots: Vec::new(), first_free: None, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Inserts the value that `make` returns for a token.
    pub(super) fn insert<E>(&mut self, make: impl FnOnce(Token) -> Result<T, E>) -> Result<Token, E> {
        let slot = self.first_free.unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Free { next: None } });
            u32::try_from(self.slots.len() - 1).expect("fewer connections than descriptors")
        });

        let entry = &mut self.slots[slot as usize];
        let State::Free { next } = entry.state else { unreachable!("the list holds free slots only") };
        self.first_free = Some(slot);
        let token = Token { slot, generation: entry.generation };

        // If `make` fails, the slot stays in the free list.
        entry.state = State::Occupied(make(token)?);
        self.first_free = next;
        self.len += 1;
        Ok(token)
    }

    /// Returns the value for a token, or `None` if it was removed.
    #[inline]
    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        match self.slots.get_mut(token.slot as usize)? {
            Slot { generation, state: State::Occupied(value) } if *generation == token.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Removes the value for a token. Does nothing if it was removed before.
    pub(super) fn remove(&mut self, token: Token) {
        if self.get_mut(token).is_some() {
            let entry = &mut self.slots[token.slot as usize];
            entry.state = State::Free { next: self.first_free };
            entry.generation = entry.generation.wrapping_add(1);
            self.first_free = Some(token.slot);
            self.len -= 1;
        }
    }

    /// Returns all values with their tokens.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        (0..).zip(&self.slots).filter_map(|(slot, entry)| match &entry.state {
            State::Occupied(value) => Some((Token { slot, generation: entry.generation }, value)),
            State::Free { .. } => None,
        })
    }

    /// Returns the token of the first value that is wanted, starting at `slot`.
    pub(super) fn find_from(&self, slot: u32, is_wanted: impl Fn(&T) -> bool) -> Option<Token> {
        (slot..).zip(self.slots.get(slot as usize..)?).find_map(|(slot, entry)| match &entry.state {
            State::Occupied(value) if is_wanted(value) => Some(Token { slot, generation: entry.generation }),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
