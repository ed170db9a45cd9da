# SPDX-License-Identifier: MIT
#
# Rust: tokio, futures on a minimal executor (rustmin), and the coroutines of corosensei and
# of generator-rs. cargo fetches the crates, in the versions of Cargo.lock, and builds one
# binary, which is each program by its name.

CARGO ?= cargo
RUSTC ?= rustc

# The oldest compiler that does is the rust-version of Cargo.toml. Debian's packages rustc
# and cargo are older.
rust_version := $(shell { $(CARGO) --version; $(RUSTC) --version; } 2>/dev/null | awk ' \
	{ split($$2, v, "."); good += v[1] > 1 || v[2] >= 85 } END { if (good == 2) print }')
rust_crate    = $(if $(rust_version),$(shell sed -n 's/^\($1\) = .*"=\([0-9.]*\)".*/\1 \2/p' \
	rust/Cargo.toml)$(comma) $(rust_version))
rust_packages := cargo-web and rustc-web (1.85 or newer)

$(eval $(call offer,tokio,cycle ring memory echo,$(call rust_crate,tokio),$(rust_packages),two minutes))
$(eval $(call offer,rustmin,cycle memory,$(rust_version),$(rust_packages)))
$(eval $(call offer,corosensei,counters pingpong create memory walk,$(call \
	rust_crate,corosensei),$(rust_packages)))
$(eval $(call offer,generator,counters pingpong create memory,$(call \
	rust_crate,generator),$(rust_packages)))

$(P)/rust/release/peers: $(wildcard rust/src/*.rs) rust/Cargo.toml rust/Cargo.lock | $(call say,tokio,cycle)
	@mkdir -p $(P)
	RUSTC='$(RUSTC)' $(CARGO) build --release --locked --manifest-path rust/Cargo.toml \
		--target-dir '$(P)/rust'
	touch $@

define rust_named
$(P)/$1-%: $(P)/rust/release/peers
	cp -f $$< $$@
endef
$(foreach system,tokio rustmin corosensei generator,$(eval $(call rust_named,$(system))))
