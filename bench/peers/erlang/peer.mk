# SPDX-License-Identifier: MIT
#
# The scripts start one scheduler: no program has work for two. Messages are kept off the
# heaps of their receivers, which makes the ring faster by a twentieth. The limit of
# processes is an option of the start. The runtime has tables for all possible
# descriptors, so their limit is lowered.

ERL  ?= erl
ERLC ?= erlc
erl := $(ERL) +S 1:1 +hmqd off_heap -boot no_dot_erlang -noinput
erl_tell    := io:format("Erlang/OTP ~s (~s)", [erlang:system_info(I) || I <- [otp_release, emu_flavor]]), halt().
erl_version := $(if $(shell command -v $(ERLC) 2>/dev/null),$(shell $(erl) -eval '$(erl_tell)' 2>/dev/null))

$(eval $(call offer,erlang,ring memory memory-hibernate,$(erl_version),erlang-base))

# erl_script FUNCTION,FLAGS: makes the target a script that calls FUNCTION.
erl_script = ulimit -S -n 1024 2>/dev/null; ERL_CRASH_DUMP_SECONDS=0 exec $(erl) $2 -pa '$(P)/erlang' -s $1 -extra "$$@"

erl_processes = case $$1 in (''|0*|*[!0-9]*|?????????*) n=262144;; (*) n=$$(($$1 + 1024));; esac;

$(P)/erlang-ring: $(P)/erlang/bench_ring.beam
	$(call script,$(call erl_script,bench_ring start))

$(P)/erlang-memory: $(P)/erlang/bench_memory.beam
	$(call script,$(erl_processes) $(call erl_script,bench_memory receiving,+P $$n))

$(P)/erlang-memory-hibernate: $(P)/erlang/bench_memory.beam
	$(call script,$(erl_processes) $(call erl_script,bench_memory hibernating,+P $$n))

$(P)/erlang-ring $(P)/erlang-memory $(P)/erlang-memory-hibernate: \
	$(P)/erlang/bench_peer.beam erlang/peer.mk

$(P)/erlang/%.beam: erlang/%.erl | $(call say,erlang,ring)
	@mkdir -p $(@D)
	$(ERLC) -W -o $(@D) $<
