//! Tests with both ends of the content.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::*;
use crate::error::HandlerError;

fn read_all(reader: &mut ContentReader) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn content_is_read_in_order_to_its_end() {
    let (sender, mut reader) = channel();
    let reading = std::thread::spawn(move || read_all(&mut reader));
    for number in 0..100_u8 {
        sender.send(&[number; 1000]);
    }
    sender.send_from(&mut b"end".to_vec());
    sender.finish();
    let expected: Vec<u8> = (0..100).flat_map(|number| [number; 1000]).chain(*b"end").collect();
    assert!(reading.join().unwrap().unwrap() == expected);
}

#[test]
fn lines_may_arrive_in_pieces() {
    let (sender, reader) = channel();
    for part in [b"on".as_slice(), b"e\ntwo\nth", b"ree"] {
        sender.send(part);
    }
    sender.finish();
    assert_eq!(reader.lines().collect::<Result<Vec<_>, _>>().unwrap(), ["one", "two", "three"]);
}

#[test]
fn incomplete_content_never_ends_in_order() {
    for (failure, kind, status) in [
        (None, io::ErrorKind::ConnectionAborted, 400),
        (Some(ContentFailure::TooLong), io::ErrorKind::FileTooLarge, 413),
        (Some(ContentFailure::Invalid), io::ErrorKind::InvalidData, 400),
        (Some(ContentFailure::Stopped), io::ErrorKind::TimedOut, 503),
    ] {
        let (sender, mut reader) = channel();
        sender.send(b"part");
        match failure {
            Some(failure) => sender.fail(failure),
            None => drop(sender),
        }
        let mut part = [0; 4];
        reader.read_exact(&mut part).unwrap();
        for _ in 0..2 {
            let error = read_all(&mut reader).unwrap_err();
            assert_eq!(error.kind(), kind);
            let error = HandlerError::from(error);
            assert_eq!((error.status(), error.is_fault()), (status, false));
        }
    }
}

#[test]
fn causes_of_other_errors_choose_the_status() {
    #[derive(Debug)]
    struct Outer(io::Error);
    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("outer")
        }
    }
    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    let inner = ContentReader::failed(ContentFailure::TooLong).fill_buf().unwrap_err();
    assert_eq!(HandlerError::from(Outer(inner)).status(), 413);
    assert_eq!(HandlerError::from(io::Error::other("disk full")).status(), 500);
}

