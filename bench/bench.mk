# SPDX-License-Identifier: MIT
#
# The programs of the benchmarks, and make bench. Included by the Makefile at the top.

programs := $(B)/rmain $(B)/rmain.1t $(B)/rmain.readme $(B)/lmain $(B)/lmain.setjmp
workloads := ring counters pingpong create alternate memory
programs += $(foreach over,rr ll direct,$(workloads:%=$(B)/bench/%-$(over)))
coroutines := pingpong create walk
single   := coroutine uneven channel load chat-load
programs += $(coroutines:%=$(B)/bench/%-co) $(B)/bench/measure
programs += $(single:%=$(B)/bench/%)

programs: $(programs)

$(B)/rmain: $(B)/rmain.o $(library)
	$(link) $(libs)

$(B)/lmain: $(B)/lmain.o $(library)
	$(link) $(libs)

# The same over the portable switch, whatever SWITCH is.
$(B)/lmain.setjmp: $(patsubst %,$(B)/%.o,lmain $(modules) arch/setjmp)
	$(link) $(libs) -lm

$(B)/rmain.1t: $(patsubst %,$(B)/1t/%.o,rmain $(filter-out ll,$(core))) $(switch:%=$(B)/%.o)
	$(link) $(libs)

# With the library compiled in by README's command line, not by CFLAGS.
readme = $(shell sed -n 's/^cc \(.*\/usched-all\.c .*\) -o server$$/\1/p' README.md)
$(B)/rmain.readme: $(B)/rmain.o $(one) README.md
	$(CC) -I. $(patsubst server.c,rmain.c,$(readme:build/%=$(B)/%)) \
		$(patsubst %,%.c,$(filter tests/%,$(core))) $(filter -m%,$(CFLAGS)) \
		$(LDFLAGS) -o $@ $(libs)

# Each workload over rr, ll and the dispatcher alone; see bench/thread.h.
define over
$(B)/bench/%-$(1): bench/%.c $(library) $(B)/flags
	@mkdir -p $$(@D)
	$$(compile) $$(c_flags) -D$(2) $$(LDFLAGS) -o $$@ $$< $$(filter %.o,$$^) $$(libs)
endef
$(eval $(call over,rr,BENCH_RR))
$(eval $(call over,ll,BENCH_LL))
$(eval $(call over,direct,BENCH_DIRECT))

$(B)/bench/uneven: libs += -lm

# One workload of it each, with the arguments of the workload.
$(coroutines:%=$(B)/bench/%-co): $(B)/bench/%-co: bench/coroutine.c $(static) $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -DWORKLOAD=$* $(LDFLAGS) -o $@ $< $(static) $(libs)

$(B)/bench/measure: $(B)/bench/measure.o $(B)/bench/measure_many.o $(static)
	$(link) $(static) $(libs)

$(single:%=$(B)/bench/%): $(B)/bench/%: bench/%.c $(static) $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) $(LDFLAGS) -o $@ $< $(static) $(libs)

bench: export WORKLOAD := $(WORKLOAD)
bench: export FULL := $(FULL)
bench: export DIR := $(DIR)
bench:
	@CC=$(call quote,$(CC)) scripts/install.sh bench
	+@$(MAKE) -s --no-print-directory programs $(if $(WORKLOAD),examples)
	@B=$(call quote,$(B)) scripts/report.sh

peers:
	+@$(MAKE) --no-print-directory -C bench/peers B=$(call quote,$(abspath $(B)))
