# SPDX-License-Identifier: MIT
#
# Chez Scheme and Guile, whose continuations can be called many times.

CHEZ  ?= scheme
GUILE ?= guile

$(eval $(call offer,chez,clone,$(addprefix Chez Scheme ,$(shell $(CHEZ) --version 2>&1 \
	</dev/null | sed -n '1s/^[0-9.]*$$/&/p')),chezscheme))
$(eval $(call offer,guile,clone,$(shell $(GUILE) --version 2>/dev/null | sed 1q),guile-3.0))

$(P)/chez-clone: chez/chez.scm chez/clone.scm chez/peer.mk
	$(call script,exec $(CHEZ) --script '$(abspath $<)' \
		'$(abspath chez/clone.scm)' "$$@")

$(P)/guile-clone: chez/guile.scm chez/clone.scm chez/peer.mk
	$(call script,exec $(GUILE) --no-auto-compile -s '$(abspath $<)' \
		'$(abspath chez/clone.scm)' "$$@")