#[test]
fn server_is_woken_when_the_demand_changes() {
    let (sender, mut reader) = channel();
    let (wakes, woken) = mpsc::channel();
    sender.set_waker(Box::new(move || wakes.send(()).unwrap()));
    let wakes = || woken.try_iter().count();

    assert_eq!(sender.demand(false), ContentDemand::Unread);
    assert_eq!(sender.demand(true), ContentDemand::Unread);
    assert_eq!(reader.try_read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!((wakes(), sender.demand(true)), (1, ContentDemand::More));

    sender.send(&[0; CONTENT_WAITING_BYTES - 1]);
    assert_eq!(sender.demand(false), ContentDemand::More);
    sender.send(&[0; 2]);
    assert_eq!(sender.demand(false), ContentDemand::Nothing);
    assert_eq!((reader.read(&mut [0; 1]).unwrap(), wakes()), (1, 1));
    assert_eq!(sender.demand(false), ContentDemand::More);
    sender.send(&[0; CONTENT_WAITING_BYTES]);
    assert_eq!(sender.demand(false), ContentDemand::Nothing);
    drop(reader);
    assert_eq!((wakes(), sender.demand(false)), (1, ContentDemand::Ended));
    sender.send(b"nobody reads this");
    assert_eq!(sender.memory(), 0);
}

#[test]
fn stopped_upload_ends_its_reader() {
    let (sender, mut reader) = channel();
    sender.send(b"x");
    let stopper = reader.stopper();
    let reading = std::thread::spawn(move || {
        let mut content = Vec::new();
        reader.read_to_end(&mut content).unwrap_err().kind()
    });
    stopper.stop();
    assert_eq!(reading.join().unwrap(), io::ErrorKind::TimedOut);
    sender.finish();

    let (sender, mut reader) = channel();
    let stopper = reader.stopper();
    sender.send(b"x");
    sender.finish();
    stopper.stop();
    assert_eq!(read_all(&mut reader).unwrap(), b"x", "it was complete before");
}

#[test]
fn content_after_a_stop_is_not_read() {
    for waits in [false, true] {
        let (sender, mut reader) = channel();
        sender.send(b"before");
        let mut start = [0; 2];
        reader.read_exact(&mut start).unwrap();
        if waits {
            sender.send(b"discarded");
        }
        reader.stopper().stop();
        sender.send(b"after");
        sender.send_from(&mut b"after".to_vec());
        let mut rest = Vec::new();
        assert_eq!(reader.read_to_end(&mut rest).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(rest, b"fore");
        assert_eq!(sender.demand(false), ContentDemand::Ended);
    }
}

#[test]
fn server_is_woken_when_the_reader_is_dropped() {
    for is_begun in [false, true] {
        let (sender, mut reader) = channel();
        let (wakes, woken) = mpsc::channel();
        sender.set_waker(Box::new(move || wakes.send(()).unwrap()));
        let demand = if is_begun { ContentDemand::More } else { ContentDemand::Unread };
        if is_begun {
            sender.send(b"x");
            assert_eq!(reader.read(&mut [0; 8]).unwrap(), 1);
        }
        assert_eq!(sender.demand(false), demand);
        assert!(woken.try_recv().is_err());
        drop(reader);
        assert_eq!((woken.try_iter().count(), sender.demand(false)), (1, ContentDemand::Ended));
    }
}

#[test]
fn taken_content_counts_as_memory() {
    let (sender, mut reader) = channel();
    sender.send(&[0; 50_000]);
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 1);
    assert!(sender.memory() >= 50_000);
    sender.send(&[0; 10_000]);
    assert!(sender.memory() >= 60_000);
    drop(reader);
    assert_eq!(sender.memory(), 0);
}

struct Flag(AtomicBool);

impl task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn task_is_woken_when_content_arrives() {
    let (sender, mut reader) = channel();
    let flag = Arc::new(Flag(false.into()));
    let waker = task::Waker::from(Arc::clone(&flag));
    let mut context = task::Context::from_waker(&waker);
    let is_woken = || flag.0.swap(false, Ordering::SeqCst);
    let mut buffer = [0; 8];

    assert!(reader.poll_ready(&mut context).is_pending() && !is_woken());
    sender.send(b"abc");
    assert!(is_woken() && reader.poll_ready(&mut context).is_ready());
    assert_eq!(reader.try_read(&mut buffer).unwrap(), 3);
    assert!(reader.poll_ready(&mut context).is_pending());
    sender.finish();
    assert!(is_woken() && reader.poll_ready(&mut context).is_ready());
    assert_eq!(reader.try_read(&mut buffer).unwrap(), 0);
}

/// A task that its executor drops when it is woken.
struct Dropped(Mutex<Option<ContentReader>>);

impl task::Wake for Dropped {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn woken_task_may_drop_the_reader() {
    let (sender, mut reader) = channel();
    let task = Arc::new(Dropped(Mutex::new(None)));
    let waker = task::Waker::from(Arc::clone(&task));
    assert!(reader.poll_ready(&mut task::Context::from_waker(&waker)).is_pending());
    *task.0.lock().unwrap() = Some(reader);
    // Runs in a thread of its own, so that a deadlock fails the test.
    let (returned, returns) = mpsc::channel();
    std::thread::spawn(move || {
        sender.send(b"x");
        returned.send(sender.demand(false)).unwrap();
    });
    assert_eq!(returns.recv_timeout(std::time::Duration::from_secs(30)), Ok(ContentDemand::Ended));
}
