# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
program='xz 5.4.1'
bug='CVE-2025-31115: a block is freed that the other thread still fills'
bad='xz-utils 5.4.1'
good='xz-utils 5.8.1'
mode=-fsanitize=thread
arguments=damaged

build() {
	s=$source/src/liblzma
	object -DMYTHREAD_POSIX -DTUKLIB_SYMBOL_PREFIX=lzma_ -DHAVE_STDBOOL_H -DHAVE_STDINT_H \
		-DHAVE_INTTYPES_H -DHAVE__BOOL -DHAVE_ENCODERS -DHAVE_DECODERS -DNDEBUG \
		-DHAVE_ENCODER_LZMA1 -DHAVE_ENCODER_LZMA2 -DHAVE_DECODER_LZMA1 \
		-DHAVE_DECODER_LZMA2 -DHAVE_CHECK_CRC32 -DHAVE_MF_HC3 -DHAVE_MF_HC4 \
		$(find "$s" "$source/src/common" -type d ! -path '*/api/lzma' | sed 's/^/-I/') \
		$(find $s/common $s/lz $s/lzma $s/rangecoder $s/check -name '*.c' \
			! -name '*tablegen*' ! -name '*_gen.c' ! -name '*_small.c' ! -name 'sha256.c' ! -name 'hardware*' \
			! -name 'crc*_x86*') \
		"$here/xz.c"
}
