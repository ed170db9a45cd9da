// SPDX-License-Identifier: MIT
//! cycle with Rust's futures on the minimal executor of ../min.rs: the language without
//! the services of a runtime. Each thread is a future with a counting event for its
//! messages.

use peers::min::{run, start, Event};
use peers::{blocked, counted, counts_blocks, cycle_arguments, fail, print_blocks_or_seconds};
use std::future::Future;
use std::time::Instant;

const TASK_BYTES: usize = 150;

async fn relay(inbox: &[Event], n: usize, m: usize, index: usize) {
    let i = index % n;
    let own = &inbox[index];
    let right = &inbox[index - i + (i + 1) % n];
    if i == 0 {
        own.receive().await; // To start.
    }
    let mut turn = 0;
    for _ in 0..m {
        if turn == i {
            right.send();
            own.receive().await;
        } else {
            own.receive().await;
            right.send();
        }
        turn = if turn + 1 == n { 0 } else { turn + 1 };
    }
}

fn cycles<F: Future<Output = ()>>(inbox: &[Event], n: usize, task: impl Fn(usize) -> F) {
    let mut tasks = start((0..inbox.len()).map(task));
    let (blocks, clock) = (blocked(), Instant::now());
    for first in inbox.iter().step_by(n) {
        first.send();
    }
    let ended = run(&mut tasks);
    let time = clock.elapsed();
    if ended != inbox.len() {
        fail("a thread has not got all its messages");
    }
    print_blocks_or_seconds(counts_blocks().then_some(blocks), time);
}

fn main() {
    let [n, r, m] = cycle_arguments(["N", "R", "M"], TASK_BYTES);
    let inbox: Vec<_> = (0..n * r).map(|_| Event::default()).collect();
    if counts_blocks() {
        cycles(&inbox, n, |index| counted(relay(&inbox, n, m, index)));
    } else {
        cycles(&inbox, n, |index| relay(&inbox, n, m, index));
    }
}
