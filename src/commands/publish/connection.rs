//! Connections to targets: a child process, whose standard input and output carry the protocol.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use cannery_publish::protocol::{
    Activate, Activated, FrameError, Hello, PROTOCOL_WITH_PREVIEWS, Preview, RefusalKind, Releases,
};
use cannery_publish::{Client, ClientError};

use super::target::{Target, quote};
use crate::flags::publish::ConnectionFlags;
use crate::output::{Failure, one_line};

/// Exit codes of shells, and of `ssh`.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
const SSH_FAILED: i32 = 255;

/// How to reach targets.
pub(super) struct Connector {
    /// The program that connects to a host, and its first arguments.
    ssh: Vec<String>,
    /// `cannery` on the host.
    receiver: String,
    /// The preview that is published. Targets are directories of sites then.
    preview: Option<Preview>,
}

/// A program, what it writes, and what it reads.
type Started = (Child, Box<dyn Read + Send>, Box<dyn Write + Send>);

/// A connected target.
pub(super) struct Connection {
    pub(super) target: Target,
    pub(super) client: Client,
    /// Its releases when we connected.
    pub(super) releases: Releases,
    child: Child,
}

impl Connector {
    /// Takes the program from the flag, or else from the environment.
    pub(super) fn new(flags: &ConnectionFlags) -> Result<Connector, Failure> {
        let from_environment = || std::env::var("CANNERY_SSH").ok().filter(|value| !value.trim().is_empty());
        let command = flags.ssh.clone().or_else(from_environment).unwrap_or_else(|| "ssh".to_owned());
        let ssh: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if ssh.is_empty() {
            return Err(Failure::usage("`--ssh` has no value"));
        }
        Ok(Connector { ssh, receiver: flags.receiver.clone(), preview: None })
    }

    /// Selects a preview on each target.
    pub(super) fn for_preview(self, preview: Option<Preview>) -> Connector {
        Connector { preview, ..self }
    }

    /// Connects to a target and lists its releases.
    pub(super) fn connect(&self, target: &Target) -> Result<Connection, Failure> {
        let (mut child, input, output) = self.start(target)?;
        let greeted = Client::greet(input, output);
        if let (Some(_), Ok((_, hello))) = (&self.preview, &greeted) {
            check_previews(target, hello)?;
        }
        let listed = greeted.and_then(|(mut client, _)| {
            let releases = match &self.preview {
                Some(preview) => client.select_preview(preview)?,
                None => client.list()?,
            };
            Ok((client, releases))
        });
        match listed {
            Ok((client, releases)) => Ok(Connection { target: target.clone(), client, releases, child }),
            // The pipes are closed by now, so the program ends.
            Err(error) => Err(self.greeting_failure(target, &error, child.wait().ok())),
        }
    }

    /// Connects to a target, and makes it serve a release, in a single round trip.
    pub(super) fn activate(&self, target: &Target, activate: &Activate) -> Result<Activated, Failure> {
        let (mut child, input, output) = self.start(target)?;
        let mut client = match Client::greet_and_activate(input, output, activate) {
            Ok(greeted) => greeted,
            Err(error) => return Err(self.greeting_failure(target, &error, child.wait().ok())),
        };
        let activated = client.activated().map_err(|error| client_failure(target, &error));
        drop(client);
        let _ = child.wait();
        activated
    }

