//! Several servers behind HAProxy, which asks them in turn: each of them answers the challenges of every order.

use super::{World, serve};
use crate::harness::{is_slow, skip_outside};
use crate::proxies::haproxy_in_turn;

#[test]
fn each_node_answers_every_challenge() {
    if skip_outside() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (mut second, mut balancer) = (None, None);
    let world = World::behind(|first, thumbprint| {
        let server = second.insert(serve(place.path(), thumbprint));
        let balancer =
            balancer.insert(haproxy_in_turn(&[first.to_owned(), server.address.clone()], place.path()));
        balancer.address.clone()
    });
    assert_ne!(world.address, world.server.address);

    let orders = if is_slow() { 50 } else { 4 };
    let names: Vec<_> = (0..orders).map(|number| format!("n{number}.test,www.n{number}.test")).collect();
    let outcome = world.once(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let count = |name: &str| outcome.events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((outcome.code, count("issued"), count("failed")), (Some(0), orders, 0), "{outcome:#?}");
}
