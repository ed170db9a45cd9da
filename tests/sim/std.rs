// SPDX-License-Identifier: MIT
// std.rs: what the standard library of Rust does: system calls for locks and waits,
// variables of threads, files, sockets. With an argument two threads count without a lock.
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex};
use std::time::Duration;
use std::{env, fs, thread};

thread_local! { static MINE: Cell<i32> = const { Cell::new(0) } }

fn wait_for_all(wrong: bool) {
    let all = Arc::new((Mutex::new(0), Condvar::new(), Barrier::new(3), AtomicI32::new(0)));
    let (sender, receiver) = mpsc::channel();
    for i in 0..3 {
        let (all, sender) = (all.clone(), sender.clone());
        thread::spawn(move || {
            all.2.wait();
            MINE.set(i);
            thread::sleep(Duration::from_millis(10));
            sender.send(MINE.get()).unwrap();
            let before = all.3.load(SeqCst);
            if wrong {
                thread::yield_now();
                all.3.store(before + 1, SeqCst);
            } else {
                all.3.fetch_add(1, SeqCst);
            }
            *all.0.lock().unwrap() += 1;
            all.1.notify_one();
        });
    }
    drop(sender);
    assert_eq!(receiver.iter().sum::<i32>(), 3);
    let done = all.1.wait_while(all.0.lock().unwrap(), |n| *n < 3).unwrap();
    assert_eq!((*done, all.3.load(SeqCst)), (3, 3));
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:7777").unwrap();
    let client = thread::spawn(|| {
        let mut text = String::new();
        let mut stream = TcpStream::connect("127.0.0.1:7777").unwrap();
        stream.read_to_string(&mut text).unwrap();
        fs::write("std.txt", text).unwrap();
        assert_eq!(fs::metadata("std.txt").unwrap().len(), 5);
        fs::rename("std.txt", "renamed.txt").unwrap();
    });
    listener.accept().unwrap().0.write_all(b"hello").unwrap();
    client.join().unwrap();
    assert_eq!(fs::read_to_string("renamed.txt").unwrap(), "hello");
    wait_for_all(env::args().count() > 1);
}
