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
		CHECK(a.ad_size <= sizeof a.ad_sockaddr);
		CHECK(unet_text(&a, again) == again && strlen(again) < UNET_TEXT_MAX);
		CHECK(unet_addr(again, &b) == 0 && b.ad_size == a.ad_size);
		CHECK(memcmp(&a.ad_sockaddr, &b.ad_sockaddr, a.ad_size) == 0);
	}
	free(text);
	return 0;
}
