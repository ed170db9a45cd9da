// SPDX-License-Identifier: MIT
//! counters with corosensei: a coroutine for each, on a mapped stack with a guard page.
//! A stack takes two mappings, and Linux allows a process 65,530 by default.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult::Yield};
use peers::{arguments, check_memory, counters_sum, fail, print_answer};
use std::time::Instant;

const STACK_BYTES: usize = 16 << 10; // Enough for unwinding at the end.

fn counter(first: usize) -> Coroutine<(), usize, ()> {
    let stack = DefaultStack::new(STACK_BYTES).unwrap_or_else(|_| fail("not enough memory"));
    let mut counter = Coroutine::with_stack(stack, move |yielder, ()| {
        yielder.suspend(first); // Ready.
        for number in first.. {
            yielder.suspend(number);
        }
    });
    counter.resume(());
    counter
}

fn main() {
    let [count, calls] = arguments(["COUNTERS", "CALLS"]);
    check_memory(count, 4096);
    let mut counters: Vec<_> = (0..count).map(counter).collect();
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..calls {
        for counter in &mut counters {
            if let Yield(number) = counter.resume(()) {
                sum += number as u128;
            }
        }
    }
    print_answer(start.elapsed(), sum, counters_sum(count, calls));
}
