//! Unit tests of the memory budget.

use super::*;

#[test]
fn memory_is_released_once_per_peak() {
    let mut memory = MemoryBudget::new(100 << 20);
    memory.change(0, 40 << 20);
    assert!(!memory.has_memory_to_release());
    memory.change(40 << 20, 10 << 20);
    assert!(memory.has_memory_to_release());
    assert_eq!(seconds_until_release(&mut memory), Some(RELEASED_AFTER_S + 1));
    assert!(!memory.has_memory_to_release());
    memory.change(10 << 20, 0);
    assert!(memory.has_memory_to_release(), "the rest");
    assert_eq!(seconds_until_release(&mut memory), Some(RELEASED_AFTER_S + 1));
    memory.change(0, 3 << 20);
    memory.change(3 << 20, 0);
    assert!(!memory.has_memory_to_release(), "too little");
    assert_eq!(seconds_until_release(&mut memory), None);
}

#[test]
fn memory_of_bursts_is_kept_between_them() {
    let mut memory = MemoryBudget::new(100 << 20);
    for second in 0..100 {
        memory.change(0, 30 << 20);
        memory.change(30 << 20, 0);
        assert!(!memory.tick(), "{second}");
        // Every second of the pause, which is shorter than the delay.
        for _ in 2..RELEASED_AFTER_S {
            assert!(!memory.tick(), "{second}");
        }
    }
    assert!(memory.has_memory_to_release());
    assert!(seconds_until_release(&mut memory).is_some());
}

/// Returns the number of ticks after which memory is released, if it is within a minute.
fn seconds_until_release(memory: &mut MemoryBudget) -> Option<u32> {
    (1..=60).find(|_| memory.tick())
}

#[test]
fn excess_leaves_room_below_the_limit() {
    let mut memory = MemoryBudget::new(800);
    memory.change(0, 700);
    assert!(!memory.is_tight() && !memory.is_over());
    memory.change(700, 701);
    assert!(memory.is_tight() && !memory.is_over());
    memory.change(701, 801);
    assert!(memory.is_over());
    assert_eq!(memory.excess(ShedGoal::Memory), 201);
}

#[test]
fn excess_does_not_include_what_no_connection_has() {
    let mut memory = MemoryBudget::new(800);
    memory.change(0, 100);
    memory.set_handled(1000);
    assert!(memory.is_over());
    memory.set_delivered(300);
    assert!(!memory.is_over() && memory.is_tight());
    assert_eq!((memory.excess(ShedGoal::Memory), memory.excess(ShedGoal::Handled)), (0, 0));
    memory.set_delivered(900);
    assert!(memory.is_over());
    assert_eq!((memory.excess(ShedGoal::Memory), memory.excess(ShedGoal::Handled)), (400, 600));
    memory.set_handled(50);
    assert_eq!(memory.bytes(), 150);
    assert!(!memory.is_over());
    memory.all_delivered();
    memory.set_handled(701);
    assert!(memory.is_over());
}

#[test]
fn handlers_are_stalled_after_a_whole_second() {
    let mut memory = MemoryBudget::new(800);
    memory.set_handled(401);
    assert!(!memory.is_stalled());
    memory.tick();
    assert!(memory.is_stalled());
    memory.set_handled(400);
    memory.set_handled(500);
    assert!(!memory.is_stalled(), "something was taken");
    memory.tick();
    assert!(memory.is_stalled());
}

#[test]
fn received_bytes_of_the_event_loop_count() {
    let mut memory = MemoryBudget::new(800);
    memory.change(0, 400);
    memory.set_received(401);
    assert!(memory.is_over());
    memory.set_received(100);
    assert!(!memory.is_tight());
}

#[test]
fn shared_blocks_count() {
    let mut memory = MemoryBudget::new(800);
    memory.change(0, 400);
    memory.set_blocks(400);
    assert!(!memory.is_over());
    memory.set_blocks(401);
    assert!(memory.is_over());
    assert_eq!(memory.recent_peak(), 801);
    memory.change(400, 399);
    assert!(!memory.is_over());
}

#[test]
fn responses_of_handlers_count() {
    let mut memory = MemoryBudget::new(800);
    memory.change(0, 400);
    memory.set_handled(401);
    assert!(memory.is_over());
    assert_eq!((memory.bytes(), memory.recent_peak()), (801, 801));
    memory.set_handled(0);
    assert!(!memory.is_tight());
}

#[test]
fn limits_share_half_of_the_rest() {
    const MIB: u64 = 1 << 20;
    let limits = |rest, has_handlers| {
        let limits = MemoryLimits::of(2, rest, has_handlers);
        (limits.worker_bytes / MIB, limits.handlers_content_bytes as u64 / MIB)
    };
    assert_eq!(limits(None, true), (128, 64));
    assert_eq!(limits(Some(64 * MIB), false).0, 16);
    assert_eq!(limits(Some(64 * MIB), true), (8, 16));
    assert_eq!(limits(Some(0), true), (1, 1));
}

#[test]
fn threads_of_the_pools_leave_room_for_clients() {
    const MIB: u64 = 1 << 20;
    let rest = |free: u64, pool_threads| rest_beside_threads(free * MIB, 2, pool_threads) / MIB;
    assert_eq!(rest(1008, 0), 1000);
    assert_eq!(rest(1008, 144), 703);
    assert_eq!(rest(208, 144), 100, "threads that never start must not take everything");
    assert_eq!((rest(8, 144), rest(0, 144)), (0, 0));
}
