// SPDX-License-Identifier: MIT
//! Computes for some time, as bench/chain.h does.

use std::hint::black_box;
use std::time::{Duration, Instant};

pub const SHORT: f64 = 20.0; // us
pub const LONG: f64 = 2000.0;
pub const LONGS: u64 = 5; // percent
pub const SEED: u64 = 88172645463325252;

/// Marsaglia's xorshift.
pub fn next(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

/// `each_us` numbers of the chain take a us.
pub fn compute(us: f64, each_us: f64) {
    let numbers = (us * each_us) as u64;
    black_box((0..numbers).fold(SEED, |x, _| next(x)));
}

pub fn calibrate() -> f64 {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(400) {
        compute(1000.0, 100.0);
    }
    let tries = (0..10).map(|_| {
        let start = Instant::now();
        compute(20000.0, 100.0);
        20000.0 * 100.0 / start.elapsed().as_secs_f64() / 1e6
    });
    tries.fold(0.0, f64::max)
}
