# SPDX-License-Identifier: MIT
#
# The same programs, run by Lua and by LuaJIT.

LUA    ?= lua5.4
LUAJIT ?= luajit
lua_programs := ring counters pingpong create memory

$(eval $(call offer,lua,$(lua_programs),$(shell $(LUA) -v 2>/dev/null),lua5.4))
$(eval $(call offer,luajit,$(lua_programs),$(shell $(LUAJIT) -v 2>/dev/null),luajit))

$(P)/lua-%: lua/threads.lua lua/peer.mk
	$(call script,exec $(LUA) '$(abspath $<)' $* "$$@")

$(P)/luajit-%: lua/threads.lua lua/peer.mk
	$(call script,exec $(LUAJIT) '$(abspath $<)' $* "$$@")
