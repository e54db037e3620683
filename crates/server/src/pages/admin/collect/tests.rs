//! Unit tests of the collection of statistics.

use super::*;

fn stats(process: u32, accepted: u64, closed: u64) -> Stats {
    let mut stats = Stats { processes: vec![process], threads: 2, ..Stats::default() };
    (stats.counted.accepted, stats.counted.closed) = (accepted, closed);
    stats
}

fn slot() -> (ProcessSlot, UnixDatagram) {
    let (socket, other) = UnixDatagram::pair().expect("a pair of sockets");
    (ProcessSlot { socket, last: Stats::default(), earlier: Stats::default() }, other)
}

#[test]
fn counters_of_exited_processes_are_kept() {
    let (mut slot, _other) = slot();
    let mut add = |reply: Option<Stats>| {
        let mut sum = Stats::default();
        slot.add_to(&mut sum, reply);
        (sum.processes.clone(), sum.counted.accepted, sum.counted.open(), sum.counted.broken)
    };
    assert_eq!(add(Some(stats(7, 10, 4))), (vec![7], 10, 6, 0));
    assert_eq!(add(None), (vec![], 10, 6, 0));
    assert_eq!(add(Some(stats(8, 3, 1))), (vec![8], 13, 2, 6));
    assert_eq!(add(Some(stats(8, 5, 5))), (vec![8], 15, 0, 6));
    assert_eq!(add(Some(stats(9, 0, 0))), (vec![9], 15, 0, 6));
}

#[test]
fn replies_to_earlier_queries_are_skipped() {
    let (slot, other) = slot();
    let mut buffer = vec![0; REPLY_BYTES_MAX];
    for (number, process) in [(1u64, 7), (2, 8)] {
        let mut reply = number.to_le_bytes().to_vec();
        serde_json::to_writer(&mut reply, &stats(process, 0, 0)).expect("valid JSON");
        other.send(&reply).expect("an open socket");
    }
    let reply = slot.receive(&2u64.to_le_bytes(), &mut buffer).expect("a reply");
    assert_eq!(reply.processes, [8]);
    other.send(b"\x03\0\0\0\0\0\0\0nonsense").expect("an open socket");
    assert!(slot.receive(&3u64.to_le_bytes(), &mut buffer).is_err());
}

#[test]
fn stats_survive_serialization() {
    let counters = Arc::new(Counters::default());
    counters.accepted.add(3);
    counters.count_status(404);
    counters.count_missing(b"/\xff\"");
    counters.latency.add(Duration::from_millis(2), 1);
    let mut sum = Stats::of(&[counters], &Status::new(std::iter::empty(), Arc::default()));
    let bytes = serde_json::to_vec(&sum).expect("valid JSON");
    assert!(bytes.len() < REPLY_BYTES_MAX / 4);
    let read: Stats = serde_json::from_slice(&bytes).expect("valid JSON");
    assert_eq!(read.counted.missing.top(1), [(b"/\xff\"".as_slice(), 1)]);
    sum.add(&read);
    assert_eq!((sum.counted.accepted, sum.counted.requests(), sum.counted.latency.total()), (6, 2, 2));
    assert_eq!((sum.counted.missing.top(1)[0].1, sum.processes.len()), (2, 2));
}
