//! Several servers behind a load balancer: each of them answers the challenges of every order.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use super::{World, serve};
use crate::harness::{is_slow, skip_outside};

/// Passes connections on to the servers in turn. It ends with the process.
fn balance(servers: [String; 2]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let clients = listener.incoming().map_while(Result::ok);
        for (client, server) in clients.zip(servers.iter().cycle()) {
            let server = TcpStream::connect(server).unwrap();
            pass(client.try_clone().unwrap(), server.try_clone().unwrap());
            pass(server, client);
        }
    });
    address
}

/// Passes on everything that arrives, in one direction.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        // Either side may close the connection at any time.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[test]
fn each_node_answers_every_challenge() {
    if skip_outside() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut second = None;
    let world = World::behind(|first, thumbprint| {
        let server = second.insert(serve(place.path(), thumbprint));
        balance([first.to_owned(), server.address.clone()])
    });
    assert_ne!(world.address, world.server.address);

    let orders = if is_slow() { 50 } else { 4 };
    let names: Vec<_> = (0..orders).map(|number| format!("n{number}.test,www.n{number}.test")).collect();
    let outcome = world.once(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let count = |name: &str| outcome.events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((outcome.code, count("issued"), count("failed")), (Some(0), orders, 0), "{outcome:#?}");
}
