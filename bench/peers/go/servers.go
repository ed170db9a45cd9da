// SPDX-License-Identifier: MIT

// The servers for echo, a goroutine for each connection, and for HTTP, with net/http. The
// runtime raises the limit of descriptors, listens with the longest backlog that the
// system allows, and sets SO_REUSEADDR and TCP_NODELAY.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// portAnd returns the port, which is the first of so many arguments.
func portAnd(names string, count int) string {
	if len(os.Args) != 1+count {
		usage(names)
	}
	if port, err := strconv.ParseUint(os.Args[1], 10, 16); err != nil || port < 1 {
		usage(names)
	}
	return os.Args[1]
}

// listen limits the process to one processor, ends it at SIGTERM, and prints that it is
// ready.
func listen(port string) net.Listener {
	runtime.GOMAXPROCS(1)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		<-end
		os.Exit(0)
	}()
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		fail(err.Error())
	}
	fmt.Println("ready")
	return listener
}

func answer(conn net.Conn) {
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

func echo() {
	listener := listen(portAnd("PORT", 1))
	for {
		conn, err := listener.Accept()
		if err != nil { // out of descriptors: some may become free
			time.Sleep(time.Millisecond)
			continue
		}
		go answer(conn)
	}
}

// The file and its header fields are in memory; http.Server adds the date.
const path = "/1k"

// The fields are put into the header directly: Set would make a slice for each.
type file struct {
	text                           []byte
	kind, length, modified, entity []string
}

func load(name string) *file {
	text, err := os.ReadFile(name)
	if err != nil {
		fail(err.Error())
	}
	status, err := os.Stat(name)
	if err != nil {
		fail(err.Error())
	}
	time := status.ModTime()
	return &file{
		text:     text,
		kind:     []string{"application/octet-stream"},
		length:   []string{strconv.Itoa(len(text))},
		modified: []string{time.UTC().Format(http.TimeFormat)},
		entity:   []string{fmt.Sprintf("\"%x-%x\"", time.Unix(), len(text))},
	}
}

func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != path {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet {
		http.Error(w, "", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header["Content-Type"] = f.kind
	header["Content-Length"] = f.length
	header["Last-Modified"] = f.modified
	header["Etag"] = f.entity
	w.Write(f.text)
}

func serveHTTP() {
	port := portAnd("PORT DIR", 2)
	file := load(filepath.Join(os.Args[2], path))
	listener := listen(port)
	fail((&http.Server{Handler: file}).Serve(listener).Error())
}
