// SPDX-License-Identifier: MIT
//! memory with generator-rs: a generator for each thread, on a mapped stack with a guard
//! page. The stack is one page, because the crate writes to both ends of it. It takes two
//! mappings, and Linux allows a process 65,530 by default.

use generator::{Gn, LocalGenerator};
use peers::{arguments, check_memory, panic_means_no_memory, print_growth, resident};

const STACK_WORDS: usize = 512;

fn thread() -> LocalGenerator<'static, (), bool> {
    let mut thread = Gn::new_scoped_opt_local(STACK_WORDS, |mut scope| {
        scope.yield_with(false);
        true
    });
    thread.resume();
    thread
}

fn main() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 4096);
    panic_means_no_memory();
    let before = resident();
    let mut threads: Vec<_> = (0..count).map(|_| thread()).collect();
    print_growth(before, count);
    let ended = threads.iter_mut().filter_map(|thread| thread.resume());
    println!("{}", ended.filter(|&end| end).count());
}
