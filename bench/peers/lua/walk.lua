-- SPDX-License-Identifier: MIT
-- The walk workload with a coroutine, which walks by recursion.

local peer = dofile((arg[0]:match("^.*/") or "") .. "peer.lua")
local yield = coroutine.yield

local nodes = peer.arguments("NODES", 1)
local grown = 0

local function grow(n)
	if n == 0 then
		return nil
	end
	local below = (n - 1 - (n - 1) % 2) / 2
	local node = { left = grow(below) }
	node.value = grown
	grown = grown + 1
	node.right = grow(n - 1 - below)
	return node
end

local function walk(node)
	if node.left then
		walk(node.left)
	end
	yield(node.value)
	if node.right then
		walk(node.right)
	end
end

local function add_up(node)
	return node and add_up(node.left) + node.value + add_up(node.right) or 0
end

local tree = grow(nodes)
add_up(tree)
local start, sum = peer.clock(), 0
for value in coroutine.wrap(function() walk(tree) end) do
	sum = sum + value
end
peer.print(peer.clock() - start, sum)
