// SPDX-License-Identifier: MIT
//! The echo server with tokio, in one native thread, with a task for each connection.

use peers::{arguments, fail, usage};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;

const BACKLOG: u32 = 4096;
const BUFFER_SIZE: usize = 16 << 10;

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

fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    socket.listen(BACKLOG)
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
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
    let listener = listen(port).unwrap_or_else(|error| fail(&error.to_string()));
    println!("ready");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(echo(stream))),
            // Out of descriptors: some may become free.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

fn main() {
    let [port] = arguments(["PORT"]);
    let port = u16::try_from(port).unwrap_or_else(|_| usage(&["PORT"]));
    prepare_process();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(serve(port));
}
