# SPDX-License-Identifier: MIT
#
# They need base only. The runtime's options are fixed here: the command line is for the
# programs.

GHC ?= ghc
ghc := $(shell $(GHC) --numeric-version 2>/dev/null)
ghc_flags  := -v0 -Wall -O2 -rtsopts=ignoreAll
ghc_memory := -with-rtsopts='-c -ki512'

$(eval $(call offer,haskell,ring memory,$(ghc:%=GHC %),ghc))

$(P)/haskell-ring: haskell/Ring.hs haskell/Peer.hs haskell/peer.mk
	@mkdir -p $(P)/haskell/ring
	$(GHC) $(ghc_flags) -ihaskell -outputdir $(P)/haskell/ring -o $@ $<

$(P)/haskell-memory: haskell/Memory.hs haskell/Peer.hs haskell/peer.mk
	@mkdir -p $(P)/haskell/memory
	$(GHC) $(ghc_flags) $(ghc_memory) -ihaskell -outputdir $(P)/haskell/memory -o $@ $<
