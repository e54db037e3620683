//! Four bytes on one thread and on more: whether threads stand in each other's way.
//!
//! That shows only where all of them are busy. wrk costs more for a request than a server does and so cannot see to
//! that on the same machine; our own generator can, where there is a processor of its own for each thread.

use super::{EVERYBODY_AND_RING, FLOOR_RING_AND_NGINX};
use crate::bench::asker::Dealing;
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Generator, PLAIN, Point, Scenario};
use crate::bench::site::Site;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "w1",
    title: "4 bytes on 1, 2 and 3 threads, asked by wrk",
    says: "As many processors as threads, and what is left for wrk, as this workload is published. From two threads \
           on wrk is the limit, and who waits for it is woken for fewer requests at a time and pays for that: how much \
           more the threads could do shows below.",
    site: |_| Site::of_files("w1", &[("index.html", b"test".to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &["--security-headers-disable"],
    asking: PLAIN,
    points: &POINTS,
    contenders: EVERYBODY_AND_RING,
};

pub(crate) const APART: Scenario = Scenario {
    name: "w1-apart",
    title: "4 bytes on busy threads, each with clients of its own",
    says: "The same, asked by `bench/asker.c`, which costs less for a request than a server does and never sleeps: \
           where there is a processor of its own for each thread, all threads are busy, and where CPU time for a \
           request stays the same, each adds as much as the first. Each of its processes asks one thread, as far as \
           connections can be dealt out so: then threads share what the server and the kernel make them share, and \
           not their client's memory, which no client has in common with a server but over loopback.",
    asking: asked(Dealing::Apart),
    ..SCENARIO
};

pub(crate) const ACROSS: Scenario = Scenario {
    name: "w1-across",
    title: "4 bytes on busy threads, all asked by all clients",
    says: "The same, but each process of the generator asks all threads. Over loopback a request lies in memory that \
           its sender's processor has taken, and two threads that read such memory of one processor need each other's \
           cache lines of the kernel's bookkeeping. The floor, whose processes share nothing, shows what that costs.",
    asking: asked(Dealing::Across),
    points: &[POINTS[0], POINTS[1]],
    contenders: FLOOR_RING_AND_NGINX,
    ..SCENARIO
};

const fn asked(dealing: Dealing) -> Asking {
    Asking { generator: Generator::Asker(dealing), ..PLAIN }
}

const CONNECTIONS: u32 = 400;

const POINTS: [Point; 3] = [
    Point { connections: CONNECTIONS, threads: 1 },
    Point { connections: CONNECTIONS, threads: 2 },
    Point { connections: CONNECTIONS, threads: 3 },
];
