# SPDX-License-Identifier: MIT
#
# tests.mk: the test programs, $(B)/tests/test_NAME of tests/MODULE/test_NAME.c, and what
# they are linked with: helpers of tests/, and calls that they replace.

sources := $(wildcard tests/*/test_*.c)
tests   := $(addprefix $(B)/tests/,$(notdir $(basename $(sources))))

# Their calls can be made to fail.
faults := $(filter $(B)/tests/test_fault%,$(tests))
$(faults): $(B)/tests/help/fault.o $(B)/tests/help/sweep.o
# ThreadSanitizer makes some of these calls before it can look at what calls do.
$(B)/tests/help/fault.o: c_flags += -fno-sanitize=thread
$(faults): wrapped := $(shell sed -nE 's/^(WRAP.[^,]*, |(CALL|TRANSFER).)([a-z0-9_]+),.*/\3/p' \
	tests/help/fault.c)

# Modules that some tests share.
tests_of = $(foreach test,$1,$(B)/tests/test_$(test))
$(call tests_of,tokens wake join deadlock lifetime conf guard rr ll overflow segv preempt inspect_live trim stall alone): \
	$(B)/tests/help/procs.o
$(call tests_of,overflow segv control preempt): $(B)/tests/help/child.o
$(call tests_of,preempt preempt_step): $(B)/tests/help/vectors.o
$(call tests_of,usched evict dispatch switch float errno preempt_step): $(B)/tests/help/plain.o
$(call tests_of,torture): $(B)/tests/help/torture.o $(B)/tests/help/torture_libc.o
$(call tests_of,signal): $(B)/tests/help/flood.o

$(call tests_of,ulinear): $(B)/sim/ulinear.o $(B)/sim/ulinear_models.o

$(B)/tests/test_locks: $(B)/debug/ulocks.o $(B)/tests/help/child.o $(B)/tests/help/procs.o

$(B)/tests/test_dispatch: wrapped := usched__go

$(B)/tests/test_offload: wrapped := pthread_create

$(B)/tests/test_offload_file: wrapped := getaddrinfo

# By which a native thread sleeps until descriptors are ready.
sleeps := poll epoll_wait syscall

$(B)/tests/test_close: wrapped := read close $(sleeps)
$(B)/tests/test_close_step: wrapped := send sendmsg accept4 $(sleeps) nanosleep \
	sched_yield pthread_mutex_lock pthread_cond_wait

$(B)/tests/test_net_limits $(B)/sim/tests/test_net_limits: wrapped := accept4
$(B)/tests/test_net_line $(B)/sim/tests/test_net_line: wrapped := send
$(B)/tests/test_net_wait $(B)/sim/tests/test_net_wait: wrapped := poll

$(B)/tests/test_eintr: wrapped := read write readv writev recv send recvmsg sendmsg \
	accept4 connect close $(sleeps) nanosleep sigtimedwait preadv2

$(B)/tests/test_overflow: wrapped := dladdr

# What several programs share.
$(filter $(B)/tests/test_sync_%,$(tests)): $(B)/tests/help/sync.o $(B)/tests/help/place.o
$(filter $(B)/tests/test_embed%,$(tests)): $(B)/tests/help/embed.o
$(call tests_of,report inspect): \
	$(B)/tests/help/sync.o $(B)/tests/help/report.o
nets   := $(filter $(B)/tests/test_net_%,$(tests))
pools  := $(filter $(B)/tests/test_offload%,$(tests))
closes := $(filter $(B)/tests/test_close%,$(tests))
$(nets) $(pools) $(closes) $(call tests_of,ubuf uco uco_inline): $(B)/tests/help/net.o
$(nets): $(B)/tests/help/netop.o
$(pools): $(B)/tests/help/pool.o
$(B)/tests/test_close_step: $(B)/tests/help/stop.o

# Their dispatcher is compiled in.
directions := $(filter $(B)/tests/test_direction%,$(tests))
$(filter-out $(directions),$(tests)): $(B)/tests/help/over.o $(library)

$(foreach test,$(sources),$(eval $(B)/tests/$(basename $(notdir $(test))): $(test:%.c=$(B)/%.o)))
# test.c skips a program where the machine has no native threads.
all_wrapped = $(sort pthread_create $(wrapped))
$(tests): $(B)/tests/help/test.o
	$(link) $(all_wrapped:%=-Wl,--wrap=%) -lcmocka -lm -ldl -lrt $(libs)

# Those that run over sim, too, compiled for that: tests/scripts/over_sim.sh has their names.
over_sim := $(addprefix $(B)/sim/tests/,$(shell sed -n 's/^\(test_[a-z_]*\) [0-9].*/\1/p' \
	tests/scripts/over_sim.sh))

over-sim: $(over_sim)

$(foreach test,$(sources),$(eval $(B)/sim/tests/$(basename $(notdir $(test))): \
	$(test:%.c=$(B)/sim/%.o)))
$(filter $(B)/sim/tests/test_sync_%,$(over_sim)): $(B)/sim/tests/help/sync.o $(B)/sim/tests/help/place.o
$(filter $(B)/sim/tests/test_net_% %test_ubuf %test_uco,$(over_sim)): \
	$(B)/sim/tests/help/net.o $(B)/sim/tests/help/netop.o
$(filter %test_join %test_lifetime %test_tokens %test_wake,$(over_sim)): \
	$(B)/sim/tests/help/procs.o
$(over_sim): $(B)/sim/tests/help/test.o $(B)/sim/tests/help/over.o $(sim)
	$(link) $(wrapped:%=-Wl,--wrap=%) $(B)/libusched-sim.so -Wl,-rpath,'$$ORIGIN/../..' \
		-lcmocka -lm $(libs)
