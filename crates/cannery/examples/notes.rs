//! A service beside a site, with what most services need. Usage: `notes [ADDRESS:PORT [ORIGIN [SITE.cdb]]]`. Without an archive, it
//! serves the one that `cannery bundle` has put into the program. Pages of ORIGIN may use the API.

use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cannery::{
    Broadcast, ContentReader, Cors, Event, HandlerError, OrStatus, Problem, Request, Response, Server,
    SetCookie,
};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TransactionError, WriteTransaction};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Notes in JSON, by number.
const NOTES: TableDefinition<u64, &str> = TableDefinition::new("notes");

/// Users by the hash of their session, because a copy of the database shouldn't be enough to log in. A real service forgets
/// sessions after a while.
const SESSIONS: TableDefinition<&[u8; 32], &str> = TableDefinition::new("sessions");

#[derive(Serialize, Deserialize)]
struct Note {
    author: String,
    text: String,
}

/// State that all handlers share. It lives as long as the program.
pub(crate) struct Service {
    folder: PathBuf,
    database: Database,
    news: Broadcast,
    upstream: SocketAddr,
    runtime: Runtime,
}

impl Service {
    pub(crate) fn open(folder: PathBuf, upstream: SocketAddr) -> Result<&'static Service, Box<dyn Error>> {
        fs::create_dir_all(&folder)?;
        let database = Database::create(folder.join("notes.redb"))?;
        let creation = begin_change(&database)?;
        creation.open_table(NOTES)?;
        creation.open_table(SESSIONS)?;
        creation.commit()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Box::leak(Box::new(Service { folder, database, news: Broadcast::new(), upstream, runtime })))
    }

    pub(crate) fn server(&'static self, origin: &str) -> Server {
        let cors = Cors::new([origin]).with_methods(["GET", "POST", "PUT"]);
        let cors = cors.with_credentials().with_exposed_headers(["Location"]);
        Server::new().group("/api", |api| {
            api.wrap(cors.middleware())
                .on_error(|_, error| Problem::from(error))
                .blocking_route("POST /session", |request| self.log_in(request))
                // The database reads and writes files, so the threads of connections shouldn't wait for it.
                .blocking_route("GET /notes", |_| self.notes())
                .blocking_route("GET /notes/{note}", |request| Response::json(&self.note(request)?.1))
                .blocking_route("POST /notes", |request| self.add_note(request))
                .route("GET /events", |_| self.news.subscribe())
                .blocking_route("GET /health", |_| self.check_upstream())
                .group("/pictures", |pictures| {
                    pictures
                        .content_bytes_max(10 << 20)
                        .upload_route("PUT /{note}", |request, content| self.upload(request, content))
                })
        })
    }

    fn log_in(&self, request: &Request) -> Result<Response, HandlerError> {
        let form = request.form()?;
        // A real service checks a password here.
        let user = form.get("user").filter(|user| !user.is_empty()).or_status(400, "Which user?")?;
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let session = format!("{:032x}", u128::from_ne_bytes(random));
        let change = begin_change(&self.database)?;
        change.open_table(SESSIONS)?.insert(hash(&session).as_bytes(), &*user)?;
        change.commit()?;
        Ok(Response::new(204).with_cookie(SetCookie::new("session", session).with_path("/api")))
    }

    /// Returns the user of the session.
    fn user(&self, request: &Request) -> Result<String, HandlerError> {
        let session = request.cookie("session").or_status(401, "Log in first.")?;
        let sessions = self.database.begin_read()?.open_table(SESSIONS)?;
        Ok(sessions.get(hash(session).as_bytes())?.or_status(401, "Log in again.")?.value().to_owned())
    }

    fn notes(&self) -> Result<Response, HandlerError> {
        let notes = self.database.begin_read()?.open_table(NOTES)?;
        let list: Result<Vec<Note>, HandlerError> =
            notes.iter()?.map(|row| Ok(serde_json::from_str(row?.1.value())?)).collect();
        Response::json(&list?)
    }

    /// Returns the note that the path names, and its number. A number can't lead out of the folder, as a name could.
    fn note(&self, request: &Request) -> Result<(u64, Note), HandlerError> {
        let number = request.param("note").parse().or_status(404, "No such note.")?;
        let notes = self.database.begin_read()?.open_table(NOTES)?;
        let note = notes.get(number)?.or_status(404, "No such note.")?;
        Ok((number, serde_json::from_str(note.value())?))
    }

    fn add_note(&self, request: &Request) -> Result<Response, HandlerError> {
        let note = Note { author: self.user(request)?, text: request.json()? };
        if note.text.is_empty() {
            return Err(Problem::new(422).with_detail("A note needs a text.").into());
        }
        let json = serde_json::to_string(&note)?;
        let change = begin_change(&self.database)?;
        let mut notes = change.open_table(NOTES)?;
        let number = notes.last()?.map_or(0, |(last, _)| last.value() + 1);
        notes.insert(number, &*json)?;
        drop(notes);
        change.commit()?;
        self.news.send(&Event::new(json).with_name("note"));
        Ok(Response::new(201).with_header("Location", format!("/api/notes/{number}")))
    }

    /// Stores a picture while it arrives.
    fn upload(&self, request: &Request, mut content: ContentReader) -> Result<(), HandlerError> {
        let (number, note) = self.note(request)?;
        if note.author != self.user(request)? {
            return Err(HandlerError::new(403, "Only its author may set a note's picture."));
        }
        content.save_to(self.folder.join(format!("{number}.picture")))?;
        Ok(())
    }

    /// Waits for an asynchronous task, on a thread of the pool.
    fn check_upstream(&self) -> Result<&'static str, HandlerError> {
        let connect = async { timeout(Duration::from_secs(2), TcpStream::connect(self.upstream)).await? };
        self.runtime.block_on(connect).or_status(503, "The other service doesn't answer.")?;
        Ok("up")
    }
}

/// Begins a change. The program never closes the database, so each commit prepares it for being opened without a repair.
fn begin_change(database: &Database) -> Result<WriteTransaction, TransactionError> {
    let mut change = database.begin_write()?;
    change.set_quick_repair(true);
    Ok(change)
}

fn hash(session: &str) -> blake3::Hash {
    blake3::hash(session.as_bytes())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let origin = words.next().unwrap_or_default();
    let archive = words.next().map_or_else(std::env::current_exe, |path| Ok(path.into()))?;
    let service = Service::open("notes".into(), ([127, 0, 0, 1], 5432).into())?;
    service.server(&origin).site(archive).bind(&address).run_with(|addresses| {
        for (_, address) in &addresses.listeners {
            eprintln!("listening at http://{address}/");
        }
    })?;
    Ok(())
}
