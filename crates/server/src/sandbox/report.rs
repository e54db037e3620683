//! What a cage holds, for people.

use std::fmt;

/// What holds a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxReport {
    /// The rights that it gave up.
    pub privileges: Layer,
    /// The files and addresses that it cannot reach.
    pub filesystem: Layer,
    /// The system calls that are refused.
    pub system_calls: Layer,
    /// Files that the server will need and cannot reach from inside, a sentence each.
    pub unreachable: Vec<String>,
}

/// One part of a cage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Layer {
    /// It was not asked for.
    #[default]
    NotWanted,
    /// It is there, as these words say.
    There(String),
    /// It is there, but weaker than it could be; these words say what to do.
    Weak(String),
    /// It is not there; these words say why.
    Missing(String),
}

impl SandboxReport {
    /// The parts that are not in force although they were wanted, a sentence each.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.parts()
            .filter_map(|hold| if let Layer::Missing(words) = hold { Some(words.as_str()) } else { None })
    }

    /// What could be better if the server were told so, a sentence each.
    pub fn advice(&self) -> impl Iterator<Item = &str> {
        self.parts()
            .filter_map(|hold| if let Layer::Weak(words) = hold { Some(words.as_str()) } else { None })
    }

    fn parts(&self) -> impl Iterator<Item = &Layer> {
        [&self.privileges, &self.filesystem, &self.system_calls].into_iter()
    }
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SandboxReport { privileges, filesystem, system_calls, .. } = self;
        write!(f, "privileges {privileges}, files {filesystem}, system calls {system_calls}")
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::NotWanted => f.write_str("not held"),
            Layer::There(words) => f.write_str(words),
            Layer::Weak(words) => write!(f, "held in part ({words})"),
            Layer::Missing(words) => write!(f, "not held ({words})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_and_nothing_else() {
        let held = SandboxReport {
            privileges: Layer::There("none".into()),
            filesystem: Layer::Missing("no landlock".into()),
            ..SandboxReport::default()
        };
        assert_eq!(held.missing().collect::<Vec<_>>(), ["no landlock"]);
        assert_eq!(held.advice().count(), 0);
        assert_eq!(held.to_string(), "privileges none, files not held (no landlock), system calls not held");
    }
}
