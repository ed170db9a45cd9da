#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What is in the shared library and in the object of the switch, as it was built in $B:
# its name and marks that the system goes by, and names that programs could come to depend on.
#
#   B          the build directory; default build
#   READELF    default readelf
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

READELF=${READELF:-readelf}

need "$READELF"
[ -f "$B/flags" ] || die "nothing in $B: run make programs first"
version=$(version)
switch=$(sed -n 's/^SWITCH=//p' "$B/flags")
shared=$B/libusched.so.$version
object=$B/arch/$switch.o

# Stacks must not be executable: one object without the mark would make all so.
for file in "$shared" "$B/rmain" "$B/rmain.1t" "$B/lmain"; do
	flags=$("$READELF" -lW "$file" | awk '$1 == "GNU_STACK" { print $7 }')
	[ "$flags" = RW ] || fail "$file: GNU_STACK is '$flags', not RW"
done

if "$READELF" -dW "$shared" | grep TEXTREL; then
	fail "$shared has text relocations"
fi

# Until 1.0.0 a new minor version is another ABI. It stays loaded, as it has destructors of
# pthread keys, and is bound when it is loaded, as Debian would have it.
case $version in
0.*) abi=${version%.*} ;;
*)   abi=${version%%.*} ;;
esac
for name in libusched libusched-check; do
	"$READELF" -dW "$B/$name.so.$version" >"$dir/dynamic"
	for mark in "SONAME.*\[$name\.so\.$abi\]" '(FLAGS_1).* NOW\( \|$\)' \
		'(FLAGS_1).* NODELETE\( \|$\)'; do
		grep -q "$mark" "$dir/dynamic" || fail "$name: not $mark: $(cat "$dir/dynamic")"
	done
done

# Shadow stacks cannot be copied, so nothing of ours may claim to work with them.
for file in "$object" "$shared"; do
	if "$READELF" -nW "$file" | grep -E 'SHSTK|GCS'; then
		fail "$file is marked for shadow stacks"
	fi
done

case $switch in
x86_64)  marks='IBT' ;;
aarch64) marks='BTI PAC' ;;
*)       marks= ;;
esac
for mark in $marks; do
	"$READELF" -nW "$object" | grep -q "$mark" || fail "$object is not marked $mark"
done

# Unwinders and debuggers find their way through every function.
if [ "$switch" != setjmp ]; then
	functions=$("$READELF" -sW "$object" | awk '$4 == "FUNC"' | wc -l)
	described=$("$READELF" -wf "$object" 2>/dev/null | grep -c ' FDE ')
	if [ "$functions" -eq 0 ] || [ "$described" -ne "$functions" ]; then
		fail "$object: $functions functions, and CFI for $described"
	fi
fi

exports() {
	"$READELF" --dyn-syms -W "$1" | awk '
	$5 != "LOCAL" && $6 == "DEFAULT" && $7 != "UND" && NF >= 8 {
		sub(/@.*/, "", $8)
		print $8
	}' | sort
}

# What was built with one of the libraries runs with the other.
exported=$(exports "$shared")
[ "$exported" = "$(exports "$B/libusched-check.so.$version")" ] ||
	fail "libusched-check exports other names than libusched"
for symbol in $exported; do
	case $symbol in
	usched__* | usched_[a-z]* | ustack_[a-z]*) ;;
	uevents_[a-z]* | uwait_[a-z]* | usync_[a-z]* | unet_[a-z]* | ubuf_[a-z]*) ;;
	uoffload | uoffload_[a-z]* | ufile_[a-z]* | uoverflow_* | uinspect_* | ustall_install) ;;
	upreempt) ;;
	uco_[a-z]* | uco__[a-z]*) ;;
	# For posix/:
	*__forked | uevents__hold | uevents__*own | upreempt__hold | upreempt__report) ;;
	unet__adopt_fd | unet__connect | unet__hold | unet__let_go | unet__is_shut) ;;
	unet__renewed | unet__doubt) ;;
	usync__key_of | usync__mutex_try | uoffload__apart | uwait__uncancel) ;;
	uproc__*_block | uproc__*_blocks | uproc__blocks_forked | uproc__destroy_variables) ;;
	uproc__look_at_loads | uproc__on_native | uproc__end_forked | uproc__lists) ;;
	uimage_[a-z]* | uproc_[a-z]* | uprocs_[a-z]* | rr_[a-z]* | ll_[a-z]* | ll_group) ;;
	*) fail "$shared exports $symbol" ;;
	esac
done
if ! echo "$exported" | grep -q '^ustack_block$'; then
	fail "$shared does not export ustack_block"
fi

conclude "$shared and $object, $(echo "$exported" | wc -l) names exported"
