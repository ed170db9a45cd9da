/* SPDX-License-Identifier: MIT */
/* A bug: a client takes what one read() returns for the whole message. */
#include "check.h"

static void *greet(void *arg)
{
	int fd = accept((int)(intptr_t)arg, NULL, NULL);

	CHECK(write(fd, "hello world", 11) == 11);
	close(fd);
	return NULL;
}

int main(void)
{
	pthread_t t = started(greet, (void *)(intptr_t)listener_at("10.0.0.1", 80));
	int fd = connected_to("10.0.0.1", 80);
	char text[11];

	CHECK(read(fd, text, sizeof text) == sizeof text);
	pthread_join(t, NULL);
	return 0;
}
