# SPDX-License-Identifier: MIT
#
# libusched-sim, by which programs are run so that a seed decides all: the library, and
# posix/, built for a simulation, and what is in sim/. The Makefile includes this.

# A call of one exported function by another is inlined by clang, unless it may be replaced:
# then it returns to the program, and would be a step.
sim_flags := -DUSCHED_SIM $(posix_flags) \
	-fsemantic-interposition
sim       := $(B)/libusched-sim.so.$(version)
sim_names  = $(shell sed -n '/^[PW][LO][AR][IL][ND][()]/s/[()A-Z]/ /gp' posix/uposix_sim_names.h)
sim_parts := $(filter-out tests/%,$(modules)) $(basename $(wildcard sim/*.c)) posix/uposix_load \
	$(patsubst $(B)/%.o,%,$(posix_parts))

ifeq ($(SIM),1)
headers   += sim/sim.h sim/ulinear.h
libraries += $(sim)
names     += libusched-sim
else
pages     := $(filter-out $(B)/doc/sim.3 $(B)/doc/ulinear.3,$(pages))
endif

sim: $(sim)

# In the second each access to memory of usync.h is a step, too: tests/scripts/planted.sh.
# PLANTED is a directory with copies of some of its sources, where it is put then.
traced     := $(filter src/sync/%,$(modules)) src/net/usync_select
planted    := $(if $(PLANTED),$(basename $(wildcard $(PLANTED)/*.c)))
traced_sim := $(or $(PLANTED),$(B)/sim/traced)/$(notdir $(sim))

traced-sim: $(traced_sim)

$(traced_sim): $(patsubst %,$(B)/sim/%.lo,$(filter-out $(traced),$(sim_parts)) \
	$(patsubst %,traced/%,$(filter-out $(addprefix %/,$(notdir $(planted))),$(traced)))) $(planted:%=%.lo)

$(planted:%=%.lo): %.lo: %.c $(B)/flags
	$(compile) $(c_flags) $(sim_flags) -fsanitize=thread -iquote src/sync -iquote src/net -fPIC -c -o $@ $<

$(sim): $(sim_parts:%=$(B)/sim/%.lo)
$(sim_parts:%=$(B)/sim/%.lo): $(posix_define)

$(sim) $(traced_sim): $(B)/sim/posix/$(machine).lo $(switch:%=$(B)/%.lo)
	$(link) -shared -Wl,-soname,$(@F:.so.$(version)=.so.$(abi)) -Wl,-z,nodelete,-z,now \
		$(posix_names:%=-Wl,--wrap=%) $(sim_names:%=-Wl,--wrap=%) -ldl $(libs)
	ln -sf $(@F) $(@D)/libusched-sim.so.$(abi)
	ln -sf $(@F) $(@D)/libusched-sim.so

$(B)/sim/%.lo: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) $(sim_flags) -fPIC -c -o $@ $<

$(B)/sim/traced/%.lo: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) $(sim_flags) -fsanitize=thread -fPIC -c -o $@ $<

$(B)/sim/%.lo: %.S $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(sim_flags) -c -o $@ $<

# Programs of POSIX threads that are run in it: tests/scripts/sim.sh.
sim_servers := kv httpd proxy chat
sim_tests := $(patsubst tests/sim/%.c,$(B)/sim_%,$(filter-out tests/sim/test_%,$(wildcard tests/sim/*.c)))

sim-tests: $(filter-out $(sim_servers:%=$(B)/sim_%),$(sim_tests))
sim-servers: $(sim_servers:%=$(B)/sim_%)

$(sim_tests:$(B)/sim_%=$(B)/tests/sim/%.o): c_flags += -I.

$(sim_tests): $(B)/sim_%: $(B)/tests/sim/%.o $(sim)
	$(link) $(filter %/sim_server_$*.so,$^) $(B)/libusched-sim.so -Wl,-rpath,'$$ORIGIN' $(libs)

# Servers of examples/, as they are, each an object of its own with its variables.
sim_kv    := 06-kv
sim_httpd := 05-httpd
sim_proxy := 07-proxy
sim_chat  := 09-chat

$(foreach s,$(sim_servers),$(eval $(B)/sim_$s: $(B)/sim_server_$s.so))

$(B)/sim_server_%.so: examples/*.[ch] $(sim)
	$(compile) $(c_flags) -DUSCHED_DEBUG -I. -Dmain=server_main -Dexit=server_exit \
		-Dunet_listen=server_listen -Wno-missing-prototypes -fPIC -shared \
		-Wl,-soname,$(@F) -o $@ examples/$(sim_$*).c \
		$(call part,$(filter $(sim_$*):%,$(needy)),3)

$(B)/sim/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(compile) $(c_flags) -DUSCHED_SIM -c -o $@ $<
