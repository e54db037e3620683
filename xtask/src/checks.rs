//! The checks of `test`, `ci` and `tidy`.
//!
//! Every check also runs on a developer's machine; none needs the continuous integration service.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::counts;
use crate::dist;
use crate::error::Error;
use crate::extent::Extent;
use crate::minute;
use crate::outside;
use crate::packed;
use crate::project::{self, cargo, yielding};
use crate::steps::{Beside, Steps};
use crate::test_programs::{TestPrograms, cargo_tests};
use crate::tidy;

/// Runs the checks. Tests come last, so that the output ends with their result.
pub(crate) fn run(extent: Extent) -> Result<(), Error> {
    let mut steps = Steps::default();
    if extent != Extent::Fast {
        steps.run("outside programs", outside::install_programs);
    }

    let packages = packages_of(extent);
    let mut programs = None;
    steps.run_beside(downloads(extent), |steps| {
        steps.run("formatting", || project::run(&mut cargo("fmt --all --check")));
        if extent != Extent::Fast {
            steps.run("tidy", tidy::check);
            deny(steps, extent);
            semver(steps, extent);
            packed::check(steps, extent);
            features(steps, extent);
            python_package(steps, extent);
            count(steps, extent);
        }
        steps.run("test programs", || {
            programs = Some(TestPrograms::build(packages, extent)?);
            Ok(())
        });
    });

    if extent == Extent::Usual {
        steps.skip("benchmarks", "`cargo xtask ci` checks them, or `cargo test -p cannery-bench`");
    }
    if extent == Extent::Fast && !outside::missing().is_empty() {
        println!("not installed in the versions of the tests: {}", outside::missing().join(", "));
        steps.skip("tests with other programs", "some are not installed; `cargo xtask test` installs them");
    }
    test(&mut steps, packages, programs, extent);
    steps.finish()
}

/// Returns the steps that install packages for the tests. They mostly wait for registries, so compilers can work meanwhile.
fn downloads(extent: Extent) -> Vec<Beside> {
    if extent == Extent::Fast {
        return Vec::new();
    }
    let mut steps = vec![
        Beside::quiet("npm packages", outside::install_npm_packages),
        Beside::quiet("PyPI packages", outside::install_pypi_packages),
        Beside::quiet("h2spec", outside::install_h2spec),
        Beside::quiet("quic-go", outside::install_quic_go),
        Beside::quiet("pebble", outside::install_pebble),
        Beside::quiet("registries", outside::install_stores),
    ];
    if extent == Extent::Slow {
        steps.push(Beside::quiet("versitygw", outside::install_slow_stores));
    }
    steps
}

/// Runs all tests. Clippy and the portable build compile nearly everything once more, so they do that while the black box tests wait.
fn test(steps: &mut Steps, packages: &str, programs: Option<TestPrograms>, extent: Extent) {
    let clippy = format!("clippy {packages} --all-targets -- -D warnings");
    let Some(programs) = programs else {
        return steps.run("clippy", || project::run(&mut cargo(&clippy)));
    };

    let black_box = black_box_tests(steps, &programs, extent);
    steps.run_beside(black_box, |steps| {
        steps.run("unit tests", || project::run_all_tests(programs.others()));
        let documentation = format!("test {packages} --doc --no-fail-fast");
        steps.run("documentation tests", || run_cargo_tests(&documentation, extent));
        steps.run("clippy", || project::run(&mut yielding(&cargo(&clippy))));
        if extent != Extent::Fast {
            // Builds a package of its own: a minute and a half of CPU time at first, and seconds later.
            let embedding = format!("test {packages} --test embedding -- --ignored");
            steps.run("embedding", || run_cargo_tests(&embedding, extent));
            portable_libraries(steps, extent);
            other_systems(steps);
        }
    });

    // Before the portable programs replace the usual ones.
    package(steps, extent);
    walk_from_an_empty_machine(steps, extent);
    if extent != Extent::Fast {
        portable_programs(steps, &programs, extent);
    }
}

