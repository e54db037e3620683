//! The process that keeps certificates valid for `cannery-server --certificates NAMES`.
//!
//! Like the one that compiles a folder, it consists of two: one that issues, in a sandbox of its own, and one that starts it again
//! if it ends, which the sandbox doesn't allow. The server is at the other end of their standard input. On standard output it
//! expects one line, the thumbprint of the account key or why there is none ([`LATER`], [`NEVER`]), and on standard input it sends a
//! byte once it answers challenges.
//!
//! Whatever fails here, the server continues to serve. So errors are printed once, and tried again later. Only without a folder at the
//! first start there is nothing to try again, because neither sandbox admits one that is created later.

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use cannery_certificates::{Caller, Error, Issuer, Settings, publish_thumbprint};
use cannery_server::config::Account;
use cannery_server::process::restarts::Restarts;
use cannery_server::sandbox::{Plan, Sandbox};
use rustix::fs::{Dir, Gid, Mode, OFlags, Uid, fchown, fstat, open};
use rustix::io::Errno;
use rustix::process::{geteuid, umask};

use super::report::Report;
use super::settings;
use crate::commands::serving_parent::{await_server_end, has_server_ended_within, leave_signals_to_server};
use crate::flags::certificates::{Certificates, ForServer, IssueStart};
use crate::output::{self, Exit, Failure, Paint, one_line};

/// Time between two attempts to use a folder, or to write a state. An operator may free the disk, for example.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Time between two attempts to lock the folder. During a takeover, the process of the former server still holds the lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(500);

/// A takeover may last this long, so a lock that is held for longer is worth a message.
const TAKEOVER_TIME: Duration = Duration::from_secs(60);

/// The server reads another thumbprint from the folder within this time.
const THUMBPRINT_TIME: Duration = Duration::from_secs(2);

/// The first line if the server should look for the thumbprint in the folder.
pub(crate) const LATER: &str = "later";

/// The first line if there won't be a thumbprint.
pub(crate) const NEVER: &str = "never";

/// The server waits for the thumbprint, so we don't wait for the lock for longer than this.
const FIRST_LOCK_TIME: Duration = Duration::from_secs(5);

/// Runs this process's part until the server ends.
///
/// # Errors
///
/// Returns an error if a process can't be started, or can't enter the sandbox.
pub(super) fn run(flags: &Certificates, server: &ForServer) -> Result<(), Failure> {
    leave_signals_to_server();
    match server.issues {
        None => keep(flags),
        Some(start) => issue(flags, server, start),
    }
}

