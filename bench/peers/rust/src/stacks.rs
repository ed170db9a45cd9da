// SPDX-License-Identifier: MIT
//! Threads that give numbers, each on a mapped stack with a guard page: coroutines of
//! corosensei, whose switch is inline assembly, so that the compiler saves only the
//! registers that are in use there; and generators of generator-rs, which are resumed in
//! the native thread that made them. A stack takes two mappings, and Linux allows a process
//! 65,530 by default.

use crate::{arguments, check_memory, fail, panic_means_no_memory, print_answer, print_growth};
use corosensei::stack::DefaultStack;
use corosensei::{CoroutineResult::Yield, Yielder};
use generator::{Gn, LocalGenerator};
use std::time::Instant;

/// Gives numbers from `first` on; one with `last` ends after it.
pub trait Thread {
    fn new(first: usize, last: Option<usize>) -> Self;
    /// None: it has ended.
    fn next(&mut self) -> Option<usize>;
}

pub type Corosensei = corosensei::Coroutine<(), usize, ()>;
pub type Generator = LocalGenerator<'static, (), usize>;

impl Thread for Corosensei {
    fn new(first: usize, last: Option<usize>) -> Self {
        let bytes = if last.is_some() { 4096 } else { 16 << 10 }; // To unwind takes some.
        let stack = DefaultStack::new(bytes).unwrap_or_else(|_| fail("not enough memory"));
        Self::with_stack(stack, move |yielder, ()| {
            for number in first..=last.unwrap_or(usize::MAX) {
                yielder.suspend(number);
            }
        })
    }

    fn next(&mut self) -> Option<usize> {
        match self.resume(()) {
            Yield(number) => Some(number),
            _ => None,
        }
    }
}

impl Thread for Generator {
    fn new(first: usize, last: Option<usize>) -> Self {
        let words = if last.is_some() { 512 } else { 4096 }; // The crate writes to both ends.
        panic_means_no_memory();
        Gn::new_scoped_opt_local(words, move |mut scope| {
            for number in first..=last.unwrap_or(usize::MAX) {
                scope.yield_with(number);
            }
            usize::MAX
        })
    }

    fn next(&mut self) -> Option<usize> {
        self.resume().filter(|&number| number != usize::MAX)
    }
}

/// The sum of 0 to `count` - 1.
fn sum_below(count: usize) -> usize {
    (count as u128 * (count as u128 - 1) / 2) as usize
}

/// A thread that has given its first number, so each later one is by 1 too large.
fn ready<T: Thread>(first: usize) -> T {
    let mut thread = T::new(first, None);
    thread.next();
    thread
}

pub fn counters<T: Thread>() {
    let [count, calls] = arguments(["COUNTERS", "CALLS"]);
    check_memory(count, 8192);
    let mut counters: Vec<_> = (0..count).map(ready::<T>).collect();
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..calls {
        for counter in &mut counters {
            sum += counter.next().unwrap_or_default();
        }
    }
    let time = start.elapsed();
    let right = count as u128 * calls as u128 * (count + calls - 2) as u128 / 2;
    print_answer(time, sum - count * calls, right as usize);
}

pub fn pingpong<T: Thread>() {
    let [pairs] = arguments(["PAIRS"]);
    let mut thread = ready::<T>(0);
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..pairs {
        sum += thread.next().unwrap_or_default();
    }
    print_answer(start.elapsed(), sum - pairs, sum_below(pairs));
}

/// All threads use the same stack in turn, as corosensei's documents recommend, since a
/// stack is a mapping. force_reset drops a suspended coroutine. An ordinary drop unwinds it
/// like a panic, and takes eighty times as long; nothing on the stack needs it.
pub fn create_corosensei() {
    let [threads] = arguments(["THREADS"]);
    let mut sum = 0;
    let mut stack = DefaultStack::default();
    let start = Instant::now();
    for number in 0..threads {
        let mut thread = corosensei::Coroutine::<(), usize, (), _>::with_stack(
            stack, move |yielder, ()| yielder.suspend(number));
        if let Yield(number) = thread.resume(()) {
            sum += number;
        }
        // SAFETY: nothing on its stack needs a drop, or is referred to from elsewhere.
        unsafe { thread.force_reset() };
        stack = thread.into_stack();
    }
    print_answer(start.elapsed(), sum, sum_below(threads));
}

/// All threads use the same generator in turn, and so one stack. Initialising it again
/// cancels the suspended thread, which is unwound as by a panic. generator-rs has no other
/// way to drop a suspended generator.
pub fn create_generator() {
    let [threads] = arguments(["THREADS"]);
    let mut sum = 0;
    let mut thread: Generator = Gn::new_scoped_local(|_| 0);
    let start = Instant::now();
    for number in 0..threads {
        thread.scoped_init(move |mut scope| {
            scope.yield_with(number);
            number
        });
        sum += thread.resume().unwrap_or_default();
    }
    print_answer(start.elapsed(), sum, sum_below(threads));
}

pub fn memory<T: Thread>() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 4096);
    let before = crate::resident();
    let mut threads = Vec::with_capacity(count);
    for _ in 0..count {
        threads.push(T::new(0, Some(0)));
        threads.last_mut().and_then(T::next);
    }
    print_growth(before, count);
    println!("{}", threads.iter_mut().filter_map(|t| t.next().is_none().then_some(())).count());
}

struct Node {
    left: Option<Box<Node>>,
    value: usize,
    right: Option<Box<Node>>,
}

fn grow(nodes: usize, next: &mut usize) -> Option<Box<Node>> {
    if nodes == 0 {
        return None;
    }
    let left = grow((nodes - 1) / 2, next);
    let value = *next;
    *next += 1;
    let right = grow(nodes - 1 - (nodes - 1) / 2, next);
    Some(Box::new(Node { left, value, right }))
}

fn give_all(node: &Node, yielder: &Yielder<(), usize>) {
    if let Some(left) = &node.left {
        give_all(left, yielder);
    }
    yielder.suspend(node.value);
    if let Some(right) = &node.right {
        give_all(right, yielder);
    }
}

fn add_up(node: &Option<Box<Node>>) -> usize {
    node.as_ref().map_or(0, |n| add_up(&n.left) + n.value + add_up(&n.right))
}

pub fn walk() {
    let [nodes] = arguments(["NODES"]);
    check_memory(nodes, 48);
    let tree = grow(nodes, &mut 0);
    assert_eq!(add_up(&tree), sum_below(nodes));
    let mut sum = 0;
    let start = Instant::now();
    let mut all = Corosensei::new(move |yielder, ()| {
        if let Some(root) = &tree {
            give_all(root, yielder);
        }
    });
    while let Yield(value) = all.resume(()) {
        sum += value;
    }
    print_answer(start.elapsed(), sum, sum_below(nodes));
}
