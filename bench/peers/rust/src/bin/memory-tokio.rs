// SPDX-License-Identifier: MIT
//! memory with tokio, in one native thread. Each thread is a task; all wait at one
//! semaphore, which keeps its list of waiters within their futures.

use peers::{arguments, check_memory, print_growth, resident};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

static GATE: Semaphore = Semaphore::const_new(0);
static ARRIVED: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

async fn thread() {
    ARRIVED.fetch_add(1, Relaxed);
    GATE.acquire().await.expect("never closed").forget();
    ENDED.fetch_add(1, Relaxed);
}

async fn until(counter: &AtomicUsize, count: usize) {
    while counter.load(Relaxed) < count {
        yield_now().await;
    }
}

async fn measure(count: usize) {
    let before = resident();
    for _ in 0..count {
        tokio::spawn(thread());
    }
    until(&ARRIVED, count).await;
    print_growth(before, count);
    GATE.add_permits(count);
    until(&ENDED, count).await;
    println!("{}", ENDED.load(Relaxed));
}

fn main() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 450);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(measure(count));
}
