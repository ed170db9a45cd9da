// SPDX-License-Identifier: MIT
//! The server with short and long requests, with tokio over several native threads, and a
//! task for each connection.

use peers::chain::{calibrate, compute, LONG, SHORT};
use peers::server::{listen, port_of, prepare_process};
use peers::{arguments, usage};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

async fn answer(mut stream: TcpStream, each_us: f64) -> io::Result<()> {
    let mut kind = [0; 1];
    stream.set_nodelay(true)?;
    while stream.read(&mut kind).await? > 0 {
        compute(if kind[0] == b'l' { LONG } else { SHORT }, each_us);
        stream.write_all(&kind).await?;
    }
    Ok(())
}

async fn serve(port: u16, each_us: f64) {
    let listener = listen(port);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(answer(stream, each_us))),
            // Out of descriptors: some may become free.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

fn main() {
    let names = ["PORT", "[PROCESSORS]"];
    let [port, processors] = arguments(names);
    let port = port_of(port, &names);
    if processors > 1024 {
        usage(&names);
    }
    prepare_process();
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(processors).enable_all().build().expect("a runtime");
    runtime.block_on(serve(port, calibrate()));
}
