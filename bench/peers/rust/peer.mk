# SPDX-License-Identifier: MIT
#
# Rust: tokio and async-std, futures on a minimal executor (min), and the coroutines of
# corosensei and of generator-rs. cargo fetches the crates, in the versions of Cargo.lock.

CARGO ?= cargo
RUSTC ?= rustc

# The servers are named as those of other systems: tokio-echo.
rust_servers  := echo-tokio requests-tokio
rust_programs := $(filter-out $(rust_servers),\
	$(sort $(patsubst rust/src/bin/%.rs,%,$(wildcard rust/src/bin/*.rs))))
rust_sources  := $(wildcard rust/src/*.rs rust/src/bin/*.rs) rust/Cargo.toml rust/Cargo.lock

# The oldest compiler that does is the rust-version of Cargo.toml. Debian's packages rustc
# and cargo are older.
rust_version := $(shell { $(CARGO) --version; $(RUSTC) --version; } 2>/dev/null | awk ' \
	{ split($$2, v, "."); good += v[1] > 1 || v[2] >= 85 } END { if (good == 2) print }')
rust_crates  := $(shell sed -n '/^libc/d; s/^\([a-z-]*\) = .*"=\([0-9.]*\)".*/\1 \2/p' \
	rust/Cargo.toml | paste -sd, | sed 's/,/, /g')
rust_version += $(if $(rust_version),($(rust_crates)))

$(eval $(call offer,rust,$(rust_programs),$(rust_version),cargo-web and rustc-web (1.85 or newer),three minutes))
$(eval $(call offer,tokio,echo requests,$(rust_version),cargo-web and rustc-web \
	(1.85 or newer)))

# One run of cargo builds all.
$(P)/rust-target/built: $(rust_sources) | $(call say,rust,$(rust_programs))
	@mkdir -p $(@D)
	RUSTC='$(RUSTC)' $(CARGO) build --release --locked --manifest-path rust/Cargo.toml \
		--target-dir '$(P)/rust-target'
	touch $@

$(rust_programs:%=$(P)/rust-%): $(P)/rust-%: $(P)/rust-target/built
	cp -f $(P)/rust-target/release/$* $@

$(P)/tokio-%: $(P)/rust-target/built
	cp -f $(P)/rust-target/release/$*-tokio $@
