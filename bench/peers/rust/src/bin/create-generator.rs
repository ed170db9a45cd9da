// SPDX-License-Identifier: MIT
//! create with generator-rs. All threads use the same generator in turn, and so one
//! stack. Initialising it again cancels the suspended thread, which is unwound as by a
//! panic. The crate has no other way to drop a suspended generator.

use generator::{Gn, LocalGenerator};
use peers::{arguments, print_answer};
use std::time::Instant;

fn main() {
    let [threads] = arguments(["THREADS"]);
    let mut sum = 0;
    let mut thread: LocalGenerator<(), usize> = Gn::new_scoped_local(|_| 0);
    let start = Instant::now();
    for number in 0..threads {
        thread.scoped_init(move |mut scope| {
            scope.yield_with(number);
            number
        });
        sum += thread.resume().unwrap_or_default() as u128;
    }
    let right = threads as u128 * (threads as u128 - 1) / 2;
    print_answer(start.elapsed(), sum, right);
}
