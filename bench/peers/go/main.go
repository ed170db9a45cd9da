// SPDX-License-Identifier: MIT

// The programs in Go, but for the chat, as go-WORKLOAD: one binary, under the name of
// each. Here are arguments, failures and memory.
package main

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Coroutines add to them, with a Go that has them.
var programs = map[string]func(){
	"go-cycle": cycle, "go-ring": ring, "go-memory": memory, "go-channel": channel,
	"go-uneven": uneven, "go-echo": echo, "go-http": serveHTTP,
}

func main() {
	program := programs[filepath.Base(os.Args[0])]
	if program == nil {
		fail("no program has this name")
	}
	program()
}

// fail ends the program after an error, without a result.
func fail(what string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(os.Args[0]), what)
	os.Exit(1)
}

func usage(names string) {
	fmt.Fprintf(os.Stderr, "usage: %s %s\n", filepath.Base(os.Args[0]), names)
	os.Exit(2)
}

// numbers returns the arguments: at least as many as least has, and at most one for each
// word of names. Each is a whole number, not below its least, or 1 where there is none.
func numbers(names string, least ...int) []int {
	args := os.Args[1:]
	if len(args) < len(least) || len(args) > len(strings.Fields(names)) {
		usage(names)
	}
	values := make([]int, len(args))
	for i, arg := range args {
		value, err := strconv.ParseUint(arg, 10, strconv.IntSize-1)
		low := 1
		if i < len(least) {
			low = least[i]
		}
		if err != nil || int(value) < low {
			usage(names)
		}
		values[i] = int(value)
	}
	return values
}

// product multiplies two numbers of threads, and fails if the result is too large.
func product(a, b int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || int(lo) < 0 {
		fail("not enough memory")
	}
	return int(lo)
}

// needMemory fails if there is no memory for so many goroutines: the runtime cannot be
// asked, and kills the process.
func needMemory(threads int) {
	const each = 2800 // stack 2048, descriptor 440, and the wait
	text, _ := os.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemAvailable:" {
			continue
		}
		if kib, err := strconv.Atoi(f[1]); err == nil && threads > kib*1024/each {
			fail(fmt.Sprintf("not enough memory for %d goroutines", threads))
		}
	}
}

// resident returns the resident memory of this process, in bytes.
func resident() (bytes int) {
	text, err := os.ReadFile("/proc/self/statm")
	if _, scanned := fmt.Sscanf(string(text), "%d %d", new(int), &bytes); err != nil || scanned != nil {
		fail("cannot read /proc/self/statm")
	}
	return bytes * os.Getpagesize()
}

// printSeconds prints the first line of the output.
func printSeconds(t time.Duration) {
	fmt.Printf("%.6f\n", t.Seconds())
}
