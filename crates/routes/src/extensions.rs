//! Values of any type that middleware passes on with a request.

use std::any::Any;
use std::fmt;

/// At most one value of each type. There are few, so a list is enough.
#[derive(Default)]
pub(crate) struct Extensions(Vec<Box<dyn Any + Send + Sync>>);

impl Extensions {
    /// Adds a value, replacing the earlier value of the same type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        match self.0.iter_mut().find_map(|held| held.downcast_mut::<T>()) {
            Some(held) => *held = value,
            None => self.0.push(Box::new(value)),
        }
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.iter().find_map(|held| held.downcast_ref())
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let mut extensions = Extensions::default();
        extensions.insert(1_u8);
        extensions.insert("user");
        extensions.insert(2_u8);
        assert_eq!((extensions.get::<u8>(), extensions.get::<&str>()), (Some(&2), Some(&"user")));
        assert_eq!(extensions.get::<u16>(), None);
    }
}
