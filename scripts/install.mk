# SPDX-License-Identifier: MIT
#
# Manual pages, make install and make uninstall. Included by the Makefile at the top.

viewer  := $(wildcard tools/usched_view/*.py)

# Section 3 of the manual, from the comments in the headers.
man_page = @mkdir -p $(@D) && awk -f scripts/man.awk $< $(filter %.in,$^) >$@

$(B)/doc/%.3: %.h doc/%.3.in scripts/man.awk
	$(man_page)

$(B)/doc/usched-%.3: %.h doc/usched-%.3.in scripts/man.awk
	$(man_page)

$(B)/doc/%.3: debug/%.h doc/%.3.in scripts/man.awk
	$(man_page)

$(B)/doc/%.3: tls/%.h doc/%.3.in scripts/man.awk
	$(man_page)

$(B)/doc/%.3: sim/%.h doc/%.3.in scripts/man.awk
	$(man_page)

pages: $(pages)

# The other names in a manual page: each gets a link to the page.
aliases = awk '/^\.Sh/ { on = $$2 == "NAME" || $$2 == "SYNOPSIS" } \
	on && /^\.(Nm|Fn|Fo) [a-z]/ && !seen[$$2]++ { print $$2 }'
# for_aliases COMMAND: runs it with $$page, $$section and $$alias set.
for_aliases = for page in $(pages); do \
		names=$$($(aliases) $$page); \
		section=$${page\#\#*.} page=$${page\#\#*/}; \
		for alias in $$names; do \
			[ $$alias.$$section = $$page ] || $1 || exit 1; done; done

# Where gdb looks for what goes with a library, if $(datadir) is its own.
auto_load = $(datadir)/gdb/auto-load$(libdir)

folders = $(sort $(filter-out .,$(patsubst %/,%,$(dir $(headers)))))

# A directory, in the words of a file for pkg-config, which can be moved with its prefix.
in_prefix = $(patsubst $(prefix)/%,$${prefix}/%,$1)

install: $(libraries) $(made) locks $(pages)
	mkdir -p $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(libdir)/usched \
		$(DESTDIR)$(libdir)/cmake/usched \
		$(addprefix $(DESTDIR)$(includedir)/usched/,. $(folders)) \
		$(DESTDIR)$(mandir)/man1 $(DESTDIR)$(mandir)/man3 $(DESTDIR)$(mandir)/man7 \
		$(DESTDIR)$(bindir) $(DESTDIR)$(datadir)/usched/usched_view \
		$(DESTDIR)$(auto_load)
	install -m 644 $(libraries) $(DESTDIR)$(libdir)
	install -m 644 $(B)/ulocks.so $(DESTDIR)$(libdir)/usched
	for name in $(names); do \
		ln -sf $$name.so.$(version) $(DESTDIR)$(libdir)/$$name.so.$(abi) && \
		ln -sf $$name.so.$(abi) $(DESTDIR)$(libdir)/$$name.so && \
		sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(call in_prefix,$(libdir))|' \
			-e 's|@includedir@|$(call in_prefix,$(includedir))|' -e 's|@version@|$(version)|' \
			-e 's|@libs@|$(libs)|' -e "s|@name@|$${name#lib}|" \
			$$(case $$name in *-tls) echo tls/;; *-posix) echo posix/;; *) echo packaging/;; esac)usched.pc.in | \
			install -m 644 /dev/stdin $(DESTDIR)$(libdir)/pkgconfig/$${name#lib}.pc || \
			exit 1; done
	install -m 644 $(wildcard packaging/cmake/*) $(DESTDIR)$(libdir)/cmake/usched
	for header in $(headers) $(made); do \
		install -m 644 $$header $(DESTDIR)$(includedir)/usched/$${header#$(B)/} || exit 1; done
	sed 's|^DATA = .*|DATA = "$(datadir)/usched"|' tools/uthreads | \
		install -m 755 /dev/stdin $(DESTDIR)$(bindir)/uthreads
	$(install_run)
	install -m 644 $(viewer) $(DESTDIR)$(datadir)/usched/usched_view
	install -m 644 tools/usched-gdb.py $(DESTDIR)$(datadir)/usched
	for name in $(filter-out %-tls %-posix,$(names)); do \
		ln -sf $(datadir)/usched/usched-gdb.py \
			$(DESTDIR)$(auto_load)/$$name.so.$(version)-gdb.py || exit 1; done
	for page in $(pages); do \
		install -m 644 $$page $(DESTDIR)$(mandir)/man$${page##*.} || exit 1; done
	$(call for_aliases,ln -sf $$page $(DESTDIR)$(mandir)/man$$section/$$alias.$$section)

uninstall: $(pages)
	rm -f $(addprefix $(DESTDIR)$(libdir)/,$(notdir $(libraries)) \
		$(names:%=%.so.$(abi)) $(names:%=%.so) \
		$(names:lib%=pkgconfig/%.pc) usched/ulocks.so \
		$(patsubst packaging/cmake/%,cmake/usched/%,$(wildcard packaging/cmake/*)))
	rm -f $(addprefix $(DESTDIR)$(includedir)/usched/,$(headers) $(made:$(B)/%=%))
	$(call for_aliases,rm -f $(DESTDIR)$(mandir)/man$$section/$$alias.$$section)
	rm -f $(foreach page,$(notdir $(pages)),$(DESTDIR)$(mandir)/man$(subst .,,$(suffix $(page)))/$(page))
	rm -f $(DESTDIR)$(bindir)/uthreads $(run:%=$(DESTDIR)$(bindir)/%) $(DESTDIR)$(datadir)/usched/usched-gdb.py \
		$(viewer:tools/%=$(DESTDIR)$(datadir)/usched/%) \
		$(names:%=$(DESTDIR)$(auto_load)/%.so.$(version)-gdb.py)
	for directory in usched/usched_view usched; do \
		if [ -d $(DESTDIR)$(datadir)/$$directory ]; then \
			rmdir $(DESTDIR)$(datadir)/$$directory || exit 1; fi; done
	for folder in $(folders); do \
		if [ -d $(DESTDIR)$(includedir)/usched/$$folder ]; then \
			rmdir $(DESTDIR)$(includedir)/usched/$$folder || exit 1; fi; done
	for directory in $(libdir) $(libdir)/cmake $(includedir); do \
		if [ -d $(DESTDIR)$$directory/usched ]; then \
			rmdir $(DESTDIR)$$directory/usched || exit 1; fi; done
