// SPDX-License-Identifier: MIT

// go-requests: the server with short and long requests, a goroutine for each connection.
package main

import (
	"net"
	"runtime"
	"time"

	"peers/internal/chain"
	"peers/internal/server"
)

func serve(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 1)
	for {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
		if buffer[0] == 'l' {
			chain.Compute(chain.Long)
		} else {
			chain.Compute(chain.Short)
		}
		if _, err := conn.Write(buffer); err != nil {
			return
		}
	}
}

func main() {
	port, processors := server.PortAndProcessors()
	chain.Calibrate()
	listener := server.Listen(port)
	runtime.GOMAXPROCS(processors)
	for {
		conn, err := listener.Accept()
		if err != nil { // out of descriptors: some may become free
			time.Sleep(time.Millisecond)
			continue
		}
		go serve(conn)
	}
}
