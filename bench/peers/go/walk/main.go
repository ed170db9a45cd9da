// SPDX-License-Identifier: MIT

//go:build go1.23

// go-walk: a tree is walked by recursion in a coroutine of iter.Pull.
package main

import (
	"fmt"
	"iter"
	"time"

	"peers/internal/peer"
)

type node struct {
	left, right *node
	value       int
}

func grow(nodes int, next *int) *node {
	if nodes == 0 {
		return nil
	}
	n := &node{left: grow((nodes-1)/2, next)}
	n.value = *next
	*next++
	n.right = grow(nodes-1-(nodes-1)/2, next)
	return n
}

func (n *node) walk(yield func(int) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.value) && n.right.walk(yield)
}

func main() {
	nodes := peer.Args("NODES", 1)[0]
	grown, sum := 0, 0
	tree := grow(nodes, &grown)
	tree.walk(func(int) bool { return true })

	began := time.Now()
	next, stop := iter.Pull(func(yield func(int) bool) { tree.walk(yield) })
	defer stop()
	for {
		value, more := next()
		if !more {
			break
		}
		sum += value
	}
	took := time.Since(began)

	peer.PrintSeconds(took)
	fmt.Println(sum)
}
