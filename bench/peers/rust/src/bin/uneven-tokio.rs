// SPDX-License-Identifier: MIT
//! uneven with tokio, over all its native threads: short requests beside long ones, a task
//! for each connection. tokio's timers have a millisecond.

use peers::chain::{calibrate, compute, next, LONG, LONGS, SEED, SHORT};
use peers::{arguments, fail, usage};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

#[derive(Clone, Copy)]
struct Plan {
    each_us: f64, // numbers of the chain
    gap: f64,     // ns between requests of a connection
    begin: Instant,
    seconds: f64,
}

/// The delays of the short requests of a connection, in us.
async fn serve(number: usize, plan: Plan) -> Vec<f64> {
    let mut x = SEED ^ (number as u64).wrapping_mul(2654435761);
    let mut late = Vec::new();
    let mut due = 0.0;
    for _ in 0..10 {
        x = next(x);
    }
    loop {
        x = next(x);
        due -= (((x >> 11) as f64 + 1.0) / 9007199254740992.0).ln() * plan.gap;
        if due >= plan.seconds * 1e9 {
            return late;
        }
        let at = plan.begin + Duration::from_nanos(due as u64);
        if Instant::now() < at {
            tokio::time::sleep_until(at.into()).await;
        }
        x = next(x);
        if x % 100 < LONGS {
            compute(LONG, plan.each_us);
            continue;
        }
        compute(SHORT, plan.each_us);
        if due >= plan.seconds * 2e8 {
            late.push(at.elapsed().as_secs_f64() * 1e6);
        }
    }
}

async fn measure(connections: usize, plan: Plan) -> Vec<f64> {
    let mut tasks: JoinSet<_> = (1..=connections).map(|i| serve(i, plan)).collect();
    let mut all = Vec::new();
    while let Some(late) = tasks.join_next().await {
        all.extend(late.unwrap_or_else(|_| fail("a task has failed")));
    }
    all
}

fn main() {
    let names = ["PERMILLE", "LOAD", "CONNECTIONS", "SECONDS", "PROCESSORS"];
    let [permille, load, connections, seconds, processors] = arguments(names);
    if permille > 999 || load > 99 {
        usage(&names);
    }
    let mean = ((100 - LONGS) as f64 * SHORT + LONGS as f64 * LONG) * 10.0; // ns
    let plan = Plan {
        each_us: calibrate(),
        gap: mean * 100.0 * connections as f64 / (load * processors) as f64,
        begin: Instant::now() + Duration::from_millis(50),
        seconds: seconds as f64,
    };
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(processors).enable_all().build().expect("a runtime");
    let mut all = runtime.block_on(measure(connections, plan));
    if all.is_empty() {
        fail("no requests");
    }
    all.sort_by(f64::total_cmp);
    println!("{:.6}", all[all.len() * permille / 1000]);
}
