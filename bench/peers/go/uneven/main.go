// SPDX-License-Identifier: MIT

// go-uneven: short requests beside long ones, a goroutine for each connection.
package main

import (
	"fmt"
	"math"
	"runtime"
	"sort"
	"sync"
	"time"

	"peers/internal/chain"
	"peers/internal/peer"
)

// Serve returns the delays of the short requests of a connection, in us.
func serve(n int, begin time.Time, seconds, gap float64) (late []float64) {
	x := chain.Seed ^ uint64(n)*2654435761
	for i := 0; i < 10; i++ {
		x = chain.Next(x)
	}
	for due := 0.0; ; {
		x = chain.Next(x)
		due -= math.Log((float64(x>>11)+1)/9007199254740992) * gap
		if due >= seconds*1e9 {
			return
		}
		at := begin.Add(time.Duration(due))
		if wait := time.Until(at); wait > 0 {
			time.Sleep(wait)
		}
		x = chain.Next(x)
		if x%100 < chain.Longs {
			chain.Compute(chain.Long)
			continue
		}
		chain.Compute(chain.Short)
		if due >= seconds*2e8 {
			late = append(late, float64(time.Since(at).Nanoseconds())/1000)
		}
	}
}

func main() {
	args := peer.Args("PERMILLE LOAD CONNECTIONS SECONDS PROCESSORS", 1, 1, 1, 1, 1)
	permille, load, connections, seconds := args[0], args[1], args[2], float64(args[3])
	processors := args[4]
	if permille > 999 || load > 99 {
		peer.Fail("PERMILLE is at most 999, LOAD 99")
	}
	runtime.GOMAXPROCS(processors)
	mean := float64((100-chain.Longs)*chain.Short+chain.Longs*chain.Long) * 10 // ns
	gap := mean * 100 * float64(connections) / float64(load*processors)
	chain.Calibrate()
	begin := time.Now().Add(50 * time.Millisecond)
	lates := make([][]float64, connections)
	var group sync.WaitGroup
	group.Add(connections)
	for i := range lates {
		go func() {
			defer group.Done()
			lates[i] = serve(i+1, begin, seconds, gap)
		}()
	}
	group.Wait()
	var all []float64
	for _, late := range lates {
		all = append(all, late...)
	}
	if len(all) == 0 {
		peer.Fail("no requests")
	}
	sort.Float64s(all)
	fmt.Printf("%.6f\n", all[len(all)*permille/1000])
}
