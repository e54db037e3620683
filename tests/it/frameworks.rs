//! The tests of conformance over programs of axum, hyper and actix-web, which send what the library returns.
//!
//! This program runs its own tests again, each with one of these programs as the server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{ONE_TRANSPORT, OTHER_SERVER, TIMEOUT_S};

/// The modules with tests of conformance.
const MODULES: [&str; 3] = ["conformance::", "conditional::", "negotiate::"];

/// A test that fails with another server, and how that server differs from `cannery-server`.
type Difference = (&'static str, &'static str);

/// Examples of the library, by the names of their programs, each with the differences of its HTTP library, and its own. axum receives
/// requests with hyper.
const PROGRAMS: [(&str, &[Difference], &[Difference]); 3] = [
    ("axum", &HYPER_DIFFERENCES, &[AXUM_DIFFERENCE]),
    ("hyper", &HYPER_DIFFERENCES, &[]),
    ("actix_web", &ACTIX_DIFFERENCES, &[]),
];

/// axum drops the content of a request after it has the response.
const AXUM_DIFFERENCE: Difference = (
    "conformance::methods::too_large_content_closes_the_connection",
    "hyper learns too late that nothing reads the content, and closes without `Connection: close`",
);

/// Tests of what hyper decides. They fail, except for [`DEPENDS_ON_TIMING`] at times, and all others pass.
const HYPER_DIFFERENCES: [Difference; 19] = [
    ("conformance::fields::too_many_or_too_large_fields_get_431", "its limit is 400 KB"),
    ("conformance::fields::upgrade_in_http_1_0_is_ignored", "it responds to HTTP/1.0 with that version"),
    (
        "conformance::framing::ambiguous_framing_closes_the_connection",
        "it ignores `Content-Length` if there is `chunked`",
    ),
    (
        "conformance::framing::chunked_content_and_trailers_are_ignored",
        "it closes the connection if the program doesn't read the content",
    ),
    ("conformance::framing::http_1_0_connections_persist_on_request", "it responds with HTTP/1.0"),
    (
        "conformance::framing::malformed_chunks_close_the_connection",
        "it doesn't parse content that the program doesn't read",
    ),
    ("conformance::framing::malformed_heads_close_the_connection", "it accepts a line feed alone"),
    (
        "conformance::framing::minor_versions_are_accepted_and_major_refused",
        "it accepts HTTP/1.0 and HTTP/1.1 only",
    ),
    (DEPENDS_ON_TIMING, "it doesn't close in stages"),
    ("conformance::framing::unknown_transfer_coding_gets_501", "it ignores codings before `chunked`"),
    (
        "conformance::methods::expect_100_continue_never_stalls",
        "it sends 100 only if the program reads the content",
    ),
    ("conformance::methods::refused_head_requests_get_no_content", "it refuses only some of these requests"),
    (
        "conformance::methods::unknown_expectation_fails",
        "it ignores unknown ones, as RFC 9110 §10.1.1 permits",
    ),
    ("conformance::statuses::location_has_escapes_outside_ascii", "it refuses targets that aren't UTF-8"),
    ("conformance::statuses::refusals_are_explained_and_not_cached", "its own refusals have no content"),
    ("conformance::targets::absolute_form_needs_a_host_field", "it accepts HTTP/1.1 without `Host`"),
    (
        "conformance::targets::https_target_over_plain_tcp_is_misdirected",
        "it doesn't know whether TLS is used",
    ),
    ("conformance::targets::longer_target_gets_414", "its limit is 64 KB"),
    ("conformance::targets::target_with_a_fragment_is_bad", "it removes fragments"),
];

