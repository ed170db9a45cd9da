// SPDX-License-Identifier: MIT
//! create with corosensei. All threads use the same stack in turn, as its documents
//! recommend, since a stack is a mapping. force_reset drops a suspended coroutine. An
//! ordinary drop unwinds it like a panic, and takes eighty times as long; nothing on the
//! stack needs it.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult::Yield};
use peers::{arguments, print_answer};
use std::time::Instant;

fn main() {
    let [threads] = arguments(["THREADS"]);
    let mut sum = 0;
    let mut stack = DefaultStack::default();
    let start = Instant::now();
    for number in 0..threads {
        let mut thread = Coroutine::<(), usize, (), _>::with_stack(stack, move |yielder, ()| {
            yielder.suspend(number);
        });
        if let Yield(number) = thread.resume(()) {
            sum += number as u128;
        }
        // SAFETY: nothing on its stack needs a drop, or is referred to from elsewhere.
        unsafe { thread.force_reset() };
        stack = thread.into_stack();
    }
    let right = threads as u128 * (threads as u128 - 1) / 2;
    print_answer(start.elapsed(), sum, right);
}
