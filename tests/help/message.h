/* SPDX-License-Identifier: MIT */
/* message.h: messages, with a descriptor or an address. */
#ifndef USCHED_TEST_MESSAGE_H
#define USCHED_TEST_MESSAGE_H

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../unet.h"

union ancillary {
	struct cmsghdr a_head;
	char           a_room[CMSG_SPACE(sizeof(int))];
};

/* With `n' parts and, unless NULL, all of `a'. */
static inline struct msghdr message_of(struct iovec *iov, int n, union ancillary *a)
{
	struct msghdr m = { .msg_iov = iov, .msg_control = a ? a->a_room : NULL };

	m.msg_iovlen = (__typeof__(m.msg_iovlen))n;
	m.msg_controllen = a ? sizeof a->a_room : 0;
	return m;
}

/* As readv(2) and writev(2), by messages. */
static inline ssize_t read_vector(int fd, struct iovec *iov, int n, int64_t deadline)
{
	struct msghdr m = message_of(iov, n, NULL);

	return unet_recvmsg(fd, &m, 0, deadline);
}

static inline ssize_t write_vector(int fd, struct iovec *iov, int n, int64_t deadline)
{
	struct msghdr m = message_of(iov, n, NULL);

	return unet_sendmsg(fd, &m, 0, deadline);
}

/* As recvfrom(2) and sendto(2). */
static inline ssize_t receive_from(int fd, void *buffer, size_t size, int flags,
				   struct unet_addr *from, int64_t deadline)
{
	struct iovec iov = { buffer, size };
	struct msghdr m = message_of(&iov, 1, NULL);
	ssize_t n;

	m.msg_name = from ? &from->ad_sockaddr : NULL;
	m.msg_namelen = from ? sizeof from->ad_sockaddr : 0;
	n = unet_recvmsg(fd, &m, flags, deadline);
	if (from)
		from->ad_size = m.msg_namelen;
	return n;
}

static inline ssize_t send_to(int fd, const void *data, size_t size, int flags,
			      const struct unet_addr *to, int64_t deadline)
{
	struct iovec iov = { (void *)(uintptr_t)data, size };
	struct msghdr m = message_of(&iov, 1, NULL);

	m.msg_name = to ? (void *)(uintptr_t)&to->ad_sockaddr : NULL;
	m.msg_namelen = to ? to->ad_size : 0;
	return unet_sendmsg(fd, &m, flags, deadline);
}

/* Returns a datagram socket that is bound to `a', or an error. */
static inline int bind_datagrams(const struct unet_addr *a)
{
	int fd = socket(a->ad_sockaddr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a->ad_sockaddr, a->ad_size) == 0)
		return fd < 0 ? -errno : fd;
	rc = -errno;
	close(fd);
	return rc;
}

#endif /* USCHED_TEST_MESSAGE_H */