/// Returns the runs of the black box tests.
fn black_box_tests(steps: &mut Steps, programs: &TestPrograms, extent: Extent) -> Vec<Beside> {
    let mut runs = vec![Beside::tests("black box", programs.black_box(""))];

    // A program that contains the server, and has routes, must respond to all other requests in the same way.
    let mut with_library = programs.black_box("conformance:: conditional:: negotiate::");
    with_library.env("CANNERY_TEST_PROGRAM", project::target().join("debug/examples/site_and_routes"));
    runs.push(Beside::tests("library", with_library));

    // The same for programs of frameworks, except for what their HTTP library decides. Also the example of a whole service.
    let mut with_frameworks = programs.black_box("frameworks:: notes::");
    with_frameworks.env("CANNERY_TEST_FRAMEWORKS", project::target().join("debug/examples"));
    runs.push(Beside::tests("frameworks", with_frameworks));

    // Responses must not depend on the event loop, so the tests run on both.
    const ON_IO_URING: &str = "io_uring";
    // Except for those of other programs as clients, of pages in browsers, of texts, and of commands that publish or obtain
    // certificates: servers send nothing there that they don't send in others.
    const ON_ONE_LOOP: &str = "--skip http2_clients:: --skip testssl --skip live_reload:: --skip documents:: --skip lint:: \
        --skip clients::chromium --skip complete_sites:: --skip edit_runs:: --skip readers:: --skip import:: \
        --skip static_memory:: --skip certificates:: --skip stores:: --skip store_credentials:: --skip push:: --skip push_faults:: --skip push_ssh:: \
        --skip switch_faults:: --skip receive_sandbox:: --skip clocks:: --skip follow::";
    if has_io_uring() {
        let mut on_io_uring = programs.black_box(if extent == Extent::Slow { "" } else { ON_ONE_LOOP });
        on_io_uring.env("CANNERY_TEST_IO", "io_uring");
        runs.push(Beside::tests(ON_IO_URING, on_io_uring));
    } else {
        steps.skip(ON_IO_URING, "the kernel doesn't support it, or forbids it");
    }

    runs
}

/// Runs cargo's tests beside the black box tests.
fn run_cargo_tests(words: &str, extent: Extent) -> Result<(), Error> {
    project::run_tests(&mut yielding(&cargo_tests(words, extent)))
}

/// Runs the checks of texts, and the structure test, which reads all code.
pub(crate) fn check_texts() -> Result<(), Error> {
    let mut steps = Steps::default();
    steps.run("tidy", tidy::check);
    steps.run("structure", || project::run(&mut cargo("test --quiet --package xtask --test structure")));
    steps.finish()
}

/// Compares the public functions of the libraries with those of the last release.
pub(crate) fn check_public_functions() -> Result<(), Error> {
    let mut steps = Steps::default();
    semver(&mut steps, Extent::Slow);
    steps.finish()
}

/// A build for other systems, on Linux.
const PORTABLE: &str = "--features cannery-cli/portable";

/// Returns the packages that the portable build tests: those that have portable modules, or act on leases. With `cannery` and `xtask`, and
/// with the benchmarks if the other steps have them, all libraries have the same features as in the whole workspace, so that cargo
/// doesn't compile them again.
fn portable_packages(extent: Extent) -> String {
    const PACKAGES: &str = "--package cannery-archive --package cannery-cli --package cannery-eventloop --package cannery-live \
        --package cannery-server --package cannery --package xtask";
    let benchmarks = if extent == Extent::Usual { "" } else { "--package cannery-bench" };
    format!("{PACKAGES} {benchmarks}")
}

/// Without leases, nothing shows that a file is being written. One that is replaced all the time is read as it is after a while, and may
/// be empty then.
const WITHOUT_LEASES: &str = "--skip compiler::tests::half_written --skip compiler::tests::file_that_is_being_replaced \
    --skip compiler::tests::compiler_goes_on_from_an_archive --skip file_exchanged_for_a_link_out_of_the_folder";

/// Its simulations have a kernel of their own, so they are the same in both builds.
const SIMULATIONS: &str = "--skip worker::simulation::";

/// Checks the libraries of the portable build. This leaves the usual programs in their place.
fn portable_libraries(steps: &mut Steps, extent: Extent) {
    let packages = portable_packages(extent);
    let clippy = format!("clippy {packages} --all-targets {PORTABLE} -- -D warnings");
    steps.run("portable clippy", || project::run(&mut yielding(&cargo(&clippy))));
    let units = format!("test {packages} --no-fail-fast --lib {PORTABLE} -- {WITHOUT_LEASES} {SIMULATIONS}");
    steps.run("portable units", || run_cargo_tests(&units, extent));
}

/// Builds the programs of the portable build, and runs those of the black box tests that use its modules most.
fn portable_programs(steps: &mut Steps, programs: &TestPrograms, extent: Extent) {
    // The last test makes cargo build the programs.
    const TESTS: &str =
        "--test container --test hostile --test in_place --test inside --test program --test programs";
    const MODULES: &str = "admin:: get:: hostile:: http3:: processes:: range:: reload:: tls:: workers::";
    // Tests that the feature leaves out, because only Linux does what they check.
    const ON_LINUX: &str = "--skip live_reload:: --skip open_admin_page_is_reported --skip few_connections_are_balanced \
        --skip workers_have_short_time_slices \
        --skip start_messages_of_a_supervisor --skip archive_written_in_place --skip archive_copied_in_place";
    let packages = portable_packages(extent);
    let tests = format!("test {packages} --no-fail-fast {TESTS} {PORTABLE} -- {WITHOUT_LEASES}");
    steps.run("portable programs", || project::run_tests(&mut cargo_tests(&tests, extent)));

    // The black box tests import no crate of the product, so the same program tests the portable servers, which are in their place now.
    let mut black_box = programs.black_box(&format!("{MODULES} {ON_LINUX}"));
    black_box.env("CANNERY_TEST_SANDBOX", "auto");
    steps.run("portable it", || project::run_tests(&mut black_box));
}

