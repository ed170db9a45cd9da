// SPDX-License-Identifier: MIT

// go-http: the HTTP server with net/http. The file and its header fields are in memory;
// http.Server adds the date.
package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"peers/internal/peer"
	"peers/internal/server"
)

const path = "/1k"

// The fields are put into the header directly: Set would make a slice for each.
type file struct {
	text                           []byte
	kind, length, modified, entity []string
}

func load(name string) *file {
	text, err := os.ReadFile(name)
	if err != nil {
		peer.Fail(err.Error())
	}
	status, err := os.Stat(name)
	if err != nil {
		peer.Fail(err.Error())
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

func main() {
	args := server.Args("PORT", "DIR")
	file := load(filepath.Join(args[1], path))
	listener := server.Listen(args[0])
	peer.Fail((&http.Server{Handler: file}).Serve(listener).Error())
}
