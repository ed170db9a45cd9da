-- SPDX-License-Identifier: MIT
-- The programs in Lua, by coroutines: threads.lua WORKLOAD ARGUMENT... A wrapped coroutine
-- is called, which is faster than resume, which also returns a status.
--
-- Lua has no monotonic clock. os.clock, the processor time, stands in for it, as these
-- programs have one thread and never sleep. LuaJIT can call clock_gettime().

local wrap, yield = coroutine.wrap, coroutine.yield
local clock = os.clock
local has_ffi, ffi = pcall(require, "ffi")
if has_ffi then
	ffi.cdef [[
		struct peer_time { long seconds, nanoseconds; };
		int clock_gettime(int, struct peer_time *);
	]]
	local time = ffi.new("struct peer_time")
	function clock()
		ffi.C.clock_gettime(1, time) -- CLOCK_MONOTONIC of Linux
		return tonumber(time.seconds) + 1e-9 * tonumber(time.nanoseconds)
	end
end

local function fail(message)
	io.stderr:write(arg[1], ": ", message, "\n")
	os.exit(1)
end

-- At most 15 digits: LuaJIT's numbers are doubles.
local function arguments(names, count)
	local numbers = {}
	for i = 1, count do
		local text = arg[i + 1] or ""
		if #text > 15 or not text:find("^%d+$") or tonumber(text) < 1 then
			break
		end
		numbers[i] = tonumber(text)
	end
	if #arg ~= count + 1 or #numbers ~= count then
		io.stderr:write("usage: ", arg[1], " ", names, "\n")
		os.exit(2)
	end
	return (table.unpack or unpack)(numbers)
end

local function report(value, answer)
	if answer > 2 ^ 53 then
		fail("the sum is too large")
	end
	print(("%.6f\n%d"):format(value, answer))
end

-- Bytes, for pages of 4096 bytes: Lua cannot ask.
local function resident()
	collectgarbage()
	collectgarbage()
	local file = assert(io.open("/proc/self/statm"))
	local pages = file:read("*l"):match("^%d+ (%d+)")
	file:close()
	return tonumber(pages) * 4096
end

local function count(n)
	yield()
	while true do
		yield(n)
		n = n + 1
	end
end

local workload = {}

function workload.counters()
	local counters, calls = arguments("COUNTERS CALLS", 2)
	local counter = {}
	for i = 1, counters do
		counter[i] = wrap(count)
		counter[i](i - 1)
	end
	local start, sum = clock(), 0
	for _ = 1, calls do
		for i = 1, counters do
			sum = sum + counter[i]()
		end
	end
	report(clock() - start, sum)
end

function workload.pingpong()
	local pairs = arguments("PAIRS", 1)
	local resume = wrap(count)
	resume(0)
	local start, sum = clock(), 0
	for _ = 1, pairs do
		sum = sum + resume()
	end
	report(clock() - start, sum)
end

-- The garbage collector frees them.
local function give(n)
	yield(n)
end

function workload.create()
	local threads = arguments("THREADS", 1)
	local start, sum = clock(), 0
	for i = 0, threads - 1 do
		sum = sum + wrap(give)(i)
	end
	report(clock() - start, sum)
end

-- Without the closures of wrap.
function workload.memory()
	local threads = arguments("THREADS", 1)
	local create, resume = coroutine.create, coroutine.resume
	local all, ended = {}, 0
	local function block()
		yield()
		ended = ended + 1
	end
	local function resume_all(from)
		for i = 1, threads do
			all[i] = all[i] or create(from)
			local good, message = resume(all[i])
			if not good then
				fail(message)
			end
		end
	end
	local before = resident()
	resume_all(block)
	local grown = math.max(0, resident() - before)
	resume_all()
	report(grown / threads, ended)
end

-- A coroutine only yields to its resumer, so each yields the next one to a loop that
-- resumes it: the usual trampoline.
function workload.ring()
	local THREADS, ring = 503, {}
	local function member(number)
		local token = yield()
		local next = ring[number % THREADS + 1]
		while token > 0 do
			token = yield(next, token - 1)
		end
		return nil, number
	end
	local passes = arguments("PASSES", 1)
	for i = 1, THREADS do
		ring[i] = wrap(member)
		ring[i](i)
	end
	local start = clock()
	local resume, token = ring[1], passes
	while resume do
		resume, token = resume(token)
	end
	report(clock() - start, token)
end

workload[arg[1]]()
