# SPDX-License-Identifier: MIT
#
# Chez Scheme and Guile, whose continuations can be called many times.

CHEZ  ?= scheme
GUILE ?= guile

$(eval $(call offer,chez,clone,$(addprefix Chez Scheme ,$(shell $(CHEZ) --version 2>&1 \
	</dev/null | sed -n '1s/^[0-9.]*$$/&/p')),chezscheme))
$(eval $(call offer,guile,clone,$(shell $(GUILE) --version 2>/dev/null | sed 1q),guile-3.0))

$(P)/chez-clone: scheme/chez.scm scheme/clone.scm scheme/peer.mk
	$(call script,exec $(CHEZ) --script '$(abspath $<)' \
		'$(abspath scheme/clone.scm)' "$$@")

$(P)/guile-clone: scheme/guile.scm scheme/clone.scm scheme/peer.mk
	$(call script,exec $(GUILE) --no-auto-compile -s '$(abspath $<)' \
		'$(abspath scheme/clone.scm)' "$$@")
