//! Reports which layers of a sandbox are in force.

use std::fmt;

/// The layers of a sandbox that are in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxReport {
    /// Dropped privileges.
    pub privileges: Layer,
    /// Restricted files and addresses.
    pub filesystem: Layer,
    /// Restricted system calls.
    pub system_calls: Layer,
    /// A sentence for each file that the server will need but cannot open from inside the sandbox.
    pub unreachable: Vec<String>,
}

/// State of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layer {
    /// The layer is disabled.
    #[default]
    Off,
    /// The layer is in force, as described by the text.
    Active(String),
    /// The layer is in force, but weak. The text is advice about improving it.
    Weak(String),
    /// The layer is missing for this reason.
    Missing(String),
}

impl SandboxReport {
    /// Returns a sentence for each layer that is enabled but missing.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.layers()
            .filter_map(|layer| if let Layer::Missing(reason) = layer { Some(reason.as_str()) } else { None })
    }

    /// Returns advice for each weak layer.
    pub fn advice(&self) -> impl Iterator<Item = &str> {
        self.layers()
            .filter_map(|layer| if let Layer::Weak(advice) = layer { Some(advice.as_str()) } else { None })
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
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
            Layer::Off => f.write_str("unrestricted"),
            Layer::Active(words) => f.write_str(words),
            Layer::Weak(words) => write!(f, "partly restricted ({words})"),
            Layer::Missing(words) => write!(f, "unrestricted ({words})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_layers_are_listed() {
        let report = SandboxReport {
            privileges: Layer::Active("none".into()),
            filesystem: Layer::Missing("no landlock".into()),
            ..SandboxReport::default()
        };
        assert_eq!(report.missing().collect::<Vec<_>>(), ["no landlock"]);
        assert_eq!(report.advice().count(), 0);
        assert_eq!(
            report.to_string(),
            "privileges none, files unrestricted (no landlock), system calls unrestricted"
        );
    }
}