/// Checks that the event loop compiles for a system with kqueue, and the follower for one with `FSEvents`.
fn other_systems(steps: &mut Steps) {
    const LOOP: &str = "the loop for FreeBSD";
    const FOLLOWER: &str = "following on macOS";
    for (name, package, target) in [(LOOP, "eventloop", FREEBSD), (FOLLOWER, "follow", MACOS)] {
        if has_standard_library(target) {
            let check = format!("check --package cannery-{package} --all-targets --target {target}");
            steps.run(name, || project::run(&mut yielding(&cargo(&check))));
        } else {
            steps.skip(name, "`rustup target add` installs the standard library of its target");
        }
    }
}

/// A system with kqueue. Crates with C code would need a C compiler for it, too.
const FREEBSD: &str = "x86_64-unknown-freebsd";

/// A system with `FSEvents`.
const MACOS: &str = "x86_64-apple-darwin";

/// Returns `true` if the standard library of a target is installed.
fn has_standard_library(target: &str) -> bool {
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Returns `true` if the server, which the tests have built, can use io_uring. It tests that before it opens its archive, so
/// the error for a missing archive shows that io_uring works.
fn has_io_uring() -> bool {
    const MISSING: &str = "/nowhere/at/all.cdb";
    let mut server = Command::new(project::target().join("debug/cannery-server"));
    let output = server.args(["--io", "io_uring", "--archive", MISSING]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stderr).contains(MISSING))
}

/// Checks dependencies against `deny.toml`: first licenses and sources, then known vulnerabilities, for which cargo deny
/// fetches a database.
fn deny(steps: &mut Steps, extent: Extent) {
    const LIBRARIES: &str = "libraries";
    const ADVISORIES: &str = "advisories";
    let installed = project::program("cargo-deny").is_some();
    if !installed && extent == Extent::Usual {
        let reason = "cargo-deny is not installed; `cargo xtask ci` installs it, which takes minutes";
        steps.skip(LIBRARIES, reason);
        steps.skip(ADVISORIES, reason);
        return;
    }

    steps.run(LIBRARIES, || {
        if !installed {
            project::run(&mut cargo(&format!("install --locked --debug cargo-deny@{DENY_VERSION}")))?;
        }
        project::run(&mut cargo("deny --workspace check licenses bans sources"))
    });

    if can_reach(ADVISORY_DATABASE) {
        steps.run(ADVISORIES, || project::run(&mut cargo("deny --workspace check advisories")));
    } else {
        steps.skip(ADVISORIES, "the advisory database cannot be reached from this machine");
    }
}

/// RustSec's database of vulnerabilities, which cargo deny fetches.
const ADVISORY_DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// Returns `true` if a Git repository can be reached. Without its data, the check is skipped instead of failed.
fn can_reach(repository: &str) -> bool {
    let mut git = Command::new("git");
    git.args(["ls-remote", "--quiet", repository, "HEAD"]).env("GIT_TERMINAL_PROMPT", "0");
    git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    git.status().is_ok_and(|status| status.success())
}

/// The release of cargo deny that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20.2";

/// Compares the public functions of the libraries with those of the last release, and finds changes that break other programs without
/// a new major version. `public-api.txt` only shows what has changed.
fn semver(steps: &mut Steps, extent: Extent) {
    const SEMVER: &str = "semver";
    if extent != Extent::Slow {
        return steps.skip(
            SEMVER,
            "its tool has 300 dependencies; `--slow` installs and runs it, before each release",
        );
    }
    let Some(release) = last_release() else {
        return steps.skip(SEMVER, "there is no tag of a release to compare with");
    };
    steps.run(SEMVER, || {
        if project::program("cargo-semver-checks").is_none() {
            let install = format!("install --locked --debug cargo-semver-checks@{SEMVER_CHECKS_VERSION}");
            project::run(&mut cargo(&install))?;
        }
        // It doesn't follow re-exports, so the crates that `cannery` gets its items from are named, too.
        let packages = [
            "cannery",
            "cannery-build",
            "cannery-routes",
            "cannery-server",
            "cannery-archive",
            "cannery-site",
            "cannery-eventloop",
            "cannery-transport",
        ];
        let packages: String = packages.map(|package| format!("--package {package} ")).concat();
        let check = format!("semver-checks {packages}--baseline-rev {release}");
        project::run(&mut cargo(&check))
    });
}

