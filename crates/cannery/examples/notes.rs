//! A service beside a site, with what most services need. Usage: `notes [ADDRESS:PORT [ORIGIN [SITE.cdb]]]`. Without an archive, it
//! serves the one that `cannery bundle` has put into the program. Pages of ORIGIN may use the API.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{process, thread};

use cannery::{
    ContentReader, Event, EventWriter, HandlerError, Next, OrStatus, Problem, Request, Response, Server,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

#[derive(Serialize, Deserialize)]
struct Note {
    author: String,
    text: String,
}

/// State that all handlers share.
pub(crate) struct Service {
    /// A real service has the connections to its database here. Ours is a file.
    notes: Mutex<Vec<Note>>,
    /// Users by session. A real service forgets sessions after a while.
    sessions: Mutex<HashMap<String, String>>,
    listeners: Mutex<Vec<EventWriter>>,
    folder: PathBuf,
    origin: String,
    upstream: SocketAddr,
    runtime: Runtime,
}

struct User(String);

impl Service {
    pub(crate) fn open(
        folder: PathBuf,
        origin: &str,
        upstream: SocketAddr,
    ) -> Result<Arc<Service>, Box<dyn Error>> {
        fs::create_dir_all(&folder)?;
        let notes = match fs::read(folder.join("notes.json")) {
            Ok(json) => serde_json::from_slice(&json)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Arc::new(Service {
            notes: Mutex::new(notes),
            sessions: Mutex::default(),
            listeners: Mutex::default(),
            folder,
            origin: origin.to_owned(),
            upstream,
            runtime: Builder::new_current_thread().enable_all().build()?,
        }))
    }

    pub(crate) fn server(self: &Arc<Service>) -> Server {
        let (for_cors, for_users, for_uploads) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        Server::new().group("/api", |api| {
            api.wrap(move |request, next| for_cors.cors(request, next))
                .wrap(move |request, next| for_users.find_user(request, next))
                .on_error(|_, error| Problem::from(error))
                .blocking_route("POST /session", self.handler(Service::log_in))
                // The lock is held while notes are written, so workers shouldn't wait for it.
                .blocking_route("GET /notes", self.handler(Service::notes))
                .blocking_route("GET /notes/{note}", self.handler(Service::note))
                .blocking_route("POST /notes", self.handler(Service::add_note))
                .route("GET /events", self.handler(Service::events))
                .blocking_route("GET /health", self.handler(Service::health))
                .group("/pictures", |pictures| {
                    pictures
                        .content_bytes_max(10 << 20)
                        .upload_route("PUT /{note}", move |request, content| {
                            for_uploads.upload(request, content)
                        })
                })
        })
    }

    fn handler<R: 'static>(
        self: &Arc<Service>,
        method: fn(&Service, &Request<'_>) -> R,
    ) -> impl Fn(&Request<'_>) -> R + use<R> {
        let service = Arc::clone(self);
        move |request| method(&service, request)
    }

    /// Answers preflights, and lets pages of the other origin read all responses, including errors.
    fn cors(&self, request: &mut Request<'_>, next: &Next<'_>) -> Response {
        let is_allowed = request.header("Origin") == Some(self.origin.as_str());
        let is_preflight = request.header("Access-Control-Request-Method").is_some();
        let response = if request.method() == "OPTIONS" && is_preflight {
            // Preflights have no cookies, so functions inside of this one could refuse them.
            Response::new(204)
                .with_header("Access-Control-Allow-Methods", "GET, POST, PUT")
                .with_header("Access-Control-Allow-Headers", "Content-Type")
                .with_header("Access-Control-Max-Age", "600")
        } else {
            next(request)
        };
        // Caches must not use the response for another origin.
        let response = response.append_header("Vary", "Origin");
        if !is_allowed {
            return response;
        }
        response
            .with_header("Access-Control-Allow-Origin", &self.origin)
            .with_header("Access-Control-Allow-Credentials", "true")
            .with_header("Access-Control-Expose-Headers", "Location")
    }

    fn find_user(&self, request: &mut Request<'_>, next: &Next<'_>) -> Response {
        let user = request.cookie("session").and_then(|session| lock(&self.sessions).get(session).cloned());
        if let Some(user) = user {
            request.insert(User(user));
        }
        next(request)
    }

    fn log_in(&self, request: &Request<'_>) -> Result<Response, HandlerError> {
        let form = request.form()?;
        // A real service checks a password here.
        let user = form.get("user").filter(|user| !user.is_empty()).or_status(400, "Which user?")?;
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let session = format!("{:032x}", u128::from_ne_bytes(random));
        // Behind a proxy that ends TLS, add `Secure` always: the connection from there isn't encrypted.
        let secure = if request.is_tls() { "; Secure" } else { "" };
        let cookie = format!("session={session}; Path=/api; HttpOnly; SameSite=Lax{secure}");
        lock(&self.sessions).insert(session, user.into_owned());
        Ok(Response::new(204).append_header("Set-Cookie", cookie))
    }

    fn notes(&self, _: &Request<'_>) -> Result<Response, HandlerError> {
        Response::json(&*lock(&self.notes))
    }

    fn note(&self, request: &Request<'_>) -> Result<Response, HandlerError> {
        Response::json(find_note(&lock(&self.notes), request)?.1)
    }

    fn add_note(&self, request: &Request<'_>) -> Result<Response, HandlerError> {
        let author = &request.get::<User>().or_status(401, "Log in first.")?.0;
        let text: String = request.json()?;
        if text.is_empty() {
            return Err(Problem::new(422).with_detail("A note needs a text.").into());
        }
        let event = Event::new(json!({ "author": author, "text": text }).to_string()).with_name("note");

        let number = {
            let mut notes = lock(&self.notes);
            notes.push(Note { author: author.clone(), text });
            if let Err(error) = self.save(&notes) {
                notes.pop();
                return Err(error);
            }
            notes.len()
        };
        // Forgets clients that have left, or that are too slow.
        lock(&self.listeners).retain_mut(|listener| listener.try_send(&event).is_ok());
        Ok(Response::new(201).with_header("Location", format!("/api/notes/{number}")))
    }

    /// Replaces the file as a whole, so that a crash leaves the last one.
    fn save(&self, notes: &[Note]) -> Result<(), HandlerError> {
        let new = self.folder.join("notes.json.new");
        fs::write(&new, serde_json::to_vec(notes)?)?;
        Ok(fs::rename(new, self.folder.join("notes.json"))?)
    }

    fn events(&self, _: &Request<'_>) -> Response {
        let (writer, response) = Response::events();
        let mut listeners = lock(&self.listeners);
        // Without notes, nothing else would forget clients that have left.
        listeners.retain(|listener| !listener.is_cancelled());
        listeners.push(writer);
        response
    }

    /// Stores the content while it arrives.
    fn upload(&self, request: &Request<'_>, mut content: ContentReader) -> Result<(), HandlerError> {
        let user = request.get::<User>().or_status(401, "Log in first.")?;
        let number = {
            let notes = lock(&self.notes);
            let (number, note) = find_note(&notes, request)?;
            if note.author != user.0 {
                return Err(Problem::new(403)
                    .with_detail("Only its author may set a note's picture.")
                    .into());
            }
            number
        };
        // Until it is complete, it has a name of its own.
        let part = format!("{number}-{}-{:?}.part", process::id(), thread::current().id());
        let part = self.folder.join(part);
        let stored = File::create(&part)
            .and_then(|mut file| io::copy(&mut content, &mut file))
            .and_then(|_| fs::rename(&part, self.folder.join(format!("{number}.picture"))));
        if stored.is_err() {
            let _ = fs::remove_file(&part);
        }
        Ok(stored?)
    }

    /// Waits for an asynchronous task, on a thread of the pool.
    fn health(&self, _: &Request<'_>) -> Result<&'static str, HandlerError> {
        let connected = self.runtime.block_on(async {
            let connect = tokio::net::TcpStream::connect(self.upstream);
            tokio::time::timeout(Duration::from_secs(2), connect).await?
        });
        connected.or_status(503, "The other service doesn't answer.")?;
        Ok("up")
    }
}

/// Returns the note that the path names, and its number. A number can't lead out of the folder, as a name could.
fn find_note<'a>(notes: &'a [Note], request: &Request<'_>) -> Result<(usize, &'a Note), HandlerError> {
    let number: usize = request.param("note").parse().or_status(404, "No such note.")?;
    let note = notes.get(number.wrapping_sub(1)).or_status(404, "No such note.")?;
    Ok((number, note))
}

/// Locks, even if a handler has panicked meanwhile.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let origin = words.next().unwrap_or_default();
    let archive = words.next().map_or_else(std::env::current_exe, |path| Ok(path.into()))?;
    let service = Service::open("notes".into(), &origin, ([127, 0, 0, 1], 5432).into())?;
    service.server().site(archive).bind(&address).run_with(|addresses| {
        for (_, address) in &addresses.listeners {
            eprintln!("listening at http://{address}/");
        }
    })?;
    Ok(())
}
