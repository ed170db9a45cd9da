-- SPDX-License-Identifier: MIT
-- Shared by the Lua programs. Lua has no monotonic clock. os.clock, the processor time,
-- stands in for it, as these programs have one thread and never sleep. LuaJIT can call
-- clock_gettime().

local peer = { clock = os.clock }

local has_ffi, ffi = pcall(require, "ffi")
if has_ffi then
	ffi.cdef [[
		struct peer_time { long seconds, nanoseconds; };
		int clock_gettime(int, struct peer_time *);
	]]
	local time = ffi.new("struct peer_time")
	function peer.clock()
		ffi.C.clock_gettime(1, time) -- CLOCK_MONOTONIC of Linux
		return tonumber(time.seconds) + 1e-9 * tonumber(time.nanoseconds)
	end
end

function peer.fail(message)
	io.stderr:write(arg[0], ": ", message, "\n")
	os.exit(1)
end

-- At most 15 digits: LuaJIT's numbers are doubles.
function peer.arguments(names, count)
	local numbers = {}
	for i = 1, count do
		local text = arg[i] or ""
		if #text > 15 or not text:find("^%d+$") or tonumber(text) < 1 then
			break
		end
		numbers[i] = tonumber(text)
	end
	if #arg ~= count or #numbers ~= count then
		io.stderr:write("usage: ", arg[0], " ", names, "\n")
		os.exit(2)
	end
	return (table.unpack or unpack)(numbers)
end

function peer.print(value, answer)
	if answer > 2 ^ 53 then
		peer.fail("the sum is too large")
	end
	print(("%.6f\n%d"):format(value, answer))
end

-- Bytes, for pages of 4096 bytes: Lua cannot ask.
function peer.resident()
	collectgarbage()
	collectgarbage()
	local file = assert(io.open("/proc/self/statm"))
	local pages = file:read("*l"):match("^%d+ (%d+)")
	file:close()
	return tonumber(pages) * 4096
end

return peer
