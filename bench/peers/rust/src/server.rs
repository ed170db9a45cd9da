// SPDX-License-Identifier: MIT
//! Shared by the servers: their end, limits, and listener.

use crate::{fail, usage};
use std::io;
use tokio::net::{TcpListener, TcpSocket};

const BACKLOG: u32 = 4096;

extern "C" fn end(_: libc::c_int) {
    // SAFETY: _exit may be called from a signal handler.
    unsafe { libc::_exit(0) }
}

/// Ends at SIGTERM, and raises the limit of descriptors to the hard one.
pub fn prepare_process() {
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

/// The port, if the argument is one.
pub fn port_of(argument: usize, names: &[&str]) -> u16 {
    u16::try_from(argument).unwrap_or_else(|_| usage(names))
}

/// Listens, and prints that it is ready.
pub fn listen(port: u16) -> TcpListener {
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
