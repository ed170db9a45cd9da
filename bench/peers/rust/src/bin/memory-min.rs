// SPDX-License-Identifier: MIT
//! memory with Rust's futures on the minimal executor of ../min.rs. Each thread is a
//! future that waits for an event.

use peers::min::{run, start, Event};
use peers::{arguments, check_memory, print_growth, resident};

async fn thread(inbox: &Event) {
    inbox.receive().await;
}

fn main() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 64);
    let before = resident();
    let inbox: Vec<_> = (0..count).map(|_| Event::default()).collect();
    let mut tasks = start(inbox.iter().map(thread));
    print_growth(before, count);
    inbox.iter().for_each(Event::send);
    println!("{}", run(&mut tasks));
}
