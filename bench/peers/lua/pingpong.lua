-- SPDX-License-Identifier: MIT
-- The pingpong workload with a coroutine; counters.lua says why wrap is used.

local peer = dofile((arg[0]:match("^.*/") or "") .. "peer.lua")
local yield = coroutine.yield

local pairs = peer.arguments("PAIRS", 1)
local resume = coroutine.wrap(function()
	local n = 0
	yield()
	while true do
		yield(n)
		n = n + 1
	end
end)
resume()
local start, sum = peer.clock(), 0
for _ = 1, pairs do
	sum = sum + resume()
end
peer.print(peer.clock() - start, sum)
