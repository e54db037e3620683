//! Credentials of stores that change while `cannery follow` runs in its sandbox: those of a helper of Docker, and keys of AWS.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::harness::{python, request_at, run, skip_outside, wait_until};
use crate::program::Program;
use crate::push::Place;
use crate::stores::{Answer, Asked, empty, ranged, serve, stderr};

/// Ends a follower.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Variables of AWS and Docker of the user who runs the tests.
const VARIABLES: [&str; 18] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "CANNERY_STORE_TOKEN",
    "REGISTRY_AUTH_FILE",
];

/// Returns a command that finds only the credentials of the test.
pub(crate) fn command(place: &Place, arguments: &[&str], variables: &[(&str, String)]) -> Command {
    let mut command = place.command(arguments);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.env("HOME", place.path("home")).env("AWS_EC2_METADATA_DISABLED", "true");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

fn succeed(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
}

/// Starts a follower that looks each second, in the sandbox that every machine of the tests has.
fn follow(place: &Place, store: &[&str], variables: &[(&str, String)]) -> Follower {
    let into = place.text("node");
    let flags = ["--into", &into, "--unsigned", "--interval", "1", "--sandbox", "require"];
    let mut command = command(place, &[&["follow"], store, &flags].concat(), variables);
    Follower(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn wait_for_release(place: &Place, number: u32) {
    let name = format!("{number}.cdb");
    let link = place.path("node/current");
    wait_until("the release is current", || fs::read_link(&link).is_ok_and(|link| link == Path::new(&name)));
}

/// A registry in memory that demands a password.
#[derive(Default)]
struct Registry {
    /// The value of `Authorization` that it accepts.
    accepted: String,
    contents: HashMap<String, Vec<u8>>,
}

impl Registry {
    fn answer(&mut self, asked: &Asked) -> Answer {
        if asked.fields.get("authorization") != Some(&self.accepted) {
            return (401, vec![("WWW-Authenticate", "Basic realm=\"registry\"".to_owned())], Vec::new());
        }
        let path = asked.target.strip_prefix("/v2/site/").unwrap();
        match asked.method.as_str() {
            "POST" => (202, vec![("Location", "/v2/site/upload".to_owned())], Vec::new()),
            "PUT" => {
                let digest = path.split_once("digest=").map(|(_, digest)| digest.replace("%3A", ":"));
                let path = digest.map_or_else(|| path.to_owned(), |digest| format!("blobs/{digest}"));
                self.contents.insert(path, asked.body.clone());
                empty(201)
            }
            _ => self.contents.get(path).map_or(empty(404), |content| ranged(asked, content)),
        }
    }
}

#[test]
fn follower_takes_the_new_password_of_a_docker_helper() {
    let place = Place::new();
    let registry = Arc::new(Mutex::new(Registry::default()));
    let shared = Arc::clone(&registry);
    let host = serve(move |asked| shared.lock().unwrap().answer(asked));
    // The helper writes down what it was asked for.
    let (helper, password, log) = ("bin/docker-credential-test", place.text("password"), place.text("log"));
    fs::create_dir_all(place.path("bin")).unwrap();
    let script = format!(
        "#!/bin/sh\ncat >> {log}\nprintf '{{\"Username\": \"web\", \"Secret\": \"%s\"}}' $(cat {password})\n"
    );
    fs::write(place.path(helper), script).unwrap();
    fs::set_permissions(place.path(helper), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(place.path("docker")).unwrap();
    let config = format!("{{\"credHelpers\": {{\"{host}\": \"test\"}}}}");
    fs::write(place.path("docker/config.json"), config).unwrap();
    let search = format!("{}:{}", place.text("bin"), std::env::var("PATH").unwrap());
    let variables = [("DOCKER_CONFIG", place.text("docker")), ("PATH", search)];
    // In base64, `web:one` and `web:two`.
    let change = |word: &str, encoded: &str| {
        fs::write(&password, word).unwrap();
        registry.lock().unwrap().accepted = format!("Basic {encoded}");
    };
    let store = format!("oci://{host}/site");
    let push = |number| {
        place.write_site(number);
        succeed(command(&place, &["push", &store, &place.text("public")], &variables));
    };

    change("one", "d2ViOm9uZQ==");
    push(1);
    let follower = follow(&place, &[&store], &variables);
    wait_for_release(&place, 1);
    let questions = || fs::read_to_string(&log).unwrap().matches(&host).count();
    // One of `push`, and one of `follow`.
    assert_eq!(questions(), 2);

    change("two", "d2ViOnR3bw==");
    push(2);
    wait_for_release(&place, 2);
    assert!(questions() > 3, "the helper was asked again");

    // Without the process that asks it, the service manager has to start both again.
    let id = follower.0.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    assert!(run("kill", &children.split_whitespace().collect::<Vec<_>>()).status.success(), "{children}");
    change("three", "d2ViOnRocmVl");
    let follower = RefCell::new(follower);
    wait_until("the follower has exited", || follower.borrow_mut().0.try_wait().unwrap().is_some());
    assert_eq!(follower.borrow_mut().0.wait().unwrap().code(), Some(1));
}

#[test]
fn login_after_the_start_is_found() {
    let place = Place::new();
    let registry = Registry { accepted: "Basic d2ViOm9uZQ==".to_owned(), ..Registry::default() };
    let registry = Arc::new(Mutex::new(registry));
    let host = serve(move |asked| registry.lock().unwrap().answer(asked));
    let store = format!("oci://{host}/site");
    let log_in = |folder: &str| {
        fs::create_dir_all(place.path(folder)).unwrap();
        let config = format!("{{\"auths\": {{\"{host}\": {{\"auth\": \"d2ViOm9uZQ==\"}}}}}}");
        fs::write(place.path(folder).join("config.json"), config).unwrap();
    };
    log_in("publisher");
    place.write_site(1);
    let variables = [("DOCKER_CONFIG", place.text("publisher"))];
    succeed(command(&place, &["push", &store, &place.text("public")], &variables));

    let _follower = follow(&place, &[&store], &[("DOCKER_CONFIG", place.text("docker"))]);
    let state = || fs::read_to_string(place.path("node/.follow.json")).unwrap_or_default();
    wait_until("the registry has refused it", || state().contains("answers 401"));
    log_in("docker");
    wait_for_release(&place, 1);
}

#[test]
fn token_in_the_variable_is_for_registries_too() {
    let place = Place::new();
    let registry =
        Arc::new(Mutex::new(Registry { accepted: "Bearer secret".to_owned(), ..Registry::default() }));
    let host = serve(move |asked| registry.lock().unwrap().answer(asked));
    let store = format!("oci://{host}/site");
    place.write_site(1);
    let variables = [("DOCKER_CONFIG", place.text("docker")), ("CANNERY_STORE_TOKEN", "secret".to_owned())];
    succeed(command(&place, &["push", &store, &place.text("public")], &variables));
    let _follower = follow(&place, &[&store], &variables);
    wait_for_release(&place, 1);
}

/// S3, and each service of AWS that gives keys, on one address. Only the newest keys are accepted.
struct Aws {
    host: String,
    /// Number of the newest keys.
    newest: Arc<AtomicUsize>,
}

impl Aws {
    fn start(place: &Place) -> Aws {
        let newest = Arc::new(AtomicUsize::new(1));
        let (root, token, number) = (place.path("bucket"), place.path("token"), Arc::clone(&newest));
        fs::create_dir_all(root.join("blobs/sha256")).unwrap();
        let host = serve(move |asked| {
            let number = number.load(Ordering::Relaxed);
            let target = asked.target.split('?').next().unwrap();
            let text = |text: String| (200, Vec::new(), text.into_bytes());
            let json = |token: &str| {
                text(format!(
                    "{{\"Version\": 1, \"AccessKeyId\": \"KEY{number}\", \"SecretAccessKey\": \"secret\", \
                     \"{token}\": \"TOKEN{number}\", \"Expiration\": \"2099-01-01T00:00:00Z\"}}"
                ))
            };
            match (asked.method.as_str(), target) {
                ("POST", "/") => {
                    let form = String::from_utf8_lossy(&asked.body);
                    let token = fs::read_to_string(&token).unwrap();
                    assert!(form.contains("Action=AssumeRoleWithWebIdentity"), "{form}");
                    if !form.contains(&format!("WebIdentityToken={token}")) {
                        return (
                            400,
                            Vec::new(),
                            b"<Error><Code>InvalidIdentityToken</Code><Message>No</Message></Error>".to_vec(),
                        );
                    }
                    assert!(form.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fnode"), "{form}");
                    text(format!(
                        "<R><Credentials><AccessKeyId>KEY{number}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
                         <SessionToken>TOKEN{number}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></R>"
                    ))
                }
                ("GET", "/container") => {
                    assert_eq!(asked.fields["authorization"], "container-token");
                    json("Token")
                }
                ("GET", "/process") => json("SessionToken"),
                ("PUT", "/latest/api/token") => {
                    assert!(asked.fields.contains_key("x-aws-ec2-metadata-token-ttl-seconds"));
                    text("metadata-token".to_owned())
                }
                ("GET", path) if path.starts_with("/latest/meta-data/") => {
                    assert_eq!(asked.fields["x-aws-ec2-metadata-token"], "metadata-token");
                    match path.strip_prefix("/latest/meta-data/").unwrap() {
                        "iam/security-credentials/" => text("node".to_owned()),
                        "iam/security-credentials/node" => json("Token"),
                        "placement/region" => text("eu-central-9".to_owned()),
                        other => panic!("{other}"),
                    }
                }
                (method, path) => {
                    let path = root.join(path.strip_prefix("/bucket/").unwrap());
                    let has = |part: &str| asked.target.contains(part);
                    if !has(&format!("X-Amz-Credential=KEY{number}%2F"))
                        || !has(&format!("Token=TOKEN{number}"))
                    {
                        let text = "<Error><Code>ExpiredToken</Code></Error>";
                        return (400, Vec::new(), text.as_bytes().to_vec());
                    }
                    assert!(has("%2Feu-central-9%2Fs3%2F"), "the region: {}", asked.target);
                    if method == "PUT" {
                        fs::write(path, &asked.body).unwrap();
                        return empty(200);
                    }
                    fs::read(path).map_or(empty(404), |content| ranged(asked, &content))
                }
            }
        });
        Aws { host, newest }
    }
}

#[test]
fn keys_of_aws_are_found_and_replaced() {
    thread::scope(|scope| {
        for kind in ["web identity", "profile", "process", "container", "machine"] {
            scope.spawn(move || replace_keys(kind));
        }
    });
}

/// Publishes and follows with keys from a source, before and after they were replaced.
fn replace_keys(kind: &str) {
    let role = ("AWS_ROLE_ARN", "arn:aws:iam::1:role/node".to_owned());
    let region = ("AWS_REGION", "eu-central-9".to_owned());
    let place = Place::new();
    let aws = Aws::start(&place);
    let endpoint = format!("http://{}", aws.host);
    fs::create_dir_all(place.path("home/.aws")).unwrap();
    let config = |lines: &str| {
        fs::write(place.path("home/.aws/config"), format!("[default]\nregion = eu-central-9\n{lines}\n"))
            .unwrap();
    };
    let (token, sts) = (place.text("token"), ("AWS_ENDPOINT_URL_STS", format!("{endpoint}/")));
    fs::write(&token, "web-token-1").unwrap();
    let variables = match kind {
        "web identity" => {
            vec![role.clone(), region.clone(), sts, ("AWS_WEB_IDENTITY_TOKEN_FILE", token.clone())]
        }
        "profile" => {
            config(&format!("role_arn = {}\nweb_identity_token_file = {token}", role.1));
            vec![sts]
        }
        "process" => {
            config(&format!("credential_process = curl --silent {endpoint}/process"));
            Vec::new()
        }
        "container" => vec![
            region.clone(),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{endpoint}/container")),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token".to_owned()),
        ],
        // It also knows the region.
        _ => vec![
            ("AWS_EC2_METADATA_DISABLED", "false".to_owned()),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint.clone()),
        ],
    };
    if kind == "process" && skip_outside() {
        return;
    }
    let store = ["s3://bucket/", "--s3-endpoint", &endpoint];
    let push = |number| {
        place.write_site(number);
        let site = place.text("public");
        succeed(command(&place, &["push", store[0], &site, store[1], store[2]], &variables));
    };
    push(1);
    let _follower = follow(&place, &store, &variables);
    wait_for_release(&place, 1);

    // Kubernetes replaces the token before it expires.
    fs::write(&token, "web-token-2").unwrap();
    aws.newest.store(2, Ordering::Relaxed);
    push(2);
    wait_for_release(&place, 2);
}

#[test]
fn role_of_the_machine_never_stands_in_for_a_profile() {
    let place = Place::new();
    let aws = Aws::start(&place);
    let endpoint = format!("http://{}", aws.host);
    let store = ["s3://bucket/", "--s3-endpoint", &endpoint];
    let push = |number| {
        let mut variables = vec![("AWS_REGION", "eu-central-9".to_owned())];
        variables.push(("AWS_ACCESS_KEY_ID", format!("KEY{number}")));
        variables.push(("AWS_SECRET_ACCESS_KEY", "secret".to_owned()));
        variables.push(("AWS_SESSION_TOKEN", format!("TOKEN{number}")));
        place.write_site(number);
        let site = place.text("public");
        succeed(command(&place, &["push", store[0], &site, store[1], store[2]], &variables));
    };
    fs::create_dir_all(place.path("home/.aws")).unwrap();
    let credentials = place.path("home/.aws/credentials");
    let write = |number: u32| {
        let keys = format!("aws_access_key_id = KEY{number}\naws_secret_access_key = secret");
        let token = format!("aws_session_token = TOKEN{number}");
        fs::write(&credentials, format!("[default]\nregion = eu-central-9\n{keys}\n{token}\n")).unwrap();
    };
    push(1);
    write(1);
    let variables = [
        // Without it, the region would be missing before the keys are.
        ("AWS_REGION", "eu-central-9".to_owned()),
        ("AWS_EC2_METADATA_DISABLED", "false".to_owned()),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint.clone()),
    ];
    let _follower = follow(&place, &store, &variables);
    wait_for_release(&place, 1);

    // The role would have the newest keys.
    let state = || fs::read_to_string(place.path("node/.follow.json")).unwrap();
    fs::write(&credentials, "").unwrap();
    aws.newest.store(2, Ordering::Relaxed);
    push(2);
    wait_until("it has no keys", || state().contains("the AWS profile `default` has no keys any more"));
    fs::remove_file(&credentials).unwrap();
    fs::create_dir(&credentials).unwrap();
    wait_until("it can't be read", || state().contains("cannot read the AWS profiles"));
    fs::remove_dir(&credentials).unwrap();
    write(2);
    wait_for_release(&place, 2);
}

#[test]
fn missing_keys_of_aws_are_explained() {
    let place = Place::new();
    let host = serve(|_| {
        let text = "<Error><Code>AccessDenied</Code><Message>Not you</Message></Error>";
        (403, Vec::new(), text.as_bytes().to_vec())
    });
    let into = place.text("node");
    let follow = ["follow", "s3://bucket/", "--into", &into, "--once", "--unsigned"];
    let explained = |variables: &[(&str, String)], words: &[&str]| {
        let output = command(&place, &follow, variables).output().unwrap();
        let text = stderr(&output);
        assert!(output.status.code() == Some(1) && words.iter().all(|word| text.contains(word)), "{text}");
    };
    explained(&[], &["there are no credentials for S3", "AWS_ACCESS_KEY_ID"]);
    fs::write(place.path("token"), "secret-token").unwrap();
    let mut variables = vec![
        ("AWS_ROLE_ARN", "arn:role".to_owned()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", place.text("missing")),
        ("AWS_ENDPOINT_URL_STS", format!("http://{host}/")),
    ];
    explained(&variables, &["cannot read the web identity token", "missing"]);
    variables[1].1 = place.text("token");
    explained(&variables, &["no keys for the role arn:role", "AccessDenied: Not you", "trusts the issuer"]);
    variables[2].1 = "http://192.0.2.1/".to_owned();
    explained(&variables, &["has no TLS"]);

    fs::create_dir_all(place.path("home/.aws")).unwrap();
    let config =
        |lines: &str| fs::write(place.path("home/.aws/config"), format!("[default]\n{lines}\n")).unwrap();
    config("role_arn = x\nsource_profile = base");
    explained(&[], &["profile `default` takes a role", "credential_process"]);
    config("credential_process = exit 3");
    explained(&[], &["the `credential_process` of the AWS profile failed", "3"]);
    config("role_arn = x\nsource_profile = default\naws_access_key_id = k\naws_secret_access_key = s");
    explained(&[], &["profile `default` takes a role"]);
    config("aws_access_key_id = k");
    explained(&[], &["only half of its keys", "home/.aws/config"]);

    // The role of a container would be another identity.
    let container = || ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://{host}/"));
    let explained_of = |profile: &str, words: &[&str]| {
        explained(&[("AWS_PROFILE", profile.to_owned()), container()], words);
    };
    config("[profile \"a b\"]\ncredential_process = exit 4");
    explained_of("a b", &["the `credential_process` of the AWS profile failed", "4"]);
    explained_of(
        "c",
        &["there is no AWS profile `c` in", "home/.aws/credentials or", "home/.aws/config", "AWS_PROFILE"],
    );
    fs::create_dir(place.path("home/.aws/credentials")).unwrap();
    explained(&[container()], &["cannot read the AWS profiles in", "home/.aws/credentials"]);
    fs::remove_dir(place.path("home/.aws/credentials")).unwrap();
    let far = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/".to_owned());
    config("");
    explained(&[far], &["has no TLS"]);
}

/// The answer of moto is made from the description of AWS's.
#[test]
fn web_identity_is_exchanged_with_moto() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let moto = Program::start("moto", python().to_str().unwrap(), |address| {
        let (host, port) = address.split_once(':').unwrap();
        ["-m", "moto.server", "-H", host, "-p", port].map(str::to_owned).to_vec()
    });
    assert_eq!(request_at(&moto.address, "PUT", "/bucket", "Content-Length: 0\r\n").status, 200);
    fs::write(place.path("token"), "a-token").unwrap();
    let endpoint = format!("http://{}", moto.address);
    let variables = [
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/node".to_owned()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", place.text("token")),
        ("AWS_ENDPOINT_URL_STS", format!("{endpoint}/")),
    ];
    place.write_site(1);
    let store = ["s3://bucket/some/site", "--s3-endpoint", &endpoint];
    succeed(command(&place, &["push", store[0], &place.text("public"), store[1], store[2]], &variables));
    let _follower = follow(&place, &store, &variables);
    wait_for_release(&place, 1);
}
