// SPDX-License-Identifier: MIT
//! A minimal executor, in one native thread: tasks of one type side by side in memory, a
//! first-in, first-out queue of the numbers of ready tasks, and a counting event. After
//! the tasks are made nothing is allocated, and nothing is reference-counted: a waker is
//! the number of its task.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::ptr::without_provenance;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

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
pub struct Event {
    tokens: Cell<usize>,
    waiter: Cell<Option<Waker>>,
}

impl Event {
    pub fn send(&self) {
        self.tokens.set(self.tokens.get() + 1);
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }

    pub fn receive(&self) -> impl Future<Output = ()> + '_ {
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
pub fn start<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) -> Pin<Box<[F]>> {
    let mut tasks = Box::into_pin(futures.collect::<Box<[F]>>());
    for index in 0..tasks.len() {
        poll(&mut tasks, index);
    }
    tasks
}

/// Runs the tasks until none is ready. Returns how many have ended meanwhile.
pub fn run<F: Future<Output = ()>>(tasks: &mut Pin<Box<[F]>>) -> usize {
    let mut ended = 0;
    while let Some(index) = READY.with_borrow_mut(VecDeque::pop_front) {
        ended += usize::from(poll(tasks, index));
    }
    ended
}
