//! The program serves the site that it carries, and its own route.

#![forbid(unsafe_code)]

#[path = "serve/page.rs"]
mod page;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use cannery_testkit::http1;

/// Ends the program with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn site_and_route_are_served() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embed"));
    let mut program = Running(command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/');

    let mut client = http1::Client::new(TcpStream::connect(address).unwrap());
    let mut get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        client.request(request.as_bytes(), "GET").unwrap()
    };
    let home = get("/");
    assert_eq!(home.status, 200);
    assert_eq!(home.body, include_bytes!("../../site/index.html"));
    assert_eq!(get("/api/hello").body, b"Hello from a handler\n");
    assert_eq!(get("/api/other").status, 404);
}
