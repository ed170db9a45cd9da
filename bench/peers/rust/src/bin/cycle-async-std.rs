// SPDX-License-Identifier: MIT
//! cycle with async-std, in P native threads of its executor, besides that of main. Each
//! thread is a task with a bounded channel for its messages: async-std has no semaphore,
//! and an unbounded channel allocates a block at its first message. Up to N messages can
//! be on their way to one task. If its channel is full, the sender waits.

use async_std::channel::{bounded, Receiver, Sender};
use async_std::task;
use peers::{
    blocked, counted, counts_blocks, cycle_arguments, panic_means_no_memory,
    print_blocks_or_seconds,
};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const TASK_BYTES: usize = 1300;
const SLOTS: usize = 8;

struct Cycles {
    n: usize,
    m: usize,
    outbox: Vec<Sender<()>>,
    conductor: Sender<()>,
    arrived: AtomicUsize,
    finished: AtomicUsize,
}

async fn send(to: &Sender<()>) {
    to.send(()).await.expect("never closed");
}

async fn receive(inbox: &Receiver<()>) {
    inbox.recv().await.expect("never closed");
}

async fn relay(all: &Cycles, inbox: Receiver<()>, index: usize) {
    let i = index % all.n;
    let right = &all.outbox[index - i + (i + 1) % all.n];
    if all.arrived.fetch_add(1, SeqCst) + 1 == all.outbox.len() {
        send(&all.conductor).await;
    }
    if i == 0 {
        receive(&inbox).await; // To start.
    }
    let mut turn = 0;
    for _ in 0..all.m {
        if turn == i {
            send(right).await;
            receive(&inbox).await;
        } else {
            receive(&inbox).await;
            send(right).await;
        }
        turn = if turn + 1 == all.n { 0 } else { turn + 1 };
    }
    if i == (all.m - 1) % all.n && all.finished.fetch_add(1, SeqCst) + 1 == all.outbox.len() / all.n
    {
        send(&all.conductor).await;
    }
}

/// In a task: with one native thread, the last task to arrive has blocked before it runs.
async fn conduct(all: &Cycles, inbox: Receiver<()>) -> (u64, Duration) {
    receive(&inbox).await;
    let (blocks, start) = (blocked(), Instant::now());
    for first in all.outbox.iter().step_by(all.n) {
        send(first).await;
    }
    receive(&inbox).await;
    (blocks, start.elapsed())
}

fn spawn(task: impl Future<Output = ()> + Send + 'static, count: bool) {
    if count {
        task::spawn(counted(task));
    } else {
        task::spawn(task);
    }
}

fn main() {
    let [n, r, m, p] = cycle_arguments(["N", "R", "M", "[P]"], TASK_BYTES);
    let threads = p.min(n * r);
    std::env::set_var("ASYNC_STD_THREAD_COUNT", threads.to_string());
    panic_means_no_memory();
    let count = counts_blocks();
    let (outbox, inboxes): (Vec<_>, Vec<_>) = (0..n * r).map(|_| bounded(n.min(SLOTS))).unzip();
    let (conductor, inbox) = bounded(1);
    // Tasks have to be 'static: a leak saves a reference count for each.
    let all: &'static Cycles = Box::leak(Box::new(Cycles {
        n,
        m,
        outbox,
        conductor,
        arrived: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
    }));
    for (index, inbox) in inboxes.into_iter().enumerate() {
        spawn(relay(all, inbox, index), count);
    }
    let (blocks, time) = task::block_on(task::spawn(conduct(all, inbox)));
    print_blocks_or_seconds(count.then_some(blocks), time);
    // Does not wait for the executor's threads, which do not end.
    std::process::exit(0);
}