/// A release of cargo-semver-checks that knows the format of our compiler's rustdoc.
const SEMVER_CHECKS_VERSION: &str = "0.51.0";

/// Returns the tag of the last release before the current commit.
fn last_release() -> Option<String> {
    let mut git = Command::new("git");
    let output =
        git.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"]).output().ok()?;
    let tag = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !tag.is_empty()).then_some(tag)
}

/// Returns the packages that cargo compiles. All steps select the same ones: for others, cargo would compile libraries once more,
/// with the features that those enable.
fn packages_of(extent: Extent) -> &'static str {
    match extent {
        // The benchmarks depend on libraries that no other package needs.
        Extent::Fast | Extent::Usual => "--workspace --exclude cannery-bench",
        Extent::Integration | Extent::Slow => "--workspace",
    }
}

/// Packs the programs that the tests have built, and checks the results: linters, manifests, the release workflow, and the package in
/// a machine.
fn package(steps: &mut Steps, extent: Extent) {
    const PACKAGES: &str = "packages";
    if extent != Extent::Slow {
        return steps.skip(
            PACKAGES,
            "they are installed in a machine; `--slow` does so, or `cargo xtask dist --check`",
        );
    }
    if !outside::is_root() {
        return steps.skip(PACKAGES, "needs root, to start a machine: `sudo -E cargo xtask test --slow`");
    }
    steps.run(PACKAGES, dist::check_packages_of_tests);
}

/// Checks the library with each of its features alone, as programs use it. The workspace enables all of them at the same time.
fn features(steps: &mut Steps, extent: Extent) {
    const FEATURES: &str = "features";
    if extent != Extent::Slow {
        return steps.skip(FEATURES, "it compiles the library for each of them; `--slow` runs it");
    }
    steps.run(FEATURES, || {
        let path = project::root().join("crates/cannery/Cargo.toml");
        let manifest = std::fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        const CHECK: &str = "check --package cannery --lib --no-default-features";
        project::run(&mut cargo(CHECK))?;
        for feature in features_of(&manifest) {
            project::run(&mut cargo(&format!("{CHECK} --features {feature}")))?;
        }
        Ok(())
    });
}

/// Returns the names of the features in a manifest.
fn features_of(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| Some(line.split_once(" = ")?.0)).filter(|name| !name.starts_with('#')).collect()
}

/// Builds the Python package as for PyPI, and checks its metadata.
fn python_package(steps: &mut Steps, extent: Extent) {
    const PACKAGE: &str = "Python package";
    if extent != Extent::Slow {
        return steps.skip(PACKAGE, "it installs packages of PyPI; `--slow` runs it");
    }
    if !outside::has_python_environments() {
        return steps.skip(PACKAGE, "`apt-get install python3-venv`");
    }
    steps.run(PACKAGE, || {
        let directory = project::outside().join("python-package");
        let python = directory.join("bin/python");
        if !python.exists() {
            project::run(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
        }
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        project::run(Command::new(&python).args(install).args(PYTHON_BUILD_PACKAGES))?;
        // The build writes into the folder of its sources.
        let (sources, built) = (directory.join("sources"), directory.join("built"));
        project::run(Command::new("rm").arg("-rf").args([&sources, &built]))?;
        project::run(Command::new("cp").arg("-r").arg(project::root().join("contrib/python")).arg(&sources))?;
        project::run(Command::new(&python).args(["-m", "build", "--outdir"]).args([&built, &sources]))?;
        let mut check = Command::new("sh");
        check.args(["-c", "exec \"$0\" -m twine check --strict \"$1\"/*"]).args([&python, &built]);
        project::run(&mut check)
    });
}

/// Builds and checks Python packages.
const PYTHON_BUILD_PACKAGES: [&str; 2] = ["build==1.3.0", "twine==6.2.0"];

/// Installs, configures and publishes by the commands of README.md, with the programs that the tests have built.
fn walk_from_an_empty_machine(steps: &mut Steps, extent: Extent) {
    const MINUTE: &str = "minute";
    if extent != Extent::Slow {
        return steps.skip(MINUTE, "it starts a machine; `--slow` runs it, or `cargo xtask minute`");
    }
    if !outside::is_root() {
        return steps.skip(MINUTE, "needs root, to start a machine: `sudo -E cargo xtask minute`");
    }
    steps.run(MINUTE, || minute::run(None));
}

/// Counts the instructions of the request path and compares them with the table.
fn count(steps: &mut Steps, extent: Extent) {
    const COUNTS: &str = "counts";
    if extent != Extent::Slow {
        return steps.skip(COUNTS, "it builds for minutes; `--slow` runs it, or `cargo xtask counts`");
    }
    steps.run(COUNTS, || counts::run(false));
}
