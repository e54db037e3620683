//! Software bill of materials, i.e. the packages in `Cargo.lock` as CycloneDX 1.5 JSON.
//!
//! The lock file is compiled into the program. While it also contains packages that are only used by tests and tools, listing
//! too many is better than missing a library.

use serde_json::Value;

const LOCK: &str = include_str!("../Cargo.lock");

/// Returns the bill of materials as JSON.
#[must_use]
pub fn json() -> String {
    let components: Vec<Value> = LOCK.split("[[package]]").skip(1).filter_map(component).collect();
    let bill = serde_json::json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": { "type": "application", "name": "cannery", "version": env!("CARGO_PKG_VERSION") },
        },
        "components": components,
    });
    format!("{bill:#}\n")
}

/// Renders the bill of materials as text. Each line has the name and version of a package.
#[must_use]
pub fn text() -> String {
    let components = LOCK.split("[[package]]").skip(1).filter_map(component);
    let field = |component: &Value, name: &str| component[name].as_str().unwrap_or_default().to_owned();
    components.map(|found| format!("{} {}\n", field(&found, "name"), field(&found, "version"))).collect()
}

/// Converts a package in the lock file to a component.
///
/// Our own packages do not have a checksum. We skip these by returning `None`.
fn component(package: &str) -> Option<Value> {
    let field = |name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"'))
    };
    let (name, version) = (field("name")?, field("version")?);
    let checksum = field("checksum")?;
    Some(serde_json::json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        "hashes": [{ "alg": "SHA-256", "content": checksum }],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_request_path_are_listed() {
        let bill: Value = serde_json::from_str(&json()).unwrap();
        let names: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["name"].as_str().unwrap())
            .collect();
        for name in ["blake3", "memmap2", "libc", "socket2", "signal-hook", "clap"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("cannery")));
    }
}
