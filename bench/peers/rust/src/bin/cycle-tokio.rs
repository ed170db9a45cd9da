// SPDX-License-Identifier: MIT
//! cycle with tokio: its current-thread runtime, or with P > 1 its multi-thread runtime with
//! P workers. Each thread is a task that takes a permit from its semaphore for each
//! message. This is the fastest primitive of tokio that is correct. Notify holds one permit
//! only, but several messages can be on their way to a task, so it would hang.

use peers::{
    blocked, counted, counts_blocks, cycle_arguments, panic_means_no_memory,
    print_blocks_or_seconds,
};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

const TASK_BYTES: usize = 600;

struct Cycles {
    n: usize,
    m: usize,
    inbox: Vec<Semaphore>,
    conductor: Semaphore,
    arrived: AtomicUsize,
    finished: AtomicUsize,
}

async fn receive(inbox: &Semaphore) {
    inbox.acquire().await.expect("never closed").forget();
}

async fn relay(all: &Cycles, index: usize) {
    let i = index % all.n;
    let inbox = &all.inbox[index];
    let right = &all.inbox[index - i + (i + 1) % all.n];
    if all.arrived.fetch_add(1, SeqCst) + 1 == all.inbox.len() {
        all.conductor.add_permits(1);
    }
    if i == 0 {
        receive(inbox).await; // To start.
    }
    let mut turn = 0;
    for _ in 0..all.m {
        if turn == i {
            right.add_permits(1);
            receive(inbox).await;
        } else {
            receive(inbox).await;
            right.add_permits(1);
        }
        turn = if turn + 1 == all.n { 0 } else { turn + 1 };
    }
    if i == (all.m - 1) % all.n && all.finished.fetch_add(1, SeqCst) + 1 == all.inbox.len() / all.n
    {
        all.conductor.add_permits(1);
    }
}

/// In a task: with one native thread, the last task to arrive has blocked before it runs.
async fn conduct(all: &Cycles) -> (u64, Duration) {
    receive(&all.conductor).await;
    let (blocks, start) = (blocked(), Instant::now());
    for first in all.inbox.iter().step_by(all.n) {
        first.add_permits(1);
    }
    receive(&all.conductor).await;
    (blocks, start.elapsed())
}

fn spawn(task: impl Future<Output = ()> + Send + 'static, count: bool) {
    if count {
        tokio::spawn(counted(task));
    } else {
        tokio::spawn(task);
    }
}

fn main() {
    let [n, r, m, p] = cycle_arguments(["N", "R", "M", "[P]"], TASK_BYTES);
    panic_means_no_memory();
    let count = counts_blocks();
    let inbox = (0..n * r).map(|_| Semaphore::new(0)).collect();
    // Tasks have to be 'static: a leak saves a reference count for each.
    let all: &'static Cycles = Box::leak(Box::new(Cycles {
        n,
        m,
        inbox,
        conductor: Semaphore::new(0),
        arrived: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
    }));
    let runtime = match p.min(n * r) {
        1 => Builder::new_current_thread().build(),
        workers => Builder::new_multi_thread().worker_threads(workers).build(),
    }
    .expect("a runtime");
    let (blocks, time) = runtime.block_on(async {
        for index in 0..n * r {
            spawn(relay(all, index), count);
        }
        tokio::spawn(conduct(all)).await.expect("a result")
    });
    print_blocks_or_seconds(count.then_some(blocks), time);
}
