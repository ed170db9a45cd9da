# SPDX-License-Identifier: MIT
#
# The compiler leaves its files beside the sources, so the sources are copied.
# -O3 is for compilers with flambda; others ignore it.

OCAMLFIND ?= ocamlfind
ocaml_flags := -O3 -unsafe -inline 200
ocaml_lwt   := $(shell $(OCAMLFIND) query -format '%v' lwt 2>/dev/null)
ocaml_text  := $(if $(ocaml_lwt),OCaml $(shell $(OCAMLFIND) ocamlopt -version)$(comma) Lwt $(ocaml_lwt))

$(eval $(call offer,ocaml,ring memory,$(ocaml_text),ocaml-nox ocaml-findlib liblwt-ocaml-dev))

$(P)/ocaml-%: ocaml/%.ml ocaml/peer.ml ocaml/stubs.c ocaml/peer.mk
	@mkdir -p $(P)/ocaml/$*
	cp $(filter %.ml %.c,$^) $(P)/ocaml/$*
	cd $(P)/ocaml/$* && $(OCAMLFIND) ocamlopt $(ocaml_flags) -package lwt -linkpkg \
		-o $@ stubs.c peer.ml $*.ml