/// Tests of what actix-web decides. As for hyper.
const ACTIX_DIFFERENCES: [Difference; 19] = [
    ("conformance::fields::repeated_fields_form_one_list", "it reads one line of `Connection`"),
    ("conformance::fields::too_many_or_too_large_fields_get_431", "its limits are others"),
    ("conformance::fields::upgrade_in_http_1_0_is_ignored", "it responds to HTTP/1.0 with that version"),
    ("conformance::framing::http_1_0_connections_persist_on_request", "it responds with HTTP/1.0"),
    (
        "conformance::framing::malformed_chunks_close_the_connection",
        "it doesn't parse content that the program doesn't read",
    ),
    ("conformance::framing::malformed_heads_close_the_connection", "it accepts a line feed alone"),
    (
        "conformance::framing::minor_versions_are_accepted_and_major_refused",
        "it accepts HTTP/1.0 and HTTP/1.1 only",
    ),
    (DEPENDS_ON_TIMING, "it doesn't close in stages"),
    (
        "conformance::framing::requests_after_close_get_no_response",
        "it reads `close` only without other options",
    ),
    ("conformance::framing::unknown_transfer_coding_gets_501", "it refuses unknown codings with 400"),
    ("conformance::methods::expect_100_continue_never_stalls", "it sends 100 for content that nobody reads"),
    ("conformance::methods::refused_head_requests_get_no_content", "it refuses only some of these requests"),
    (
        "conformance::methods::unknown_expectation_fails",
        "it takes unknown ones for `100-continue`, which RFC 9110 §10.1.1 permits",
    ),
    (
        "conformance::statuses::location_has_escapes_outside_ascii",
        "it refuses targets with bytes outside ASCII",
    ),
    ("conformance::statuses::refusals_are_explained_and_not_cached", "its own refusals have no content"),
    (
        "conformance::targets::https_target_over_plain_tcp_is_misdirected",
        "the library doesn't know whether TLS is used",
    ),
    (
        "conformance::targets::location_is_never_longer_than_a_target",
        "it refuses targets with bytes outside ASCII",
    ),
    ("conformance::targets::longer_target_gets_414", "its limit is higher"),
    ("conformance::targets::target_with_a_fragment_is_bad", "it removes fragments"),
];

/// A test of both lists that passes if the client has sent everything before the connection is closed.
const DEPENDS_ON_TIMING: &str = "conformance::framing::refusal_arrives_although_the_client_keeps_sending";

/// Runs the tests over the examples in the folder that `CANNERY_TEST_FRAMEWORKS` names.
#[test]
fn examples_conform_except_for_behavior_of_their_http_libraries() {
    let Some(folder) = std::env::var_os("CANNERY_TEST_FRAMEWORKS").map(PathBuf::from) else {
        println!("skipped: CANNERY_TEST_FRAMEWORKS doesn't name the folder with the examples of the library");
        return;
    };
    let all = conformance_tests();
    for (program, of_http_library, own) in PROGRAMS {
        let of_framework = of_http_library.iter().chain(own).map(|(test, _)| (*test).to_owned());
        let of_framework: BTreeSet<_> = of_framework.collect();
        assert!(of_framework.is_subset(&all), "no longer a test: {:?}", of_framework.difference(&all));
        let of_library: BTreeSet<_> = all.difference(&of_framework).cloned().collect();

        let program = folder.join(program);
        let (passed, output) = run(&program, &of_library, &[]);
        assert_eq!(passed, of_library, "{}: {output}", program.display());

        // Many of them wait for the end of a connection that the HTTP library keeps open.
        let (mut passed, _) = run(&program, &of_framework, &[(TIMEOUT_S, "2")]);
        passed.remove(DEPENDS_ON_TIMING);
        assert!(passed.is_empty(), "{}: remove these from the list: {passed:?}", program.display());
    }
}

/// Returns the names of all tests of conformance.
fn conformance_tests() -> BTreeSet<String> {
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--list", "--format", "terse"]).args(MODULES).output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Runs tests with another server, and with these variables. Returns the names of those that pass, and the output.
fn run(program: &Path, tests: &BTreeSet<String>, variables: &[(&str, &str)]) -> (BTreeSet<String>, String) {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "--test-threads", "8"]).args(tests);
    again.env(OTHER_SERVER, program).env(ONE_TRANSPORT, "1").envs(variables.iter().copied());
    let output = String::from_utf8(again.output().unwrap().stdout).unwrap();
    let passed = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    (passed.map(str::to_owned).collect(), output)
}
