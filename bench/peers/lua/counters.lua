-- SPDX-License-Identifier: MIT
-- The counters workload with coroutines. A wrapped coroutine is called, which is faster
-- than resume, which also returns a status.

local peer = dofile((arg[0]:match("^.*/") or "") .. "peer.lua")
local wrap, yield = coroutine.wrap, coroutine.yield

local function count(n)
	yield()
	while true do
		yield(n)
		n = n + 1
	end
end

local counters, calls = peer.arguments("COUNTERS CALLS", 2)
local counter = {}
for i = 1, counters do
	counter[i] = wrap(count)
	counter[i](i - 1)
end
local start, sum = peer.clock(), 0
for _ = 1, calls do
	for i = 1, counters do
		sum = sum + counter[i]()
	end
end
peer.print(peer.clock() - start, sum)
