// SPDX-License-Identifier: MIT
//! pingpong with corosensei: a coroutine with its own stack. The switch is inline
//! assembly, so the compiler saves only the registers that are in use there.

use corosensei::{Coroutine, CoroutineResult::Yield};
use peers::{arguments, print_answer};
use std::time::Instant;

fn main() {
    let [pairs] = arguments(["PAIRS"]);
    let mut thread = Coroutine::<(), u64, ()>::new(|yielder, ()| {
        yielder.suspend(0); // Ready.
        for number in 0.. {
            yielder.suspend(number);
        }
    });
    thread.resume(());
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..pairs {
        if let Yield(number) = thread.resume(()) {
            sum += u128::from(number);
        }
    }
    print_answer(
        start.elapsed(),
        sum,
        pairs as u128 * (pairs as u128 - 1) / 2,
    );
}
