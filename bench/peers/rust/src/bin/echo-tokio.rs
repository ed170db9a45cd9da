// SPDX-License-Identifier: MIT
//! The echo server with tokio, in one native thread, with a task for each connection.

use peers::arguments;
use peers::server::{listen, port_of, prepare_process};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

const BUFFER_SIZE: usize = 16 << 10;

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
    let listener = listen(port);
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
    let port = port_of(port, &["PORT"]);
    prepare_process();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(serve(port));
}
