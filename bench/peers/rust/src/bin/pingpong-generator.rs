// SPDX-License-Identifier: MIT
//! pingpong with generator-rs: a generator with its own stack. It is a LocalGenerator,
//! which is resumed in the native thread that made it.

use generator::Gn;
use peers::{arguments, print_answer};
use std::time::Instant;

fn main() {
    let [pairs] = arguments(["PAIRS"]);
    let mut thread = Gn::<()>::new_scoped_local(|mut scope| {
        scope.yield_with(0); // Ready.
        for number in 0u64.. {
            scope.yield_with(number);
        }
        0
    });
    thread.resume();
    let mut sum = 0;
    let start = Instant::now();
    for number in thread.by_ref().take(pairs) {
        sum += u128::from(number);
    }
    print_answer(
        start.elapsed(),
        sum,
        pairs as u128 * (pairs as u128 - 1) / 2,
    );
}
