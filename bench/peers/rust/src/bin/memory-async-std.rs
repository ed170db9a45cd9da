// SPDX-License-Identifier: MIT
//! memory with async-std, in one native thread of its executor. Each thread is a task;
//! all wait at one channel until it is closed.

use async_std::channel::{bounded, Receiver};
use async_std::task;
use peers::{arguments, check_memory, print_growth, resident};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

static ARRIVED: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

async fn thread(gate: &Receiver<()>) {
    ARRIVED.fetch_add(1, SeqCst);
    if gate.recv().await.is_err() {
        ENDED.fetch_add(1, SeqCst);
    }
}

/// In a task. One task runs at a time, so the others have blocked.
async fn until(counter: &AtomicUsize, count: usize) {
    while counter.load(SeqCst) < count {
        task::yield_now().await;
    }
}

async fn measure(count: usize) {
    let (sender, receiver) = bounded(1);
    let gate: &'static Receiver<()> = Box::leak(Box::new(receiver));
    let before = resident();
    for _ in 0..count {
        task::spawn(thread(gate));
    }
    until(&ARRIVED, count).await;
    print_growth(before, count);
    drop(sender);
    until(&ENDED, count).await;
    println!("{}", ENDED.load(SeqCst));
}

fn main() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 220);
    std::env::set_var("ASYNC_STD_THREAD_COUNT", "1");
    task::block_on(task::spawn(measure(count)));
}
