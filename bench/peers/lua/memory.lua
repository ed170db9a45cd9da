-- SPDX-License-Identifier: MIT
-- The memory workload with coroutines, without the closures of wrap.

local peer = dofile((arg[0]:match("^.*/") or "") .. "peer.lua")
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local ended = 0

local function block()
	yield()
	ended = ended + 1
end

local function must(ok, message)
	if not ok then
		peer.fail(message)
	end
end

local threads = peer.arguments("THREADS", 1)
local before = peer.resident()
local all = {}
for i = 1, threads do
	all[i] = create(block)
	must(resume(all[i]))
end
local grown = math.max(0, peer.resident() - before)
for i = 1, threads do
	must(resume(all[i]))
end
peer.print(grown / threads, ended)
