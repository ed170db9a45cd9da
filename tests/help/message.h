/* SPDX-License-Identifier: MIT */
/* message.h: messages with a descriptor. */
#ifndef USCHED_TEST_MESSAGE_H
#define USCHED_TEST_MESSAGE_H

#include <sys/socket.h>
#include <sys/uio.h>

union ancillary {
	struct cmsghdr a_head;
	char           a_room[CMSG_SPACE(sizeof(int))];
};

/* With `n' parts and all of `a'. */
static inline struct msghdr message_of(struct iovec *iov, int n, union ancillary *a)
{
	struct msghdr m = { .msg_iov = iov, .msg_control = a->a_room };

	m.msg_iovlen = (__typeof__(m.msg_iovlen))n;
	m.msg_controllen = sizeof a->a_room;
	return m;
}

#endif /* USCHED_TEST_MESSAGE_H */