    /// Starts the program on the other side. Returns its output and its input.
    fn start(&self, target: &Target) -> Result<Started, Failure> {
        let mut command = self.command(target)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| start_failure(&program, &error))?;
        let (Some(output), Some(input)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::failed(format!("`{program}` has no pipes")));
        };
        Ok((child, Box::new(input), Box::new(output)))
    }

    fn command(&self, target: &Target) -> Result<Command, Failure> {
        match target {
            Target::Local(path) => {
                let program = std::env::current_exe()
                    .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
                let mut command = Command::new(program);
                command
                    .arg("receive")
                    .args(self.preview_domain().map(|domain| format!("--preview-domain={domain}")))
                    .arg("--")
                    .arg(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)));
                Ok(command)
            }
            Target::Remote { host, directory } => {
                let mut command = Command::new(&self.ssh[0]);
                command.args(&self.ssh[1..]).arg(host);
                // The user's shell on the host parses this.
                let flag = self
                    .preview_domain()
                    .map(|domain| format!(" {}", quote(&format!("--preview-domain={domain}"))));
                let (program, flag) = (quote_program(&self.receiver), flag.unwrap_or_default());
                command.arg(format!("{program} receive{flag} -- {}", quote(directory)));
                Ok(command)
            }
        }
    }

    /// Returns the domain of the preview, for hosts on which the user's key may do anything. Others have a domain of their own.
    fn preview_domain(&self) -> Option<&str> {
        Some(self.preview.as_ref()?.host.split_once('.')?.1)
    }

    /// Explains why the other side didn't say hello.
    fn greeting_failure(&self, target: &Target, error: &ClientError, status: Option<ExitStatus>) -> Failure {
        let ended = matches!(
            error,
            ClientError::Frame(FrameError::Closed | FrameError::Cut | FrameError::Io(_))
                | ClientError::Lost(_)
        );
        let code = status.and_then(|status| status.code());
        match (target, code) {
            (Target::Remote { host, .. }, Some(NOT_FOUND | NOT_EXECUTABLE)) if ended => {
                Failure::failed(format!("{} has no program `{}`", one_line(host), one_line(&self.receiver))).hint(
                    "install Cannery there, or name its program with `--receiver PATH`; a login without a shell may have a shorter \
                     search path",
                )
            }
            (Target::Remote { host, .. }, Some(SSH_FAILED)) if ended => {
                Failure::failed(format!("`{}` cannot connect to {}", one_line(&self.ssh[0]), one_line(host)))
                    .hint(format!("the line above says why; `{} {}` must work first", self.ssh.join(" "), one_line(host)))
            }
            (Target::Remote { host, .. }, _) if ended => Failure::failed(format!(
                "`{}` on {} ended before it said hello",
                one_line(&self.receiver),
                one_line(host)
            ))
            .hint("it may be a version of Cannery without `cannery receive`: install the same version there"),
            (Target::Remote { host, .. }, _) => match error {
                // Not a word of a shell, so maybe a later version.
                ClientError::Frame(FrameError::Foreign(start)) if !is_text(start) => {
                    Failure::failed(format!("{} sent something that isn't a greeting of Cannery", one_line(host)))
                        .hint(other_version_hint())
                }
                ClientError::Frame(FrameError::Foreign(start)) => Failure::failed(format!(
                    "{} sent text that isn't of Cannery: `{}…`",
                    one_line(host),
                    one_line(start)
                ))
                .hint("a file such as `.bashrc` prints it: nothing may be printed unless the shell is interactive"),
                _ => client_failure(target, error),
            },
            (Target::Local(_), _) => client_failure(target, error),
        }
    }
}

impl Connection {
    /// Closes the connection and waits until the program has ended.
    pub(super) fn close(self) {
        let Connection { client, mut child, .. } = self;
        drop(client);
        let _ = child.wait();
    }
}

/// Checks that a host knows previews. An earlier version would publish them without their passwords.
fn check_previews(target: &Target, hello: &Hello) -> Result<(), Failure> {
    if hello.protocol >= PROTOCOL_WITH_PREVIEWS {
        return Ok(());
    }
    let message = format!("Cannery {} at {target} has no previews", one_line(&hello.cannery));
    Err(Failure::failed(message).hint(other_version_hint()))
}

fn is_text(start: &str) -> bool {
    !start.contains(|letter: char| {
        letter == char::REPLACEMENT_CHARACTER || letter.is_control() && !letter.is_whitespace()
    })
}

/// Says what to do if the other side is another version of Cannery, whose version we don't know.
fn other_version_hint() -> String {
    format!(
        "this is Cannery {}: install the same version there; `cannery --version` prints it",
        env!("CARGO_PKG_VERSION")
    )
}

/// A program without spaces is left as it is, because its name may be an alias, or start with `~/`.
fn quote_program(program: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-~+".contains(character);
    if program.chars().all(is_plain) { program.to_owned() } else { quote(program) }
}

fn start_failure(program: &str, error: &io::Error) -> Failure {
    let failure = Failure::failed(format!("cannot start `{}`: {error}", one_line(program)));
    match error.kind() {
        io::ErrorKind::NotFound => {
            failure.hint("install OpenSSH's client, or name another program with `--ssh COMMAND`")
        }
        _ => failure,
    }
}

/// Explains what went wrong after the other side has said hello. If this machine can't write, the exit code says so.
pub(super) fn client_failure(target: &Target, error: &ClientError) -> Failure {
    match error {
        ClientError::Refused(refusal) => {
            let failure = match (refusal.kind, target) {
                (RefusalKind::Protocol, _) => Failure::failed(format!("the other side refused: {refusal}")),
                (RefusalKind::Write, Target::Local(_)) => Failure::output(refusal.message.clone()),
                _ => Failure::failed(refusal.message.clone()),
            };
            failure.hint_if(refusal.hint.as_ref())
        }
        ClientError::Frame(FrameError::Version { .. }) => {
            Failure::failed(error.to_string()).hint("install the same version of Cannery on both machines")
        }
        ClientError::Frame(
            FrameError::Payload { .. } | FrameError::TooLong(_) | FrameError::Unexpected { .. },
        ) => Failure::failed(error.to_string()).hint(other_version_hint()),
        ClientError::Frame(FrameError::Closed | FrameError::Cut) | ClientError::Lost(_) => {
            Failure::failed(error.to_string())
                .hint("run the same command again: it continues with what arrived completely")
        }
        ClientError::Archive(_) | ClientError::Recipe(_) => Failure::input(error.to_string()),
        _ => Failure::failed(error.to_string()),
    }
}
