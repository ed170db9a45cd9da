# SPDX-License-Identifier: MIT
#
# minicoro: coroutines in C with a stack each, one header. No distribution has a package
# of it; a crate for Rust has the header, and cargo fetches that.

CARGO ?= cargo

minicoro_flags   := -O3 -std=gnu11 -Wall -Wextra
minicoro_crate   := $(shell sed -n 's/^\(minicoro-sys\) = "=\(.*\)"/\1 \2/p' minicoro/Cargo.toml)
minicoro_version := $(shell $(CC) --version >/dev/null 2>&1 && $(CARGO) --version 2>/dev/null | \
	awk '{ split($$2, v, "."); if (v[1] > 1 || v[2] >= 85) print }')
minicoro_version += $(if $(minicoro_version),($(minicoro_crate)))

$(eval $(call offer,minicoro,pingpong create walk,$(minicoro_version),gcc and cargo-web \
	(1.85 or newer)))

minicoro_source := $(P)/minicoro-source

$(minicoro_source)/built: minicoro/Cargo.toml minicoro/Cargo.lock | $(call say,minicoro,pingpong)
	@mkdir -p $(@D)
	$(CARGO) vendor --quiet --locked --versioned-dirs --manifest-path minicoro/Cargo.toml \
		'$(minicoro_source)/crates' >/dev/null
	cp -f '$(minicoro_source)'/crates/minicoro-sys-*/minicoro.h $(@D)
	touch $@

$(P)/minicoro-%: minicoro/%.c minicoro/one.h c/tree.h c/peer.h $(minicoro_source)/built
	@mkdir -p $(@D)
	$(CC) $(minicoro_flags) -isystem '$(minicoro_source)' -o $@ $<
