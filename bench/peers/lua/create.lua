-- SPDX-License-Identifier: MIT
-- The create workload with coroutines; the garbage collector frees them.

local peer = dofile((arg[0]:match("^.*/") or "") .. "peer.lua")
local wrap, yield = coroutine.wrap, coroutine.yield

local function give(n)
	yield(n)
end

local threads = peer.arguments("THREADS", 1)
local start, sum = peer.clock(), 0
for i = 0, threads - 1 do
	sum = sum + wrap(give)(i)
end
peer.print(peer.clock() - start, sum)
