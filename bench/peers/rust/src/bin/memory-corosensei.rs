// SPDX-License-Identifier: MIT
//! memory with corosensei: a coroutine for each thread, on one of the crate's stacks:
//! mapped, with a guard page. At least a page of a stack is touched, however small it is.
//! A stack takes two mappings, and Linux allows a process 65,530 by default.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult::Return};
use peers::{arguments, check_memory, fail, print_growth, resident};

fn thread() -> Coroutine<(), (), ()> {
    let stack = DefaultStack::new(4096).unwrap_or_else(|_| fail("not enough memory"));
    let mut thread = Coroutine::with_stack(stack, |yielder, ()| yielder.suspend(()));
    thread.resume(());
    thread
}

fn main() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 4096);
    let before = resident();
    let mut threads: Vec<_> = (0..count).map(|_| thread()).collect();
    print_growth(before, count);
    let resumed = threads.iter_mut().map(|thread| thread.resume(()));
    println!(
        "{}",
        resumed
            .filter(|result| matches!(result, Return(())))
            .count()
    );
}
