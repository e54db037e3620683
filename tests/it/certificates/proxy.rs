//! A proxy in front of the authority, which counts requests and damages responses.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::authority::Authority;
use crate::transports::connect_tls;

/// The treatment of a request and its response.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is passed on.
    None,
    /// Another response is sent, and the authority doesn't see the request.
    Instead(String),
    /// The connection ends after this many bytes.
    CutAt(usize),
    /// A text in the content is replaced.
    Replace(&'static str, &'static str),
}

/// Decides about a request: by its path, and by how many requests there were with the same path before.
type Plan = Box<dyn Fn(&str, usize) -> Fault + Send>;

/// A running proxy. It ends with the process.
pub(crate) struct Proxy {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

struct State {
    plan: Plan,
    /// The paths of all requests.
    paths: Vec<String>,
}

impl Proxy {
    /// Starts a proxy with a certificate from `authority`.
    pub(crate) fn start(authority: &Authority, upstream: &str) -> Proxy {
        let place = tempfile::tempdir().unwrap();
        let (public, private) = authority.certify(&["127.0.0.1"]).write_pair(place.path());
        let chain = CertificateDer::pem_file_iter(public).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(private).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let config = Arc::new(config);

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State { plan: Box::new(|_, _| Fault::None), paths: Vec::new() }));
        let (shared, upstream) = (Arc::clone(&state), upstream.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, shared, upstream) = (Arc::clone(&config), Arc::clone(&shared), upstream.clone());
                // A client that is killed ends its connection anywhere.
                std::thread::spawn(move || drop(serve(stream, config, &shared, &upstream)));
            }
        });
        Proxy { address, state }
    }

    /// Sets what happens from now on, and forgets all requests.
    pub(crate) fn plan(&self, plan: impl Fn(&str, usize) -> Fault + Send + 'static) {
        let mut state = self.state.lock().unwrap();
        state.plan = Box::new(plan);
        state.paths.clear();
    }

    /// Returns the number of requests whose path begins with this one.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.state.lock().unwrap().paths.iter().filter(|seen| seen.starts_with(path)).count()
    }
}

/// Serves one request.
fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    state: &Mutex<State>,
    upstream: &str,
) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut client = StreamOwned::new(connection, stream);
    let request = read_request(&mut client)?;
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let fault = {
        let mut state = state.lock().unwrap();
        let earlier = state.paths.iter().filter(|seen| **seen == path).count();
        let fault = (state.plan)(&path, earlier);
        state.paths.push(path);
        fault
    };

    let response = match fault {
        Fault::Instead(response) => response.into_bytes(),
        Fault::None => forward(&request, upstream)?,
        Fault::CutAt(end) => {
            let mut response = forward(&request, upstream)?;
            response.truncate(end);
            response
        }
        Fault::Replace(old, new) => replace(&forward(&request, upstream)?, old, new),
    };
    client.write_all(&response)?;
    client.conn.send_close_notify();
    client.flush()
}

/// Reads a request with its content.
fn read_request(client: &mut impl Read) -> io::Result<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, content)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if content.len() >= length.unwrap_or(0) {
                return Ok(text);
            }
        }
        match client.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Sends a request to the authority, and returns the response. The connection ends with it.
fn forward(request: &str, upstream: &str) -> io::Result<Vec<u8>> {
    let mut authority = connect_tls(upstream, &[]);
    let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    authority.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    authority.read_to_end(&mut response)?;
    Ok(response)
}

/// Replaces a text in the content of a response, and corrects its length.
fn replace(response: &[u8], old: &str, new: &str) -> Vec<u8> {
    let response = String::from_utf8(response.to_vec()).unwrap();
    let (head, content) = response.split_once("\r\n\r\n").unwrap();
    let replaced = content.replace(old, new);
    let length = |content: &str| format!("Content-Length: {}", content.len());
    format!("{}\r\n\r\n{replaced}", head.replace(&length(content), &length(&replaced))).into_bytes()
}

/// Returns a response with a problem document (RFC 7807), whose nonce is none of the authority's.
pub(crate) fn problem(status: u16, kind: &str, fields: &str) -> Fault {
    let content =
        format!(r#"{{"type":"urn:ietf:params:acme:error:{kind}","detail":"a test","status":{status}}}"#);
    Fault::Instead(format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/problem+json\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n{content}",
        content.len()
    ))
}

/// Returns a response without a problem document.
pub(crate) fn response(status: u16, media_type: &str, content: &str) -> Fault {
    Fault::Instead(format!(
        "HTTP/1.1 {status} x\r\nContent-Type: {media_type}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ))
}
