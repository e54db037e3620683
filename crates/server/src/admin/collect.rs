//! Stats from process to process: whoever answers operators asks those that serve.
//!
//! Datagrams over a pair of local sockets for each process that serves, which the supervisor keeps while processes
//! die and are started again. A question is a number in eight bytes; the answer is the same number, and the figures
//! as JSON. Never waits long for anybody: who does not answer counts with what was last heard of him.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use super::stats::Stats;
use crate::error::StartError;
use crate::observe::{Counters, Status};
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Bytes of an answer at most: it has some thousand numbers, and 64 missing paths.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// How long to wait for a process that does not answer, which is gone or has more to do than a machine can.
const PATIENCE: Duration = Duration::from_secs(1);

/// The socket of this number, which whoever started this process has left open for it.
pub(crate) fn inherit(descriptor: i32) -> Result<UnixDatagram, StartError> {
    let failed = |source| StartError::Inherited { descriptor, source };
    let socket = cannery_eventloop::inherit_descriptor(descriptor).map(UnixDatagram::from).map_err(failed)?;
    socket.set_read_timeout(None).map_err(failed)?;
    Ok(socket)
}

/// Answers whoever asks, as long as the process lives.
pub(crate) fn answer(
    socket: UnixDatagram,
    workers: Vec<Arc<Counters>>,
    status: Arc<Status>,
    sandbox: &Sandbox,
) -> Result<(), StartError> {
    thread::start("figures", sandbox, ThreadRole::Orders, move || {
        let mut question = [0; 8];
        // Nothing is the end of the pair's other side.
        while let Ok(bytes @ 1..) = socket.recv(&mut question) {
            let mut answer = question[..bytes].to_vec();
            if serde_json::to_writer(&mut answer, &Stats::of(&workers, &status)).is_ok() {
                // Where it does not arrive, nobody waits for it any more.
                let _ = socket.send(&answer);
            }
        }
    })?;
    Ok(())
}

/// Asks the processes that serve.
#[derive(Debug)]
pub(crate) struct Collector {
    places: Vec<ProcessSlot>,
    /// The number of the last question.
    asked: u64,
    answer: Vec<u8>,
}

/// The place of a process, in which another one may be now.
#[derive(Debug)]
struct ProcessSlot {
    socket: UnixDatagram,
    /// What the one that is there told last.
    last: Stats,
    /// What those counted that were there before: a counter never falls.
    before: Stats,
}

impl Collector {
    /// Asks by the sockets of these numbers.
    pub(crate) fn inherit(descriptors: &[i32]) -> Result<Collector, StartError> {
        let place = |descriptor: &i32| -> Result<ProcessSlot, StartError> {
            let socket = inherit(*descriptor)?;
            let failed = |source| StartError::Inherited { descriptor: *descriptor, source };
            socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
            socket.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
            Ok(ProcessSlot { socket, last: Stats::default(), before: Stats::default() })
        };
        let places = descriptors.iter().map(place).collect::<Result<Vec<ProcessSlot>, _>>()?;
        // Answers to a process that was here before have other numbers.
        let asked = u64::from(std::process::id()) << 32;
        Ok(Collector { places, asked, answer: vec![0; ANSWER_BYTES_MAX] })
    }

    /// The figures of all, together with what those counted that have died.
    pub(crate) fn ask(&mut self) -> Stats {
        self.asked += 1;
        let question = self.asked.to_le_bytes();
        let is_asked: Vec<bool> =
            self.places.iter().map(|place| place.socket.send(&question).is_ok()).collect();
        let mut sum = Stats::default();
        for (place, is_asked) in self.places.iter_mut().zip(is_asked) {
            let heard = is_asked.then(|| place.hear(&question, &mut self.answer).ok()).flatten();
            place.add_to(&mut sum, heard);
        }
        sum
    }
}

