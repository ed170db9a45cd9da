/* SPDX-License-Identifier: MIT */
/* utls_set.h: what sessions get from contexts. Not installed. */
#ifndef USCHED_TLS_SET_H
#define USCHED_TLS_SET_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

#include "utls.h"

/*
 * The result of one load of a context. A set is constant. The context holds the latest
 * set; a session holds the set that was the latest when the session began.
 */
struct utls_set {
	uint32_t       e_holds;         /* atomic */
	unsigned       e_flags;
	BIO_METHOD    *e_method;        /* for the BIOs of sessions */
	unsigned char *e_alpn;          /* the list in the form of the protocol; or
					   NULL */
	unsigned       e_alpn_size;
	size_t         e_count;         /* at least 1 */
	SSL_CTX       *e_contexts[];    /* a context for each certificate */
};

struct utls_set *utls__hold_set(struct utls_context *k);
void utls__release_set(struct utls_set *e);

/*
 * Returns the BIO method of sessions, which utls.c defines, or NULL if there is no
 * memory.
 */
BIO_METHOD *utls__method(void);

#endif /* USCHED_TLS_SET_H */
