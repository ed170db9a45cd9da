-- SPDX-License-Identifier: MIT The ring workload with coroutines. A coroutine only yields
-- to its resumer, so each yields the next one to a loop that resumes it: the usual
-- trampoline.

local peer = dofile((arg[0]:match("^.*/") or "") .. "peer.lua")
local wrap, yield = coroutine.wrap, coroutine.yield
local THREADS = 503
local ring = {}

local function member(number)
	local token = yield()
	local next = ring[number % THREADS + 1]
	while token > 0 do
		token = yield(next, token - 1)
	end
	return nil, number
end

local passes = peer.arguments("PASSES", 1)
for i = 1, THREADS do
	ring[i] = wrap(member)
	ring[i](i)
end
local start = peer.clock()
local resume, token = ring[1], passes
while resume do
	resume, token = resume(token)
end
peer.print(peer.clock() - start, token)