impl ProcessSlot {
    /// The answer to a question, those to earlier ones passed over.
    fn hear(&self, question: &[u8], buffer: &mut [u8]) -> io::Result<Stats> {
        loop {
            let bytes = self.socket.recv(buffer)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(stats) = buffer[..bytes].strip_prefix(question) {
                return Ok(serde_json::from_slice(stats)?);
            }
        }
    }

    fn add_to(&mut self, sum: &mut Stats, heard: Option<Stats>) {
        match heard {
            Some(stats) => {
                if self.last.processes != stats.processes {
                    let mut gone = std::mem::replace(&mut self.last, stats);
                    gone.counted.bury();
                    self.before.add_counted(&gone);
                } else {
                    self.last = stats;
                }
                sum.add(&self.last);
            }
            None => sum.add_counted(&self.last),
        }
        sum.add_counted(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(process: u32, accepted: u64, closed: u64) -> Stats {
        let mut stats = Stats { processes: vec![process], threads: 2, ..Stats::default() };
        (stats.counted.accepted, stats.counted.closed) = (accepted, closed);
        stats
    }

    fn place() -> (ProcessSlot, UnixDatagram) {
        let (socket, other) = UnixDatagram::pair().expect("a pair of sockets");
        (ProcessSlot { socket, last: Stats::default(), before: Stats::default() }, other)
    }

    #[test]
    fn what_the_dead_have_counted_still_counts() {
        let (mut place, _other) = place();
        let mut told = |heard: Option<Stats>| {
            let mut sum = Stats::default();
            place.add_to(&mut sum, heard);
            (sum.processes.clone(), sum.counted.accepted, sum.counted.open(), sum.counted.broken)
        };
        assert_eq!(told(Some(stats(7, 10, 4))), (vec![7], 10, 6, 0));
        assert_eq!(told(None), (vec![], 10, 6, 0));
        assert_eq!(told(Some(stats(8, 3, 1))), (vec![8], 13, 2, 6));
        assert_eq!(told(Some(stats(8, 5, 5))), (vec![8], 15, 0, 6));
        assert_eq!(told(Some(stats(9, 0, 0))), (vec![9], 15, 0, 6));
    }

    #[test]
    fn an_answer_to_an_earlier_question_is_passed_over() {
        let (place, other) = place();
        let mut buffer = vec![0; ANSWER_BYTES_MAX];
        for (number, process) in [(1u64, 7), (2, 8)] {
            let mut answer = number.to_le_bytes().to_vec();
            serde_json::to_writer(&mut answer, &stats(process, 0, 0)).expect("it is written");
            other.send(&answer).expect("it is sent");
        }
        let heard = place.hear(&2u64.to_le_bytes(), &mut buffer).expect("an answer");
        assert_eq!(heard.processes, [8]);
        other.send(b"\x03\0\0\0\0\0\0\0nonsense").expect("it is sent");
        assert!(place.hear(&3u64.to_le_bytes(), &mut buffer).is_err());
    }

    #[test]
    fn figures_are_the_same_on_the_other_side() {
        let counters = Arc::new(Counters::default());
        counters.accepted.add(3);
        counters.count_status(404);
        counters.count_missing(b"/\xff\"");
        counters.latency.add(Duration::from_millis(2), 1);
        let mut sum = Stats::of(&[counters], &Status::new(std::iter::empty()));
        let bytes = serde_json::to_vec(&sum).expect("it is written");
        assert!(bytes.len() < ANSWER_BYTES_MAX / 4);
        let read: Stats = serde_json::from_slice(&bytes).expect("it is read");
        assert_eq!(read.counted.missing.top(1), [(b"/\xff\"".as_slice(), 1)]);
        sum.add(&read);
        assert_eq!((sum.counted.accepted, sum.counted.requests(), sum.counted.latency.total()), (6, 2, 2));
        assert_eq!((sum.counted.missing.top(1)[0].1, sum.processes.len()), (2, 2));
    }
}
