# SPDX-License-Identifier: MIT
#
# Executables are images of the whole system, some 40 MB each.

SBCL ?= sbcl

$(eval $(call offer,lisp,alternate memory,$(shell $(SBCL) --version 2>/dev/null),sbcl))

$(P)/lisp-%: lisp/%.lisp lisp/task.lisp lisp/peer.mk
	@mkdir -p $(P)/lisp
	$(SBCL) --dynamic-space-size 4GB --noinform --no-sysinit --no-userinit \
		--disable-debugger --eval '(require :sb-posix)' \
		--eval '(load (compile-file "$(abspath lisp/task.lisp)" :output-file "$(P)/lisp/$*-task.fasl"))' \
		--eval '(load (compile-file "$(abspath $<)" :output-file "$(P)/lisp/$*.fasl"))' \
		--eval '(sb-ext:save-lisp-and-die "$@" :executable t :save-runtime-options t :toplevel (lambda () (run (function main))))' \
		>$(P)/lisp/$*.log 2>&1 || { cat $(P)/lisp/$*.log >&2; exit 1; }
