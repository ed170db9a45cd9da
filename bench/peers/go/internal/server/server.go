// SPDX-License-Identifier: MIT

// Package server has arguments, the listener and the end, for the Go servers. The runtime
// raises the limit of descriptors, listens with the longest backlog that the system
// allows, and sets SO_REUSEADDR and TCP_NODELAY.
package server

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"peers/internal/peer"
)

// Args returns the arguments, the port first: as many as names has.
func Args(names ...string) []string {
	args := os.Args[1:]
	if len(args) == len(names) && isNumber(args[0], 16) {
		return args
	}
	usage(names)
	return nil
}

// PortAndProcessors returns the arguments of a server for several processors, 1 without.
func PortAndProcessors() (port string, processors int) {
	args := os.Args[1:]
	if len(args) == 1 {
		args = append(args, "1")
	}
	if len(args) != 2 || !isNumber(args[0], 16) || !isNumber(args[1], 10) {
		usage([]string{"PORT", "[PROCESSORS]"})
	}
	processors, _ = strconv.Atoi(args[1])
	return args[0], processors
}

func isNumber(text string, bits int) bool {
	value, err := strconv.ParseUint(text, 10, bits)
	return err == nil && value > 0
}

func usage(names []string) {
	fmt.Fprint(os.Stderr, "usage: ", filepath.Base(os.Args[0]))
	for _, name := range names {
		fmt.Fprint(os.Stderr, " ", name)
	}
	fmt.Fprintln(os.Stderr)
	os.Exit(2)
}

// Listen limits the process to one processor, ends it at SIGTERM, and prints that it is
// ready.
func Listen(port string) net.Listener {
	runtime.GOMAXPROCS(1)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		<-end
		os.Exit(0)
	}()
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		peer.Fail(err.Error())
	}
	fmt.Println("ready")
	return listener
}
