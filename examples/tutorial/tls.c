/* SPDX-License-Identifier: MIT */
/*
 * Echo over TLS: step three of doc/tutorial.md. Run it with an address, a certificate and
 * its key.
 */
#include <stdio.h>

#include "rr.h"
#include "tls/utls.h"
#include "unet.h"

static struct utls_context *context;

static int64_t in_a_minute(void)
{
	return usync_after(60 * USYNC_SECOND);
}

static int echo_all(struct utls *session)
{
	char buffer[1024];
	ssize_t n;
	int rc = utls_handshake(session, in_a_minute());

	while (rc == 0 && (n = utls_read(session, buffer, sizeof buffer, in_a_minute())))
		rc = n < 0 ? (int)n : utls_write_all(session, buffer, (size_t)n, NULL,
						     in_a_minute());
	return rc ? rc : utls_shutdown(session, in_a_minute());
}

static void echo(int fd, void *unused)
{
	struct utls *session;
	int rc = utls_create(context, fd, NULL, &session);

	(void)unused;
	if (rc == 0) {
		rc = echo_all(session);
		if (rc)
			fprintf(stderr, "tls: %s %s\n", ustack_error(rc),
				utls_error(session));
		utls_free(session);
	}
	unet_close(fd);
}

int main(int argc, char **argv)
{
	struct utls_certificate certificate;
	struct utls_conf conf = { .f_certificates = &certificate, .f_count = 1 };
	struct ustack_how how = { .h_serve = echo };
	struct unet_addr address;
	struct uprocs *rr;
	const char *why;
	int listener;

	if (argc != 4 || unet_addr(argv[1], &address))
		return fprintf(stderr, "usage: tls ADDRESS:PORT CHAIN KEY\n"), 2;
	certificate = (struct utls_certificate){ argv[2], argv[3] };
	if (utls_context_create(&conf, &context, &why))
		return fprintf(stderr, "tls: %s\n", why), 1;
	listener = unet_listen(&address, 0, 0);
	if (listener < 0)
		return fprintf(stderr, "tls: %s\n", ustack_error(listener)), 1;
	if (rr_create(NULL, &rr))
		return fprintf(stderr, "tls: no scheduler\n"), 1;
	while ((how.h_fd = unet_accept(listener, NULL, USCHED_NEVER)) >= 0)
		if (rr_start_with(rr, &how, NULL, NULL, NULL))
			unet_close(how.h_fd);   /* no memory for one more */
	return 1;
}
