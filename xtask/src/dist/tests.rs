//! Unit tests of the options of `cargo xtask dist`.

use super::*;

fn parse(line: &str) -> Result<Options, Error> {
    Options::parse(Words::new(line.split_whitespace().map(String::from)))
}

#[test]
fn all_targets_are_built_by_default() {
    let options = parse("").unwrap();
    assert_eq!(options.targets.len(), TARGETS.len());
    assert!(matches!(options.profile, Profile::Trained));
    assert!(!options.should_check && !options.allows_changes);
    assert!(parse("--dirty").unwrap().allows_changes);
    assert!(!options.is_complete && parse("--complete").unwrap().is_complete);
}

#[test]
fn servers_for_other_processors_have_no_profile() {
    let options = parse("").unwrap();
    let counted = options.targets.iter().filter(|target| options.counts_here(target));
    let triples: Vec<_> = counted.map(|target| target.triple).collect();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(triples, ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"]);
    }
    assert!(!parse("--without-profile").unwrap().counts_here(&TARGETS[0]));
}

#[test]
fn targets_can_be_chosen() {
    let options = parse("--target x86_64-unknown-linux-musl --without-profile --check").unwrap();
    let triples: Vec<_> = options.targets.iter().map(|target| target.triple).collect();
    assert_eq!(triples, ["x86_64-unknown-linux-musl"]);
    assert!(matches!(options.profile, Profile::Without) && options.should_check);
}

#[test]
fn wrong_options_are_refused() {
    for line in [
        "--target sparc-sun-solaris",
        "--profiles a --without-profile",
        "--programs a --target x86_64-unknown-linux-gnu --target x86_64-unknown-linux-musl",
        "--fast",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}
