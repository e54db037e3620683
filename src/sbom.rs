//! What the program is made of: the packages that it was locked to, as CycloneDX 1.5 JSON.
//!
//! The lock file is part of the program. It names what tests and tools need too: rather too much than too
//! little.

use serde_json::{Value, json};

const LOCK: &str = include_str!("../Cargo.lock");

/// The bill of materials.
#[must_use]
pub fn spell() -> String {
    let components: Vec<Value> = LOCK.split("[[package]]").skip(1).filter_map(component).collect();
    let bill = json!({
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

/// The same as text: name and version of a library on each line.
#[must_use]
pub fn spell_text() -> String {
    let components = LOCK.split("[[package]]").skip(1).filter_map(component);
    let word = |component: &Value, name: &str| component[name].as_str().unwrap_or_default().to_owned();
    components.map(|one| format!("{} {}\n", word(&one, "name"), word(&one, "version"))).collect()
}

/// One package of the lock file; nothing for our own.
fn component(package: &str) -> Option<Value> {
    let field = |name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"'))
    };
    let (name, version) = (field("name")?, field("version")?);
    let checksum = field("checksum")?;
    Some(json!({
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
    fn every_library_of_the_request_path_is_named() {
        let bill: Value = serde_json::from_str(&spell()).unwrap();
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        for name in ["blake3", "memmap2", "libc", "socket2", "signal-hook", "clap"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("cannery")));
    }
}
