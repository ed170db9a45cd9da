// SPDX-License-Identifier: MIT
//! Rust's futures without the services of a runtime. A minimal executor, in one native thread: tasks of one type side by side in memory, a
//! first-in, first-out queue of the numbers of ready tasks, and a counting event. After
//! the tasks are made nothing is allocated, and nothing is reference-counted: a waker is
//! the number of its task.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::ptr::without_provenance;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Instant;

use crate::{arguments, blocked, check_memory, counted, cycle_arguments, fail};
use crate::{counts_blocks, print_blocks_or_seconds, print_growth, resident};

thread_local! {
    static READY: RefCell<VecDeque<usize>> = const { RefCell::new(VecDeque::new()) };
}

fn make_ready(task: *const ()) {
    READY.with_borrow_mut(|ready| ready.push_back(task.addr()));
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(raw_waker, make_ready, make_ready, |_| ());

fn raw_waker(task: *const ()) -> RawWaker {
    RawWaker::new(task, &VTABLE)
}

fn waker(task: usize) -> Waker {
    // SAFETY: the functions take any number, and free nothing. The queue is thread-local,
    // so any native thread can call them. (In another than the executor's they would not
    // wake the task.)
    unsafe { Waker::from_raw(raw_waker(without_provenance(task))) }
}

/// Counts messages without content, for one waiting task.
#[derive(Default)]
struct Event {
    tokens: Cell<usize>,
    waiter: Cell<Option<Waker>>,
}

impl Event {
    fn send(&self) {
        self.tokens.set(self.tokens.get() + 1);
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }

    fn receive(&self) -> impl Future<Output = ()> + '_ {
        poll_fn(|context| match self.tokens.get().checked_sub(1) {
            Some(rest) => {
                self.tokens.set(rest);
                Poll::Ready(())
            }
            None => {
                self.waiter.set(Some(context.waker().clone()));
                Poll::Pending
            }
        })
    }
}

fn poll<F: Future<Output = ()>>(tasks: &mut Pin<Box<[F]>>, index: usize) -> bool {
    // SAFETY: an element of a pinned slice does not move.
    let task = unsafe { tasks.as_mut().map_unchecked_mut(|all| &mut all[index]) };
    task.poll(&mut Context::from_waker(&waker(index)))
        .is_ready()
}

/// Makes a task of each future, and runs each until it waits.
fn start<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) -> Pin<Box<[F]>> {
    let mut tasks = Box::into_pin(futures.collect::<Box<[F]>>());
    for index in 0..tasks.len() {
        poll(&mut tasks, index);
    }
    tasks
}

/// Runs the tasks until none is ready. Returns how many have ended meanwhile.
fn run<F: Future<Output = ()>>(tasks: &mut Pin<Box<[F]>>) -> usize {
    let mut ended = 0;
    while let Some(index) = READY.with_borrow_mut(VecDeque::pop_front) {
        ended += usize::from(poll(tasks, index));
    }
    ended
}

const TASK_BYTES: usize = 150;

static WARM: AtomicBool = AtomicBool::new(false); // The clock runs.

/// Runs one round before the clock starts, then all of them.
async fn relay(inbox: &[Event], n: usize, m: usize, index: usize) {
    let i = index % n;
    let own = &inbox[index];
    let right = &inbox[index - i + (i + 1) % n];
    let mut left = 1;
    while left > 0 {
        if i == 0 {
            own.receive().await; // To start.
        }
        let mut turn = 0;
        while left > 0 {
            if turn == i {
                right.send();
                own.receive().await;
            } else {
                own.receive().await;
                right.send();
            }
            turn = if turn + 1 == n { 0 } else { turn + 1 };
            left -= 1;
        }
        left = if WARM.load(Relaxed) { 0 } else { m };
    }
}

fn cycles<F: Future<Output = ()>>(inbox: &[Event], n: usize, task: impl Fn(usize) -> F) {
    let mut tasks = start((0..inbox.len()).map(task));
    let send = || inbox.iter().step_by(n).for_each(Event::send);
    send();
    run(&mut tasks);
    WARM.store(true, Relaxed);
    let (blocks, clock) = (blocked(), Instant::now());
    send();
    let ended = run(&mut tasks);
    let time = clock.elapsed();
    if ended != inbox.len() {
        fail("a thread has not got all its messages");
    }
    print_blocks_or_seconds(blocks, time);
}

pub fn cycle() {
    let [n, r, m] = cycle_arguments(["N", "R", "M"], TASK_BYTES);
    let inbox: Vec<_> = (0..n * r).map(|_| Event::default()).collect();
    if counts_blocks() {
        cycles(&inbox, n, |index| counted(relay(&inbox, n, m, index)));
    } else {
        cycles(&inbox, n, |index| relay(&inbox, n, m, index));
    }
}

async fn thread(inbox: &Event) {
    inbox.receive().await;
}

pub fn memory() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 64);
    let before = resident();
    let inbox: Vec<_> = (0..count).map(|_| Event::default()).collect();
    let mut tasks = start(inbox.iter().map(thread));
    print_growth(before, count);
    inbox.iter().for_each(Event::send);
    println!("{}", run(&mut tasks));
}
