/* SPDX-License-Identifier: MIT */
/*
 * addr.c: a fuzz target for unet_addr(): an address that was understood is written so
 * that it is understood again, as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "../../unet.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), again[UNET_TEXT_MAX];
	struct unet_addr a, b;

	CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (unet_addr(text, &a) == 0) {
		CHECK(a.a_size <= sizeof a.a_sockaddr);
		CHECK(unet_text(&a, again) == again && strlen(again) < UNET_TEXT_MAX);
		CHECK(unet_addr(again, &b) == 0 && b.a_size == a.a_size);
		CHECK(memcmp(&a.a_sockaddr, &b.a_sockaddr, a.a_size) == 0);
	}
	free(text);
	return 0;
}
