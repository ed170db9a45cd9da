/* SPDX-License-Identifier: MIT */
/*
 * unet_resolve.c: looks names up, by getaddrinfo() on a native thread of the pool. The
 * job has the names, and room for the addresses that are found.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* getaddrinfo() */
#endif
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "../../unet.h"
#include "../base/check.h"
#include "offload.h"

enum { ADDRESS_MAX = 64 };              /* the most addresses of one lookup */

struct lookup {
	int              lu_type;
	int              lu_rc;         /* the result of getaddrinfo() */
	size_t           lu_max;
	size_t           lu_found;
	struct unet_addr lu_addresses[ADDRESS_MAX];
	size_t           lu_service;    /* offset of the service in lu_names */
	char             lu_names[];    /* host and service */
};

static void look_up(void *data)
{
	struct lookup *l = (struct lookup *)data;
	struct addrinfo hints = { .ai_socktype = l->lu_type }, *list = NULL;

	l->lu_rc = getaddrinfo(l->lu_names, l->lu_names + l->lu_service, &hints, &list);
	if (l->lu_rc)
		return;
	for (struct addrinfo *a = list; a && l->lu_found < l->lu_max; a = a->ai_next) {
		struct unet_addr *to = &l->lu_addresses[l->lu_found];

		if (a->ai_addrlen > sizeof to->ad_sockaddr)
			continue;
		memset(to, 0, sizeof *to);
		memcpy(&to->ad_sockaddr, a->ai_addr, a->ai_addrlen);
		to->ad_size = a->ai_addrlen;
		l->lu_found++;
	}
	freeaddrinfo(list);
}

static int lookup_error(int rc)
{
	switch (rc) {
	case EAI_NONAME:
	case EAI_SERVICE:
#ifdef EAI_NODATA
	case EAI_NODATA:
#endif
		return -ENOENT;
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_MEMORY:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

int unet_resolve(const char *host, const char *service, int type, struct unet_addr *found,
		 size_t max, int64_t deadline)
{
	size_t host_size = strlen(host) + 1, service_size = strlen(service) + 1;
	size_t size = sizeof(struct lookup) + host_size + service_size;
	struct job *job = uoffload__new_job(OFFLOAD_NAMES, look_up, NULL, size);
	struct lookup *l;
	int rc;

	check(host, CHECK_BUFFER, __func__);
	check(service, CHECK_BUFFER, __func__);
	check(max ? found : NULL, CHECK_BUFFER, __func__);
	if (!job)
		return -ENOMEM;
	l = (struct lookup *)(void *)job->j_data;
	memset(l, 0, sizeof *l);
	l->lu_type = type;
	l->lu_max = max < ADDRESS_MAX ? max : ADDRESS_MAX;
	l->lu_service = host_size;
	memcpy(l->lu_names, host, host_size);
	memcpy(l->lu_names + host_size, service, service_size);
	rc = offload_run(job, deadline);
	if (rc)
		return rc;
	rc = l->lu_rc ? lookup_error(l->lu_rc) : (int)l->lu_found;
	if (rc > 0)
		memcpy(found, l->lu_addresses, l->lu_found * sizeof *found);
	free(job);
	return rc;
}
