// SPDX-License-Identifier: MIT
//! The programs in Rust, as SYSTEM-WORKLOAD: one binary, under the name of each. Here are
//! arguments, clock, memory, and the count of blocks.

mod min;
mod stacks;
mod tasks;

use std::fs;
use std::future::{poll_fn, Future};
use std::panic::set_hook;
use std::pin::pin;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The arguments, one for each name, each at least 1. One in brackets may be left out,
/// and is 1 then. Exits with a usage line if the arguments are wrong.
fn arguments<const K: usize>(names: [&str; K]) -> [usize; K] {
    let mut given = std::env::args().skip(1);
    let numbers = names.map(|name| match given.next() {
        Some(text) => number(&text),
        None => name.starts_with('[').then_some(1),
    });
    if given.next().is_some() || numbers.contains(&None) {
        usage(&names);
    }
    numbers.map(Option::unwrap_or_default)
}

fn number(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse().ok().filter(|&value| value > 0);
    value.filter(|_| digits)
}

fn usage(names: &[&str]) -> ! {
    eprintln!("usage: {} {}", program(), names.join(" "));
    exit(2)
}

fn fail(what: &str) -> ! {
    eprintln!("{}: {what}", program());
    exit(1)
}

fn program() -> String {
    let path = std::env::args().next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_string()
}

/// The arguments of the cycle benchmark, N and R first; a thread takes `bytes`.
fn cycle_arguments<const K: usize>(names: [&str; K], bytes: usize) -> [usize; K] {
    let numbers = arguments(names);
    if numbers[0] < 2 {
        usage(&names);
    }
    check_memory(numbers[0].saturating_mul(numbers[1]), bytes);
    numbers
}

/// Ends the program if `count` times `bytes` exceed the memory. Rust's collections would
/// abort without a message, or be killed.
fn check_memory(count: usize, bytes: usize) {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<usize>().ok());
    if kib.is_some_and(|kib| count.saturating_mul(bytes) > kib << 10) {
        fail("not enough memory");
    }
}

/// The resident memory of the process, in bytes.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| s.split(' ').nth(1)?.parse::<usize>().ok());
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    pages.map_or_else(|| fail("no /proc/self/statm"), |pages| pages * page)
}

/// Bytes for each of `count`, by the growth of the process since `before`.
fn print_growth(before: usize, count: usize) {
    println!("{}", resident().saturating_sub(before) / count);
}

/// Prints the seconds and the answer, if the answer is right.
fn print_answer(time: Duration, answer: usize, right: usize) {
    if answer != right {
        fail(&format!("{answer} instead of {right}"));
    }
    println!("{:.6}\n{answer}", time.as_secs_f64());
}

static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Whether to count the blocks of tasks, instead of the time.
fn counts_blocks() -> bool {
    std::env::var_os("BLOCKS").is_some_and(|value| value == "1")
}

/// A task whose pending polls are counted. It wraps tasks only in a run that counts, so
/// others are not slowed down.
async fn counted<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    poll_fn(|context| {
        let poll = task.as_mut().poll(context);
        BLOCKED.fetch_add(poll.is_pending().into(), Relaxed);
        poll
    })
    .await
}

fn blocked() -> u64 {
    BLOCKED.load(Relaxed)
}

/// Prints the blocks since so many of them, or the time.
fn print_blocks_or_seconds(since: u64, time: Duration) {
    if counts_blocks() {
        println!("{}", blocked() - since);
    } else {
        println!("{:.6}", time.as_secs_f64());
    }
}

/// Ends the program with a message at a panic: some crates panic for want of memory or of
/// a native thread.
fn panic_means_no_memory() {
    set_hook(Box::new(|info| {
        eprintln!("{info}");
        fail("not enough memory")
    }));
}

fn main() {
    match program().as_str() {
        "corosensei-counters" => stacks::counters::<stacks::Corosensei>(),
        "corosensei-pingpong" => stacks::pingpong::<stacks::Corosensei>(),
        "corosensei-create" => stacks::create_corosensei(),
        "corosensei-memory" => stacks::memory::<stacks::Corosensei>(),
        "corosensei-walk" => stacks::walk(),
        "generator-counters" => stacks::counters::<stacks::Generator>(),
        "generator-pingpong" => stacks::pingpong::<stacks::Generator>(),
        "generator-create" => stacks::create_generator(),
        "generator-memory" => stacks::memory::<stacks::Generator>(),
        "rustmin-cycle" => min::cycle(),
        "rustmin-memory" => min::memory(),
        "tokio-cycle" => tasks::cycle(),
        "tokio-ring" => tasks::ring(),
        "tokio-memory" => tasks::memory(),
        "tokio-echo" => tasks::echo(),
        name => fail(&format!("no program is {name}")),
    }
}
