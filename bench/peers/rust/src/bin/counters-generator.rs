// SPDX-License-Identifier: MIT
//! counters with generator-rs: a generator for each, on a mapped stack with a guard page.
//! A stack takes two mappings, and Linux allows a process 65,530 by default.

use generator::{Gn, LocalGenerator};
use peers::{arguments, check_memory, counters_sum, panic_means_no_memory, print_answer};
use std::time::Instant;

fn counter(first: usize) -> LocalGenerator<'static, (), usize> {
    let mut counter = Gn::new_scoped_local(move |mut scope| {
        scope.yield_with(first); // Ready.
        for number in first.. {
            scope.yield_with(number);
        }
        0
    });
    counter.resume();
    counter
}

fn main() {
    let [count, calls] = arguments(["COUNTERS", "CALLS"]);
    check_memory(count, 8192);
    panic_means_no_memory();
    let mut counters: Vec<_> = (0..count).map(counter).collect();
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..calls {
        for counter in &mut counters {
            sum += counter.resume().unwrap_or_default() as u128;
        }
    }
    print_answer(start.elapsed(), sum, counters_sum(count, calls));
}
