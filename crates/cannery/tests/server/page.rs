//! The code of `docs/routes.md`, so that it compiles, with the parts that the page leaves out. The example of a whole service has a
//! file of its own.

#![allow(dead_code, clippy::needless_return, reason = "the compiler is the test of most parts")]

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Context;
use cannery::{
    Broadcast, ContentReader, Cors, Event, HandlerError, Multipart, OrStatus, Problem, Request, Response,
    Server, SetCookie,
};

type Result<T = (), E = HandlerError> = std::result::Result<T, E>;

#[rustfmt::skip] // The page has a line for each call.
mod first_route {
    use cannery::{Request, Response, Server};

    fn hello(request: &Request) -> Response {
        Response::text(format!("Hello {}!", request.param("name")))
    }

    fn main() -> Result<(), cannery::StartError> {
        Server::new()
            .site("site.cdb")
            .route("GET /hello/{name}", hello)
            .bind("127.0.0.1:8080")
            .run()
    }

    pub(super) fn server() -> Server {
        Server::new().route("GET /hello/{name}", hello)
    }
}

fn person(_: &Request) -> &'static str {
    "Ada"
}

fn create(_: &Request) {}

fn groups(server: Server) -> Server {
    server.group("/api", |api| {
        api.content_bytes_max(10 << 20)
            .timeout(Duration::from_secs(5))
            .on_error(|_, error| Problem::from(error))
            .route("GET /people/{id}", person)
            .blocking_route("POST /people", create)
    })
}

fn path_of(_: &Request) -> io::Result<PathBuf> {
    Ok(PathBuf::new())
}

fn uploads(server: Server) -> Server {
    fn store(request: &Request, mut content: ContentReader) -> Result<String, HandlerError> {
        let bytes = content.save_to(path_of(request)?)?;
        Ok(format!("Stored {bytes} bytes."))
    }

    server.group("/backups", |group| group.content_bytes_max(10 << 30).upload_route("PUT /{name}", store))
}

fn save_title(_: &str) -> io::Result<()> {
    Ok(())
}

fn next_path() -> PathBuf {
    PathBuf::new()
}

fn add_photo(request: &Request, content: ContentReader) -> Result<Response, HandlerError> {
    let mut form = Multipart::new(request, content)?.part_bytes_max(20 << 20);
    while let Some(mut part) = form.next_part()? {
        match part.name() {
            "title" => save_title(&part.text()?)?,
            "photo" => _ = part.save_to(next_path())?, // also a `Read`
            _ => {}
        }
    }
    Ok(Response::redirect(303, "/photos"))
}

fn rows() -> io::Result<Vec<String>> {
    Ok(Vec::new())
}

fn export(_: &Request) -> Response {
    Response::stream("text/csv", |body| {
        for row in rows()? {
            writeln!(body, "{row}")?;
        }
        Ok(())
    })
}

fn events(server: Server) -> Server {
    static NEWS: Broadcast = Broadcast::new();

    let server = server.route("GET /events", |_| NEWS.subscribe());

    NEWS.send(&Event::new("It rains.").with_name("weather"));
    server
}

struct City;

impl City {
    fn forecast(&self, days: u8) -> io::Result<Vec<u8>> {
        Ok(vec![0; days.into()])
    }
}

fn cities() -> &'static HashMap<&'static str, City> {
    static CITIES: LazyLock<HashMap<&str, City>> = LazyLock::new(HashMap::new);
    &CITIES
}

fn forecast(request: &Request) -> Result<Response, HandlerError> {
    let days: u8 = request.param("days").parse().or_status(400, "The days must be a number.")?;
    let city = cities().get(&*request.param("city")).or_status(404, "No such city.")?;
    Response::json(&city.forecast(days)?)
}

fn load_report(year: u16) -> anyhow::Result<String> {
    let path = format!("reports/{year}.txt");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

fn report(request: &Request) -> Result<Response, HandlerError> {
    let year = request.param("year").parse().or_status(400, "The year must be a number.")?;
    Ok(Response::text(load_report(year)?))
}

fn short_report(_: &Request) -> anyhow::Result<Response> {
    Ok(Response::text(load_report(2000)?))
}

#[test]
fn errors_of_anyhow_are_errors_of_handlers() {
    let server = Server::new().route("GET /reports/{year}", report).route("GET /short", short_report);
    for (target, status) in [("/reports/2000", 500), ("/reports/x", 400), ("/short", 500)] {
        let response = server.respond(&Request::builder("GET", target)).unwrap();
        assert_eq!(response.status(), status, "{target}");
        let content = String::from_utf8(response.into_content().unwrap()).unwrap();
        assert!(!content.contains("reports/2000.txt"), "{content}");
    }
}

enum Refusal {
    Busy,
    UnknownCity(String),
}

impl From<Refusal> for HandlerError {
    fn from(refusal: Refusal) -> HandlerError {
        match refusal {
            Refusal::Busy => HandlerError::new(503, "Try again later.").with_header("Retry-After", "5"),
            Refusal::UnknownCity(name) => HandlerError::new(404, format!("There is no city {name}.")),
        }
    }
}

#[test]
fn errors_choose_their_response() {
    let refuse = |refusal: Refusal| -> Result { Err(refusal)? };
    assert_eq!(refuse(Refusal::Busy).unwrap_err().status(), 503);
    let unknown = refuse(Refusal::UnknownCity("Atlantis".into())).unwrap_err();
    assert_eq!((unknown.status(), unknown.message()), (404, "There is no city Atlantis."));
}

fn problem() -> Result {
    return Err(Problem::new(422).with_detail("A person needs a name.").with_member("field", "name")?.into());
}

fn middleware(server: Server) -> Server {
    struct User(String);

    server.wrap(|request, next| match request.cookie("user") {
        Some(user) => {
            request.insert(User(user.to_owned()));
            next(request).with_header("Cache-Control", "no-store")
        }
        None => Response::redirect(303, "/login"),
    })
}

fn cross_origin(server: Server) -> Server {
    let cors = Cors::new(["https://app.example"]).with_methods(["GET", "POST", "DELETE"]).with_credentials();
    server.group("/api", |api| api.wrap(cors.middleware()).route("GET /people/{id}", person))
}

fn cookies(token: &str) -> Response {
    let cookie = SetCookie::new("__Host-session", token).with_max_age(Duration::from_secs(86_400));
    Response::new(204).with_cookie(cookie)
}

use first_route::server;

#[test]
fn greets() {
    let request = Request::builder("GET", "/hello/you").with_header("Accept-Language", "en");
    let response = server().respond(&request).unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.into_content().unwrap(), b"Hello you!");
}

fn settings(server: Server) -> Result<Server> {
    use cannery::config::AdminPage;

    let admin = AdminPage::new("127.0.0.1:9090".parse()?);
    let server = server.configure(|settings| settings.drain(Duration::from_secs(30)).admin(admin));
    Ok(server)
}

fn behind_a_proxy(server: Server) -> Result<Server> {
    use cannery::config::{ForwardedField, TrustedProxies};

    let proxies = vec!["10.0.0.0/8".parse()?];
    let server = server.trusted_proxies(TrustedProxies::new(proxies, ForwardedField::XForwardedFor));
    Ok(server)
}

fn processes(server: Server) -> Result {
    const PROCESSES: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    server.processes(PROCESSES).run()?;
    Ok(())
}
