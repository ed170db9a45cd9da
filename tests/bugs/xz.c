/* SPDX-License-Identifier: MIT */
/*
 * Decodes five blocks, in small pieces, with two threads; with an argument the second
 * block is damaged. Fails if the bytes that were read are not those that the decoder says
 * it has read.
 */
#include <lzma.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 5, BYTES = 100, PIECE = 60 };

static uint8_t text[BYTES], file[8192], out[BLOCKS * BYTES];

/* Returns the bytes of the file that it makes; the second block begins at *second. */
static size_t encode(size_t *second)
{
	lzma_options_lzma lzma;
	lzma_filter filters[] = { { LZMA_FILTER_LZMA2, &lzma },
				  { LZMA_VLI_UNKNOWN, NULL } };
	lzma_stream_flags flags = { .check = LZMA_CHECK_CRC32 };
	lzma_index *index = lzma_index_init(NULL);
	size_t size = LZMA_STREAM_HEADER_SIZE, random = 1;

	for (int i = 0; i < BYTES; i++)
		text[i] = (uint8_t)(i < 40 ? (random = random * 75 % 65537) : 'a');
	lzma_lzma_preset(&lzma, 0);
	lzma.dict_size = 4096;
	lzma_stream_header_encode(&flags, file);
	for (int i = 0; i < BLOCKS; i++) {
		lzma_block block = { .check = LZMA_CHECK_CRC32, .filters = filters };

		if (i == 1)
			*second = size;
		if (lzma_block_buffer_encode(&block, NULL, text, BYTES, file, &size,
					     sizeof file))
			return 0;
		lzma_index_append(index, NULL, lzma_block_unpadded_size(&block), BYTES);
	}
	flags.backward_size = lzma_index_size(index);
	if (lzma_index_buffer_encode(index, file, &size, sizeof file))
		return 0;
	lzma_stream_footer_encode(&flags, file + size);
	lzma_index_end(index, NULL);
	return size + LZMA_STREAM_HEADER_SIZE;
}

int main(int argc, char **argv)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_mt how = { .threads = 2, .memlimit_threading = UINT64_MAX,
			.memlimit_stop = UINT64_MAX };
	size_t second, left = encode(&second);
	uint64_t in, all;
	lzma_ret result;

	(void)argv;
	if (left == 0)
		return 2;
	if (argc > 1)		/* Headers of blocks are checked by their own sums. */
		for (size_t i = second + 24; i < second + 40; i++)
			file[i] ^= 0x55;
	if (lzma_stream_decoder_mt(&stream, &how))
		return 2;
	stream.next_in = file;
	stream.next_out = out;
	stream.avail_out = sizeof out;
	do {
		size_t piece = left < PIECE ? left : PIECE;

		stream.avail_in += piece;
		left -= piece;
		result = lzma_code(&stream, left ? LZMA_RUN : LZMA_FINISH);
	} while (result == LZMA_OK);
	lzma_get_progress(&stream, &in, &all);
	if (argc == 1 && (result != LZMA_STREAM_END || in != stream.total_in)) {
		printf("result %d, %ju bytes read, %ju told\n", result,
		       (uintmax_t)stream.total_in, (uintmax_t)in);
		return 1;
	}
	lzma_end(&stream);
	return 0;
}
