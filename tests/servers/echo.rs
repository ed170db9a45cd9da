// SPDX-License-Identifier: MIT
// An echo server with a thread for each connection, which counts in thread-local
// variables: echo PORT
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

struct Count(usize);

impl Drop for Count {
    fn drop(&mut self) {
        assert!(std::thread::current().name() == Some("client"));
    }
}

thread_local!(static COUNT: RefCell<Count> = RefCell::new(Count(0)));

fn serve(mut client: TcpStream) {
    let mut bytes = [0; 4096];
    let mut total = 0;
    while let Ok(n) = client.read(&mut bytes) {
        if n == 0 || client.write_all(&bytes[..n]).is_err() {
            break;
        }
        total += n;
        COUNT.with(|count| {
            count.borrow_mut().0 += n;
            assert_eq!(count.borrow().0, total);
        });
    }
}

fn main() {
    let port = std::env::args().nth(1).unwrap();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    for client in listener.incoming().flatten() {
        let thread = std::thread::Builder::new().name("client".into());
        thread.spawn(|| serve(client)).unwrap();
    }
}
