//! Unit tests of earlier releases: limits by number and by age.

use super::*;

fn kept(dates: &[(u64, Option<u64>)], options: &Options) -> Vec<u64> {
    let release = |(serial, released): &(u64, Option<u64>)| Release {
        serial: *serial,
        digest: serial.to_string(),
        released: *released,
        carried: Vec::new(),
    };
    let releases = dates.iter().map(release).map(|release| (rank(&release), release)).collect();
    let mut previous = Previous { releases, ..Previous::default() };
    previous.apply_limits(options);
    previous.releases.into_values().map(|release| release.serial).collect()
}

fn day(number: u64) -> Option<u64> {
    Some(number * SECONDS_PER_DAY)
}

#[test]
fn number_of_releases_is_limited() {
    let mut options = Options::new("a", "b");
    let all = [(1, None), (2, None), (3, None), (4, None)];
    assert_eq!(kept(&all, &options), [4, 3, 2], "three by default");
    options.previous_releases = 1;
    assert_eq!(kept(&all, &options), [4]);
    options.previous_releases = 0;
    assert_eq!(kept(&all, &options), [0u64; 0]);
}

#[test]
fn release_ages_from_its_replacement() {
    let mut options = Options::new("a", "b");
    options.released = day(100);
    options.previous_age_days = Some(7);
    // The first was current for ninety days until it was replaced five days ago.
    assert_eq!(kept(&[(1, day(5)), (2, day(95))], &options), [2, 1]);
    assert_eq!(kept(&[(1, day(5)), (2, day(92))], &options), [2], "replaced eight days ago");
    assert_eq!(kept(&[(1, day(5)), (2, None)], &options), [2, 1], "the date of its replacement is unknown");
    options.released = None;
    assert_eq!(kept(&[(1, day(5)), (2, day(6))], &options), [2, 1], "this one has no date to count from");
}
