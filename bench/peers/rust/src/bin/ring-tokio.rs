// SPDX-License-Identifier: MIT
//! ring with tokio, in one native thread. Each thread is a task, and gets numbers from an
//! unbounded channel. A bounded channel, which counts with a semaphore, is not faster.

use peers::{arguments, fail, print_answer};
use std::time::Instant;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::task::yield_now;

const THREADS: usize = 503;

type Inbox = UnboundedReceiver<usize>;
type Outbox = UnboundedSender<usize>;

async fn relay(number: usize, mut inbox: Inbox, right: Outbox, end: Outbox) {
    while let Some(token) = inbox.recv().await {
        // The receiver is gone when the run has ended.
        let _ = match token {
            0 => end.send(number),
            _ => right.send(token - 1),
        };
    }
}

async fn measure(passes: usize) {
    let (end, mut ended) = unbounded_channel();
    let (outbox, inbox): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| unbounded_channel()).unzip();
    for (i, inbox) in inbox.into_iter().enumerate() {
        let right = outbox[(i + 1) % THREADS].clone();
        tokio::spawn(relay(i + 1, inbox, right, end.clone()));
    }
    yield_now().await; // The tasks run, and block.
    let start = Instant::now();
    let _ = outbox[0].send(passes);
    let Some(number) = ended.recv().await else {
        fail("the token is lost");
    };
    let right = passes % THREADS + 1;
    print_answer(start.elapsed(), number as u128, right as u128);
}

fn main() {
    let [passes] = arguments(["PASSES"]);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(measure(passes));
}
