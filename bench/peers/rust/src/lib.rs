// SPDX-License-Identifier: MIT
//! Shared by the programs: arguments, clock, memory, and the count of blocks.

pub mod chain;
pub mod min;
pub mod server;

use std::fs;
use std::future::{poll_fn, Future};
use std::panic::set_hook;
use std::pin::pin;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The arguments, one for each name, each at least 1. One in brackets may be left out,
/// and is 1 then. Exits with a usage line if the arguments are wrong.
pub fn arguments<const K: usize>(names: [&str; K]) -> [usize; K] {
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

pub fn usage(names: &[&str]) -> ! {
    eprintln!("usage: {} {}", program(), names.join(" "));
    exit(2)
}

pub fn fail(what: &str) -> ! {
    eprintln!("{}: {what}", program());
    exit(1)
}

fn program() -> String {
    let path = std::env::args().next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_string()
}

/// The arguments of the cycle benchmark, N and R first; a thread takes `bytes`.
pub fn cycle_arguments<const K: usize>(names: [&str; K], bytes: usize) -> [usize; K] {
    let numbers = arguments(names);
    if numbers[0] < 2 {
        usage(&names);
    }
    check_memory(numbers[0].saturating_mul(numbers[1]), bytes);
    numbers
}

/// Ends the program if `count` times `bytes` exceed the memory. Rust's collections would
/// abort without a message, or be killed.
pub fn check_memory(count: usize, bytes: usize) {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<usize>().ok());
    if kib.is_some_and(|kib| count.saturating_mul(bytes) > kib << 10) {
        fail("not enough memory");
    }
}

/// The resident memory of the process, in bytes.
pub fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| s.split(' ').nth(1)?.parse::<usize>().ok());
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    pages.map_or_else(|| fail("no /proc/self/statm"), |pages| pages * page)
}

/// Bytes for each of `count`, by the growth of the process since `before`.
pub fn print_growth(before: usize, count: usize) {
    println!("{}", resident().saturating_sub(before) / count);
}

pub fn print_seconds(time: Duration) {
    println!("{:.6}", time.as_secs_f64());
}

/// Prints the seconds and the answer, if the answer is right.
pub fn print_answer(time: Duration, answer: u128, right: u128) {
    if answer != right {
        fail(&format!("{answer} instead of {right}"));
    }
    print_seconds(time);
    println!("{answer}");
}

static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Whether to count the blocks of tasks, instead of the time.
pub fn counts_blocks() -> bool {
    std::env::var_os("BLOCKS").is_some_and(|value| value == "1")
}

/// A task whose pending polls are counted. It wraps tasks only in a run that counts, so
/// others are not slowed down.
pub async fn counted<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    poll_fn(|context| {
        let poll = task.as_mut().poll(context);
        BLOCKED.fetch_add(poll.is_pending().into(), Relaxed);
        poll
    })
    .await
}

pub fn blocked() -> u64 {
    BLOCKED.load(Relaxed)
}

/// Prints the blocks since `Some` number of them, or the time.
pub fn print_blocks_or_seconds(since: Option<u64>, time: Duration) {
    match since {
        Some(since) => println!("{}", blocked() - since),
        None => print_seconds(time),
    }
}

/// The sum of all counters.
pub fn counters_sum(counters: usize, calls: usize) -> u128 {
    let (counters, calls) = (counters as u128, calls as u128);
    counters * calls * (counters + calls - 2) / 2
}

/// Ends the program with a message at a panic: some crates panic for want of memory or of
/// a native thread.
pub fn panic_means_no_memory() {
    set_hook(Box::new(|info| {
        eprintln!("{info}");
        fail("not enough memory")
    }));
}
