// SPDX-License-Identifier: MIT

// go-echo: the echo server, a goroutine for each connection.
package main

import (
	"net"
	"time"

	"peers/internal/server"
)

func echo(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func main() {
	listener := server.Listen(server.Args("PORT")[0])
	for {
		conn, err := listener.Accept()
		if err != nil { // out of descriptors: some may become free
			time.Sleep(time.Millisecond)
			continue
		}
		go echo(conn)
	}
}
