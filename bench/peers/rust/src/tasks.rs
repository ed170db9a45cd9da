// SPDX-License-Identifier: MIT
//! tokio: each thread is a task, in one native thread, but in cycle over P workers.

use crate::{
    arguments, blocked, check_memory, counted, counts_blocks, cycle_arguments, fail,
    panic_means_no_memory, print_answer, print_blocks_or_seconds, print_growth, resident, usage,
};
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

const TASK_BYTES: usize = 600;

struct Cycles {
    n: usize,
    m: usize,
    inbox: Vec<Semaphore>,
    conductor: Semaphore,
    warm: AtomicBool, // The clock runs.
    arrived: AtomicUsize,
    finished: AtomicUsize,
}

async fn receive(inbox: &Semaphore) {
    inbox.acquire().await.expect("never closed").forget();
}

/// Runs one round before the clock starts, then all of them.
async fn relay(all: &Cycles, index: usize) {
    let i = index % all.n;
    let inbox = &all.inbox[index];
    let right = &all.inbox[index - i + (i + 1) % all.n];
    let mut left = 1;
    while left > 0 {
        if (all.arrived.fetch_add(1, SeqCst) + 1) % all.inbox.len() == 0 {
            all.conductor.add_permits(1);
        }
        if i == 0 {
            receive(inbox).await; // To start.
        }
        let mut turn = 0;
        while left > 0 {
            if turn == i {
                right.add_permits(1);
                receive(inbox).await;
            } else {
                receive(inbox).await;
                right.add_permits(1);
            }
            turn = if turn + 1 == all.n { 0 } else { turn + 1 };
            left -= 1;
        }
        left = if all.warm.load(Relaxed) { 0 } else { all.m };
    }
    if i == (all.m - 1) % all.n && all.finished.fetch_add(1, SeqCst) + 1 == all.inbox.len() / all.n
    {
        all.conductor.add_permits(1);
    }
}

async fn start_cycles(all: &Cycles) {
    for first in all.inbox.iter().step_by(all.n) {
        first.add_permits(1);
    }
    receive(&all.conductor).await;
}

/// In a task: with one native thread, the last task to arrive has blocked before it runs.
async fn conduct(all: &Cycles) -> (u64, Duration) {
    receive(&all.conductor).await;
    start_cycles(all).await;
    all.warm.store(true, Relaxed);
    let (blocks, start) = (blocked(), Instant::now());
    start_cycles(all).await;
    (blocks, start.elapsed())
}

fn spawn(task: impl Future<Output = ()> + Send + 'static, count: bool) {
    if count {
        tokio::spawn(counted(task));
    } else {
        tokio::spawn(task);
    }
}

/// Each thread is a task that takes a permit from its semaphore for each message. This is the
/// fastest primitive of tokio that is correct. Notify holds one permit only, but several
/// messages can be on their way to a task, so it would hang.
pub fn cycle() {
    let [n, r, m, p] = cycle_arguments(["N", "R", "M", "[P]"], TASK_BYTES);
    panic_means_no_memory();
    let count = counts_blocks();
    let inbox = (0..n * r).map(|_| Semaphore::new(0)).collect();
    // Tasks have to be 'static: a leak saves a reference count for each.
    let all: &'static Cycles = Box::leak(Box::new(Cycles {
        n,
        m,
        inbox,
        conductor: Semaphore::new(0),
        warm: AtomicBool::new(false),
        arrived: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
    }));
    let runtime = match p.min(n * r) {
        1 => Builder::new_current_thread().build(),
        workers => Builder::new_multi_thread().worker_threads(workers).build(),
    }
    .expect("a runtime");
    let (blocks, time) = runtime.block_on(async {
        for index in 0..n * r {
            spawn(relay(all, index), count);
        }
        tokio::spawn(conduct(all)).await.expect("a result")
    });
    print_blocks_or_seconds(blocks, time);
}

const THREADS: usize = 503;

type Inbox = UnboundedReceiver<usize>;
type Outbox = UnboundedSender<usize>;

async fn member(number: usize, mut inbox: Inbox, right: Outbox, end: Outbox) {
    while let Some(token) = inbox.recv().await {
        // The receiver is gone when the run has ended.
        let _ = match token {
            0 => end.send(number),
            _ => right.send(token - 1),
        };
    }
}

async fn pass(passes: usize) {
    let (end, mut ended) = unbounded_channel();
    let (outbox, inbox): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| unbounded_channel()).unzip();
    for (i, inbox) in inbox.into_iter().enumerate() {
        let right = outbox[(i + 1) % THREADS].clone();
        tokio::spawn(member(i + 1, inbox, right, end.clone()));
    }
    yield_now().await; // The tasks run, and block.
    let start = Instant::now();
    let _ = outbox[0].send(passes);
    let Some(number) = ended.recv().await else {
        fail("the token is lost");
    };
    let right = passes % THREADS + 1;
    print_answer(start.elapsed(), number, right);
}

/// Each thread gets numbers from an unbounded channel. A bounded channel, which counts with a
/// semaphore, is not faster.
pub fn ring() {
    let [passes] = arguments(["PASSES"]);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(pass(passes));
}

static GATE: Semaphore = Semaphore::const_new(0);
static ARRIVED: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

async fn thread() {
    ARRIVED.fetch_add(1, Relaxed);
    GATE.acquire().await.expect("never closed").forget();
    ENDED.fetch_add(1, Relaxed);
}

async fn until(counter: &AtomicUsize, count: usize) {
    while counter.load(Relaxed) < count {
        yield_now().await;
    }
}

async fn grow(count: usize) {
    let before = resident();
    for _ in 0..count {
        tokio::spawn(thread());
    }
    until(&ARRIVED, count).await;
    print_growth(before, count);
    GATE.add_permits(count);
    until(&ENDED, count).await;
    println!("{}", ENDED.load(Relaxed));
}

/// All threads wait at one semaphore, which keeps its list of waiters within their futures.
pub fn memory() {
    let [count] = arguments(["THREADS"]);
    check_memory(count, 450);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(grow(count));
}

const BACKLOG: u32 = 4096;

extern "C" fn end(_: libc::c_int) {
    // SAFETY: _exit may be called from a signal handler.
    unsafe { libc::_exit(0) }
}

/// Ends at SIGTERM, and raises the limit of descriptors to the hard one.
fn prepare_process() {
    let handler = end as extern "C" fn(libc::c_int) as libc::sighandler_t;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the handler is async-signal-safe, and limit outlives the calls.
    let good = unsafe {
        libc::signal(libc::SIGTERM, handler) != libc::SIG_ERR
            && libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0
            && {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0
            }
    };
    if !good {
        fail("signal or setrlimit");
    }
}

/// Listens, and prints that it is ready.
fn listen(port: u16) -> TcpListener {
    let listener = bind(port).unwrap_or_else(|error| fail(&error.to_string()));
    println!("ready");
    listener
}

fn bind(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    socket.listen(BACKLOG)
}

const BUFFER_SIZE: usize = 16 << 10;

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_SIZE];
    stream.set_nodelay(true)?;
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length]).await?;
    }
}

async fn serve(port: u16) {
    let listener = listen(port);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(answer(stream))),
            // Out of descriptors: some may become free.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

pub fn echo() {
    let [port] = arguments(["PORT"]);
    let port = u16::try_from(port).unwrap_or_else(|_| usage(&["PORT"]));
    prepare_process();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(serve(port));
}
