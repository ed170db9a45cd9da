// SPDX-License-Identifier: MIT
//! walk with corosensei: the coroutine walks by recursion, and gives each value.

use corosensei::{Coroutine, CoroutineResult::Yield, Yielder};
use peers::{arguments, check_memory, print_answer};
use std::time::Instant;

struct Node {
    left: Option<Box<Node>>,
    value: u64,
    right: Option<Box<Node>>,
}

fn grow(nodes: usize, next: &mut u64) -> Option<Box<Node>> {
    if nodes == 0 {
        return None;
    }
    let left = grow((nodes - 1) / 2, next);
    let value = *next;
    *next += 1;
    let right = grow(nodes - 1 - (nodes - 1) / 2, next);
    Some(Box::new(Node { left, value, right }))
}

fn walk(node: &Node, yielder: &Yielder<(), u64>) {
    if let Some(left) = &node.left {
        walk(left, yielder);
    }
    yielder.suspend(node.value);
    if let Some(right) = &node.right {
        walk(right, yielder);
    }
}

fn add_up(node: &Option<Box<Node>>) -> u64 {
    match node {
        Some(n) => add_up(&n.left) + n.value + add_up(&n.right),
        None => 0,
    }
}

fn main() {
    let [nodes] = arguments(["NODES"]);
    check_memory(nodes, 48);
    let tree = grow(nodes, &mut 0);
    assert_eq!(add_up(&tree) as u128, nodes as u128 * (nodes as u128 - 1) / 2);
    let mut sum = 0;
    let start = Instant::now();
    let mut all = Coroutine::<(), u64, ()>::new(move |yielder, ()| {
        if let Some(root) = &tree {
            walk(root, yielder);
        }
    });
    while let Yield(value) = all.resume(()) {
        sum += u128::from(value);
    }
    print_answer(
        start.elapsed(),
        sum,
        nodes as u128 * (nodes as u128 - 1) / 2,
    );
}
