//! Access of pages from other origins (CORS, in the WHATWG Fetch standard).

use std::time::Duration;

use crate::group::Next;
use crate::request::Request;
use crate::response::Response;

/// Lets pages of other origins use the routes of a group, by [`Cors::middleware`].
///
/// By default, these pages may send GET, HEAD and POST requests without cookies, also with JSON.
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use cannery::{Cors, Group};
///
/// fn api(group: Group) -> Group {
///     let cors = Cors::new(["https://app.example"]).with_methods(["GET", "POST", "DELETE"]).with_credentials();
///     group.wrap(cors.middleware()).route("GET /hello", |_| "Hello!")
/// }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Cors {
    /// The origins that may use the routes. `None` for all.
    origins: Option<Vec<String>>,
    methods: String,
    request_headers: String,
    exposed_headers: String,
    max_age: Duration,
    has_credentials: bool,
}

impl Cors {
    /// Allows pages of these origins, for example `https://app.example` or `http://localhost:5173`.
    pub fn new(origins: impl IntoIterator<Item = impl Into<String>>) -> Cors {
        let origins = origins.into_iter().map(Into::into).map(|origin: String| {
            // People copy it from the address bar.
            origin.trim_end_matches('/').to_ascii_lowercase()
        });
        Cors::of(Some(origins.collect()))
    }

    /// Allows pages of all origins, without cookies.
    pub fn any_origin() -> Cors {
        Cors::of(None)
    }

    fn of(origins: Option<Vec<String>>) -> Cors {
        Cors {
            origins,
            methods: "GET, HEAD, POST".to_owned(),
            request_headers: "Content-Type".to_owned(),
            exposed_headers: String::new(),
            max_age: Duration::from_secs(600),
            has_credentials: false,
        }
    }

    /// Sets the methods that pages may use.
    pub fn with_methods<'m>(self, methods: impl IntoIterator<Item = &'m str>) -> Cors {
        Cors { methods: list(methods), ..self }
    }

    /// Sets the header fields that pages may send, beside those which all pages may. Only `Content-Type` by default.
    pub fn with_request_headers<'m>(self, names: impl IntoIterator<Item = &'m str>) -> Cors {
        Cors { request_headers: list(names), ..self }
    }

    /// Sets the header fields of responses that pages may read, beside `Content-Type` and a few others.
    pub fn with_exposed_headers<'m>(self, names: impl IntoIterator<Item = &'m str>) -> Cors {
        Cors { exposed_headers: list(names), ..self }
    }

    /// Lets pages send cookies, and read the responses. This has no effect with [`Cors::any_origin`].
    pub fn with_credentials(self) -> Cors {
        Cors { has_credentials: true, ..self }
    }

    /// Sets how long browsers may remember what is allowed. The default is ten minutes.
    pub fn with_max_age(self, max_age: Duration) -> Cors {
        Cors { max_age, ..self }
    }

    /// Returns the function for [`Group::wrap`](crate::Group::wrap). It should come before other functions: preflights have no cookies,
    /// so those could refuse them.
    ///
    /// It answers preflights itself, and adds fields to all other responses, including errors.
    pub fn middleware(self) -> impl Fn(&mut Request<'_>, &Next<'_>) -> Response + Send + Sync + 'static {
        move |request, next| self.respond(request, next)
    }

    fn respond(&self, request: &mut Request<'_>, next: &Next<'_>) -> Response {
        let origin = request.header("Origin");
        let is_preflight = request.method() == "OPTIONS"
            && origin.is_some()
            && request.header("Access-Control-Request-Method").is_some();
        let response = if is_preflight {
            let response = Response::new(204)
                .with_header("Access-Control-Allow-Methods", &*self.methods)
                .with_header("Access-Control-Max-Age", self.max_age.as_secs().to_string());
            with_list(response, "Access-Control-Allow-Headers", &self.request_headers)
        } else {
            next(request)
        };
        let Some(origins) = &self.origins else { return self.allow(response, "*") };
        // Caches must not use the response for another origin.
        let response = response.append_header("Vary", "Origin");
        // Browsers send origins in lower case.
        match origin.filter(|origin| origins.iter().any(|allowed| allowed == origin)) {
            Some(origin) if self.has_credentials => {
                self.allow(response, origin).with_header("Access-Control-Allow-Credentials", "true")
            }
            Some(origin) => self.allow(response, origin),
            None => response,
        }
    }

    fn allow(&self, response: Response, origin: &str) -> Response {
        let response = response.with_header("Access-Control-Allow-Origin", origin);
        with_list(response, "Access-Control-Expose-Headers", &self.exposed_headers)
    }
}

