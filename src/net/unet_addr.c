/* SPDX-License-Identifier: MIT */
/* unet_addr.c: addresses from text, and text from addresses. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "../../unet.h"

#include "../base/check.h"

static int parse_port(const char *text, in_port_t *port)
{
	unsigned n = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		n = n * 10 + (unsigned)(*text - '0');
		if (n > 65535)
			return -EINVAL;
	}
	*port = htons((in_port_t)n);
	return 0;
}

static int unix_addr(struct unet_addr *a, const char *text)
{
	struct sockaddr_un *un = (struct sockaddr_un *)(void *)&a->a_sockaddr;
	size_t size = strlen(text);

	if (size >= sizeof un->sun_path)
		return -ENAMETOOLONG;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, text, size);
	if (text[0] == '@')
		un->sun_path[0] = '\0';
	else
		size++;
	a->a_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
	return 0;
}

int unet_addr(const char *text, struct unet_addr *a)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&a->a_sockaddr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&a->a_sockaddr;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	in_port_t port;
	size_t size;

	check(a, BUFFER, __func__);
	memset(a, 0, sizeof *a);
	if (text[0] == '/' || (text[0] == '@' && text[1]))
		return unix_addr(a, text);
	if (!colon || (size_t)(colon - text) >= sizeof host
	    || parse_port(colon + 1, &port))
		return -EINVAL;
	size = (size_t)(colon - text);
	memcpy(host, text, size);
	host[size] = '\0';
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = port;
		a->a_size = sizeof *in;
		return 0;
	}
	if (size == 0 || strcmp(host, "*") == 0)
		in6->sin6_addr = in6addr_any;
	else if (size < 2 || host[0] != '[' || host[size - 1] != ']')
		return -EINVAL;
	else if (host[size - 1] = '\0',
		 inet_pton(AF_INET6, host + 1, &in6->sin6_addr) != 1)
		return -EINVAL;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = port;
	a->a_size = sizeof *in6;
	return 0;
}

char *unet_text(const struct unet_addr *a, char *text)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a->a_sockaddr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->a_sockaddr;
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->a_sockaddr;
	char host[INET6_ADDRSTRLEN];
	int size;

	check(a, BUFFER, __func__);
	check(text, BUFFER, __func__);
	switch (a->a_sockaddr.ss_family) {
	case AF_INET:
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		snprintf(text, UNET_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		snprintf(text, UNET_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
		break;
	case AF_UNIX:
		size = (int)(a->a_size - offsetof(struct sockaddr_un, sun_path));
		if (size > 0 && !un->sun_path[0])
			snprintf(text, UNET_TEXT_MAX, "@%.*s", size - 1,
				 un->sun_path + 1);
		else
			snprintf(text, UNET_TEXT_MAX, "%.*s", size < 0 ? 0 : size,
				 un->sun_path);
		break;
	default:
		snprintf(text, UNET_TEXT_MAX, "?");
	}
	return text;
}
