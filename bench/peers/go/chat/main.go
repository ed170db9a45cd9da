// SPDX-License-Identifier: MIT

// go-chat: the chat server, two goroutines for each client: one reads lines, one writes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	idle  = 600 * time.Second // for a client to say something
	stall = 10 * time.Second  // for a client to take what was said
	grace = 3 * time.Second   // for it to take the last words, and close
	queue = 256               // lines that a client has not taken yet
	line  = 512               // bytes of a line
)

type client struct {
	conn net.Conn
	name string
	room *room
	out  chan string
}

type room struct {
	name    string
	members map[*client]bool
}

var (
	lock   sync.Mutex
	rooms  = map[string]*room{}
	guests int
	ending atomic.Bool
	all    = map[*client]bool{}
	left   sync.WaitGroup
	good   = regexp.MustCompile("^[-a-z0-9_]{1,23}$")
)

// Under the lock, as all up to command.
func (c *client) tell(text string) {
	select {
	case c.out <- text:
	default:
		c.conn.Close() // it is too slow
	}
}

func (r *room) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for c := range r.members {
		c.tell(text)
	}
}

func (c *client) leave() {
	c.room.say("* %s leaves %s\n", c.name, c.room.name)
	delete(c.room.members, c)
	if len(c.room.members) == 0 {
		delete(rooms, c.room.name)
	}
}

func (c *client) enter(name string) {
	r := rooms[name]
	if r == nil {
		r = &room{name, map[*client]bool{}}
		rooms[name] = r
	}
	c.room = r
	r.members[c] = true
	r.say("* %s joins %s\n", c.name, name)
}

func isGood(name string) bool {
	for c := range all {
		if c.name == name {
			return false // it is taken
		}
	}
	return good.MatchString(name)
}

// False: the client wants to go.
func (c *client) obey(text string) bool {
	lock.Lock()
	defer lock.Unlock()
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 127 {
			return '?' // nothing for terminals
		}
		return r
	}, text)
	word, name, _ := strings.Cut(text, " ")
	switch {
	case !strings.HasPrefix(text, "/"):
		c.room.say("%s: %s\n", c.name, text)
	case word == "/name" && isGood(name):
		c.room.say("* %s is now %s\n", c.name, name)
		c.name = name
	case word == "/join" && isGood(name):
		c.leave()
		c.enter(name)
	case text == "/who":
		for member := range c.room.members {
			c.tell("= " + member.name + "\n")
		}
	case text == "/quit":
		return false
	default:
		c.tell("! no such command, or no good name\n")
	}
	return true
}

func (c *client) write() {
	var err error
	for text := range c.out {
		if err == nil {
			c.conn.SetWriteDeadline(time.Now().Add(stall))
			if _, err = c.conn.Write([]byte(text)); err != nil {
				c.conn.Close()
			}
		}
	}
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		tcp.CloseWrite()
	}
}

func (c *client) converse() string {
	scanner := bufio.NewScanner(c.conn)
	scanner.Buffer(nil, line)
	for {
		c.conn.SetReadDeadline(time.Now().Add(idle))
		lock.Lock()
		if ending.Load() {
			c.conn.SetReadDeadline(time.Now())
		}
		lock.Unlock()
		if !scanner.Scan() {
			break
		}
		if !c.obey(scanner.Text()) {
			return "bye"
		}
	}
	var late net.Error
	switch err := scanner.Err(); {
	case errors.As(err, &late) && late.Timeout() && ending.Load():
		return "the server ends, goodbye"
	case errors.As(err, &late) && late.Timeout():
		return "idle for too long"
	case errors.Is(err, bufio.ErrTooLong):
		return "that line is too long"
	}
	return "bye"
}

func talk(c *client) {
	written := make(chan bool)
	go func() { c.write(); written <- true }()
	why := c.converse()
	lock.Lock()
	c.leave()
	delete(all, c)
	c.tell("* " + why + "\n")
	close(c.out)
	lock.Unlock()
	<-written
	c.conn.SetReadDeadline(time.Now().Add(grace))
	for rest := make([]byte, 256); ; {
		if _, err := c.conn.Read(rest); err != nil {
			break
		}
	}
	c.conn.Close()
	left.Done()
}

func acceptAll(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		lock.Lock()
		guests++
		c := &client{conn: conn, name: fmt.Sprint("guest.", guests), out: make(chan string, queue)}
		all[c] = true
		c.enter("lobby")
		left.Add(1)
		lock.Unlock()
		go talk(c)
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go-chat PORT")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	listener, err := net.Listen("tcp4", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	go acceptAll(listener)
	<-end
	listener.Close()
	lock.Lock()
	ending.Store(true)
	for c := range all {
		c.conn.SetReadDeadline(time.Now())
	}
	lock.Unlock()
	left.Wait()
}