fn list<'m>(items: impl IntoIterator<Item = &'m str>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

fn with_list(response: Response, name: &'static str, list: &str) -> Response {
    if list.is_empty() { response } else { response.with_header(name, list) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, HandlerError, RequestBuilder, Routes};

    fn respond(cors: Cors, request: &RequestBuilder) -> Response {
        let group = Group::default().group("/api", |api| {
            api.wrap(cors.middleware())
                .wrap(|request, next| match request.cookie("session") {
                    Some(_) => next(request).with_header("Vary", "Cookie"),
                    None => HandlerError::new(401, "Log in first.").into(),
                })
                .route("GET /a", |_| "a")
        });
        Routes::new(&group, 1000).unwrap().respond(request).response
    }

    fn fields(response: &Response) -> Vec<String> {
        let fields =
            response.headers().filter(|(name, _)| name.starts_with("Access-Control") || *name == "Vary");
        fields
            .map(|(name, value)| format!("{}: {value}", name.trim_start_matches("Access-Control-")))
            .collect()
    }

    fn get(origin: &str) -> RequestBuilder {
        Request::builder("GET", "/api/a").with_header("Cookie", "session=1").with_header("Origin", origin)
    }

    fn preflight(origin: &str) -> RequestBuilder {
        Request::builder("OPTIONS", "/api/a")
            .with_header("Origin", origin)
            .with_header("Access-Control-Request-Method", "PUT")
    }

    const ORIGIN: &str = "https://app.example";

    #[test]
    fn listed_origins_may_use_the_routes() {
        let cors = || Cors::new(["http://localhost:5173", "https://App.example/"]);
        let response = respond(cors(), &get(ORIGIN));
        assert_eq!(fields(&response), ["Vary: Cookie", "Vary: Origin", "Allow-Origin: https://app.example"]);
        let all = cors().with_credentials().with_exposed_headers(["Location", "ETag"]);
        let response = respond(all, &get("http://localhost:5173"));
        let expected = [
            "Allow-Origin: http://localhost:5173",
            "Expose-Headers: Location, ETag",
            "Allow-Credentials: true",
        ];
        assert_eq!(fields(&response)[2..], expected);

        for origin in
            ["null", "", "https://app.example:444", "http://app.example", "https://app.example.evil.example"]
        {
            for request in [get(origin), preflight(origin)] {
                let fields = fields(&respond(cors().with_credentials(), &request));
                assert!(
                    !fields.iter().any(|field| field.starts_with("Allow-Origin") || field.contains("Cred")),
                    "{fields:?}"
                );
                assert!(fields.iter().any(|field| field == "Vary: Origin"), "{fields:?}");
            }
        }
        let same_origin = Request::builder("GET", "/api/a").with_header("Cookie", "session=1");
        assert_eq!(fields(&respond(cors(), &same_origin)), ["Vary: Cookie", "Vary: Origin"]);
    }

    #[test]
    fn preflights_are_answered_without_the_inner_functions() {
        let cors = Cors::new([ORIGIN]).with_methods(["GET", "PUT"]).with_max_age(Duration::from_secs(5));
        let response = respond(cors.clone(), &preflight(ORIGIN));
        assert_eq!(response.status(), 204);
        let expected = [
            "Allow-Methods: GET, PUT",
            "Max-Age: 5",
            "Allow-Headers: Content-Type",
            "Vary: Origin",
            "Allow-Origin: https://app.example",
        ];
        assert_eq!(fields(&response), expected);
        let none = cors.clone().with_request_headers([]);
        assert!(respond(none, &preflight(ORIGIN)).header("Access-Control-Allow-Headers").is_none());
        // This is an ordinary request, which the inner function refuses. Pages can read the error.
        let options = Request::builder("OPTIONS", "/api/a").with_header("Origin", ORIGIN);
        let response = respond(cors, &options);
        assert_eq!((response.status(), response.header("Access-Control-Allow-Origin")), (401, Some(ORIGIN)));
    }

    #[test]
    fn all_origins_get_no_credentials() {
        let response = respond(Cors::any_origin().with_credentials(), &get("https://any.example"));
        assert_eq!(fields(&response), ["Vary: Cookie", "Allow-Origin: *"]);
    }
}