/// Starts the process that issues, and starts it again if it ends.
fn keep(flags: &Certificates) -> Result<(), Failure> {
    // An update may replace the file, so this has to be determined now.
    let program = std::env::current_exe();
    let program = program.map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let mut start = IssueStart::First;
    let mut restarts = Restarts::of_process_started(Instant::now());
    loop {
        restarts.start(Instant::now());
        let end = match run_once(&program, start) {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        start = IssueStart::Again;
        // The same signal may have stopped the server.
        if has_server_ended_within(restarts.delay_after_exit(Instant::now())) {
            return Ok(());
        }
        output::note(format_args!(
            "{} {}: the process that renews certificates has ended ({}) and is started again",
            Paint::for_errors().warning("warning:"),
            one_line(&flags.directory.display().to_string()),
            one_line(&end),
        ));
    }
}

/// Runs the process once, with our own arguments, standard input and standard output.
fn run_once(program: &Path, start: IssueStart) -> io::Result<ExitStatus> {
    let mut command = Command::new(program);
    // The names come last, after `--`.
    let mut arguments = std::env::args_os().skip(1);
    command.args(arguments.next()).arg(format!("--for-server-issue={}", start.word())).args(arguments);
    command.spawn()?.wait()
}

/// Issues certificates until the server ends.
fn issue(flags: &Certificates, server: &ForServer, start: IssueStart) -> Result<(), Failure> {
    let mut start = start;
    let mut printed = None;
    let mut settings = loop {
        let failure = match settings(flags, Caller::Server) {
            Ok(settings) => break settings,
            // For example, the key of the external account is missing.
            Err(failure) => failure,
        };
        let shown = failure.to_json();
        if printed.as_ref() != Some(&shown) {
            let _ = output::report(Err(failure));
            printed = Some(shown);
        }
        if start == IssueStart::First {
            // The server doesn't wait for another attempt. Neither sandbox admits a folder that is created later.
            let has_folder = create_folder(&flags.directory, server.account).is_ok();
            let _ = output::print(format_args!("{}\n", if has_folder { LATER } else { NEVER }));
            if !has_folder {
                return Ok(());
            }
            start = IssueStart::Again;
        }
        if has_server_ended_within(RETRY_INTERVAL) {
            return Ok(());
        }
    };
    if settings.folder.is_relative() {
        let absolute = std::path::absolute(&settings.folder);
        settings.folder = absolute.map_err(|error| Failure::failed(error.to_string()))?;
    }
    // In the sandbox, folders can't be created. If this fails, the folder can't be used either, and then the error is reported.
    let created = create_folder(&settings.folder, server.account);
    enter_sandbox(&settings, server)?;
    let end = || {
        await_server_end();
        std::process::exit(Exit::Done as i32)
    };
    let ended = thread::Builder::new().name("server".into()).spawn(end);
    ended.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;

    let mut messages = Messages::default();
    // The thumbprint that the server has, as far as we know.
    let mut known = None;
    let told = match created {
        Ok(()) => tell_thumbprint(&settings.folder),
        Err(source) => Err(Error::Folder { action: "create", path: settings.folder.clone(), source }),
    };
    match told {
        // Later, the server reads the file.
        Ok(thumbprint) => known = (start == IssueStart::First).then_some(thumbprint),
        Err(error) => {
            messages.print(&error);
            if start == IssueStart::First {
                // The server should not wait any longer. It will find the thumbprint in the folder.
                let has_folder = settings.folder.is_dir();
                let _ = output::print(format_args!("{}\n", if has_folder { LATER } else { NEVER }));
                if !has_folder {
                    return Ok(());
                }
            }
        }
    }
    if start == IssueStart::First {
        await_challenges();
    }

    let report = Report::new(false, flags.quiet);
    let began = Instant::now();
    loop {
        let error = match Issuer::open(settings.clone()) {
            Ok(mut issuer) => {
                let opened = Instant::now();
                if known.as_deref() != Some(issuer.thumbprint()) {
                    // Without this, our check of the server would fail, and the next one would be a minute later.
                    thread::sleep(THUMBPRINT_TIME);
                    known = Some(issuer.thumbprint().to_owned());
                }
                let Err(error) = issuer.run(&mut |event| report.event(event));
                if opened.elapsed() > RETRY_INTERVAL {
                    // It has worked meanwhile, so the same error is news.
                    messages = Messages::default();
                }
                error
            }
            Err(error) => error,
        };
        if matches!(error, Error::Held { .. }) {
            if began.elapsed() > TAKEOVER_TIME {
                messages.print(&error);
            }
            thread::sleep(LOCK_INTERVAL);
        } else {
            messages.print(&error);
            thread::sleep(RETRY_INTERVAL);
        }
    }
}

/// Creates the folder unless it exists. Its owner is the user that we will change to.
fn create_folder(path: &Path, account: Option<Account>) -> io::Result<()> {
    // The user must be able to enter the folders above, which are not ours alone, whatever the mask of the service is. There is only
    // one thread yet.
    let mask = umask(Mode::from_raw_mode(0o022));
    let created = path.parent().map_or(Ok(()), fs::create_dir_all);
    let created = created.and_then(|()| DirBuilder::new().mode(0o700).create(path));
    umask(mask);
    match created {
        Err(_) if path.is_dir() => {}
        created => created?,
    }
    match account {
        Some(account) => give_new_folder(path, account),
        None => Ok(()),
    }
}

/// Gives a folder to a user if it is new: it is empty and belongs to us, perhaps because a process was killed that had created it.
fn give_new_folder(path: &Path, Account { user, group }: Account) -> io::Result<()> {
    // A user who can write above may have replaced the folder by a link to another one.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = match open(path, flags, Mode::empty()) {
        Ok(folder) => folder,
        // The operator has chosen another folder, and its owner. We may lack the permission to read the folders of others.
        Err(Errno::LOOP | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let found = fstat(&folder)?;
    // We create it with these permissions, and some folders add their set-group-ID bit. The operator has chosen others.
    if found.st_uid != geteuid().as_raw() || found.st_mode & 0o777 != 0o700 {
        return Ok(());
    }
    for entry in Dir::read_from(&folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(());
        }
    }
    Ok(fchown(&folder, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?)
}

fn enter_sandbox(settings: &Settings, server: &ForServer) -> Result<(), Failure> {
    let plan = Plan {
        sandbox: server.sandbox,
        account: server.account,
        read: settings.authority.roots.iter().cloned().collect(),
        issue: vec![settings.folder.clone()],
        ..Plan::default()
    };
    let entered = Sandbox::enter(&plan);
    let (_, report) = entered.map_err(|error| Failure::failed(error.to_string()))?;
    // The server prints which layers are missing.
    for message in &report.unreachable {
        output::note(one_line(message));
    }
    Ok(())
}

/// Prints and returns the thumbprint of the account key, which is generated if there is none.
fn tell_thumbprint(folder: &Path) -> Result<String, Error> {
    let began = Instant::now();
    let thumbprint = loop {
        match publish_thumbprint(folder) {
            // Another process generates the key right now.
            Err(Error::Held { .. }) if began.elapsed() < FIRST_LOCK_TIME => thread::sleep(LOCK_INTERVAL),
            other => break other?,
        }
    };
    // If a former process has told it, the server doesn't read this.
    let _ = output::print(format_args!("{thumbprint}\n"));
    Ok(thumbprint)
}

/// Waits until the server answers challenges.
fn await_challenges() {
    // If it has ended instead, the other thread ends the process.
    let _ = io::stdin().read(&mut [0]);
}

/// Prints each error once, until there is another one.
#[derive(Default)]
struct Messages {
    last: Option<String>,
}

impl Messages {
    fn print(&mut self, error: &Error) {
        let message = error.to_string();
        if self.last.as_ref() == Some(&message) {
            return;
        }
        let paint = Paint::for_errors();
        output::note(format_args!("{} {}", paint.error("error:"), one_line(&message)));
        if let Some(hint) = error.hint_for(Caller::Server) {
            output::note(format_args!("{} {}", paint.strong("hint:"), one_line(&hint)));
        }
        self.last = Some(message);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    /// Another user than ours, if we may give folders away.
    fn other() -> Account {
        let me = geteuid().as_raw();
        let user = if me == 0 { 12_345 } else { me };
        Account { user, group: fs::metadata("/proc/self").unwrap().gid() }
    }

    fn owner(path: &Path) -> u32 {
        path.metadata().unwrap().uid()
    }

    #[test]
    fn folder_of_a_killed_process_is_given_to_the_user() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/tls");
        create_folder(&path, None).unwrap();
        create_folder(&path, Some(other())).unwrap();
        assert_eq!(owner(&path), other().user);
        // Once more, by the next start.
        create_folder(&path, Some(other())).unwrap();

        // The operator has chosen the owner of this one.
        let used = place.path().join("used");
        DirBuilder::new().mode(0o700).create(&used).unwrap();
        fs::write(used.join("account.pem"), "").unwrap();
        create_folder(&used, Some(other())).unwrap();
        assert_eq!(owner(&used), geteuid().as_raw());

        // And of this one, which its group may read.
        let shared = place.path().join("shared");
        DirBuilder::new().mode(0o750).create(&shared).unwrap();
        create_folder(&shared, Some(other())).unwrap();
        assert_eq!(owner(&shared), geteuid().as_raw());

        // The folder above passes on its set-group-ID bit.
        let group = place.path().join("group");
        fs::create_dir(&group).unwrap();
        fs::set_permissions(&group, Permissions::from_mode(0o2755)).unwrap();
        create_folder(&group.join("tls"), Some(other())).unwrap();
        assert_eq!(owner(&group.join("tls")), other().user);
    }

    #[test]
    fn link_gives_no_other_folder_away() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("target");
        DirBuilder::new().mode(0o700).create(&target).unwrap();
        let path = place.path().join("tls");
        symlink(&target, &path).unwrap();
        create_folder(&path, Some(other())).unwrap();
        assert_eq!(owner(&target), geteuid().as_raw());

        fs::remove_dir(&target).unwrap();
        assert!(create_folder(&path, Some(other())).is_err());
    }
}
