/* SPDX-License-Identifier: MIT */
/*
 * uco.c: coroutines.
 *
 * THE IDEA. The dispatcher knows frames by the record that describes them: where their
 * top is, on which stack they are, which image they have. A coroutine is a second record
 * that describes frames, c_frames, and no more of it is ever used. To resume is to
 * exchange what the two records describe: afterwards the thread's record describes the
 * frames of the coroutine, and c_frames those of the resumer, which are suspended. To
 * yield is to exchange them again. It is one operation, exchange_frames() in usched.c.
 *
 *	                  thread T     c_frames of A    of B
 *	                  frames of T  A                B
 *	T resumes A       A            T                B
 *	A resumes B       B            T                A
 *	B yields          A            T                B
 *	A yields          T            A                B
 *
 * So the running thread is T throughout: s_current does not change. All that is its
 * identity stays in its record: its function, tokens, attachment, that it was cancelled.
 * Whatever blocks inside blocks T: a wait saves its registers in the record of T, as
 * ever, and that describes the innermost frames. The scheduler, timers, queues of locks
 * and reports see nothing of coroutines.
 *
 * FRAMES. R1 to R7 of usched.c hold for records. Each side has its own stack, or a place
 * on a shared one: a stack's k_resident is the record that describes what is there, and
 * changes with the rest. When the next frames need the place of others they evict them.
 *
 * For R4 the image of a record must have room for the frames that it describes. u_deep is
 * how deep these may be, and what suspends is compared with it. So one statement will do
 * where both sides are in place (uswitch.h): images stay with their records, that of the
 * coroutine is compared for the side that it gets, and that of the thread when it blocks.
 * If the first is too small, or the next side is new or elsewhere, the long way is gone,
 * usched__exchange(): it makes room in the thread's record, and exchanges images with the
 * frames. That can fail, with nothing changed. A side on a stack that is not shared needs
 * no image, but the other may: so threads that exchange frames have images there, too
 * (USCHED_EXCHANGES).
 *
 * A coroutine belongs to the dispatcher of the thread that made it, since its frames are
 * on a stack of that. Stacks of coroutines, and those of threads that make one, are
 * marked in k_stays, so that their threads stay, too.
 *
 * THE CHAIN. The waiter of a thread that has run a coroutine has a struct uco_root: its
 * r_inside is the innermost coroutine, and each has c_outer. So uco_yield() needs no
 * argument, and a thread that is aborted finds what is left of its chain: uco__abandon().
 * The dispatcher's s_root is that of the thread that resumed last. When none runs,
 * r_inside keeps the last one, so the next resume of that stores nothing here, and the
 * processor need not wait for such a store to find its way back. A coroutine is r_inside
 * of one root only, c_root, and leaves it when it is freed. While it is suspended,
 * c_outer is NULL.
 *
 * THE END. When the function of a coroutine returns, body() gives the frames back: the
 * last exchange, after which the record's frames are dropped. uco_close() resumes with
 * c_closing set, and yields fail then, so frames always end by returning. To drop them
 * was rejected: what they own would be lost.
 *
 * CLONES. A clonable coroutine is always on a shared stack, and a clone is a record with
 * the same addresses and an image of its own. It is loaded as others are, in the place
 * of the one that it is a copy of. So nothing in the frames of this file and usched.c may
 * be the coroutine's for longer than to its next yield. What a coroutine has taken from
 * its thread, locks and scopes, the check build knows: private/uco_held.inc.
 *
 * After a yield nothing is known of the thread, which may be another one: it is looked up
 * again, and so is the coroutine. The statement brings its address along.
 *
 * Exceptions of C++ that are being handled stay with their side (usched__exchange()).
 * Floating point control words are the thread's, as is errno.
 */
#include "uco.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "arch/arch.h"
#include "private/check.h"

/* For uwait.c. */
__attribute__((visibility("hidden")))
void uco__abandon(struct uco_root *root, struct ustack *u);

static int  create(struct uco **co, uco_fn *func, void *arg, uint32_t kind);
static bool is_foreign(const struct ustack *u);
static struct uco_root *root_of(const struct ustack *u);
static struct uco_root *new_root(struct ustack *u);
static void enter(struct uco_root *root, struct uco *co);
static void push(struct uco *outer, struct uco *co);
static int  refuse(const struct uco *co, const struct usched *s);
static void forget(struct uco *co);
static void forget_held(const struct uco *co);
static void refuse_held(const struct uco *co);
static void body(void *frames);

/* For r_inside: the thread has run no coroutine, or it was closed. Never changed. */
static const struct uco nothing = { .c_status = UCO_ENDED };

extern inline int uco__error(int rc, void **result);
extern inline struct uco *uco__of(struct ustack *frames);
extern inline int uco_resume(struct uco *co, void *value, void **result);
extern inline int uco_yield(void *value, void **next);

int uco_create(struct uco **co, uco_fn *func, void *arg)
{
	return create(co, func, arg, 0);
}

int uco_create_clonable(struct uco **co, uco_fn *func, void *arg)
{
	return create(co, func, arg, ARCH_CLONABLE);
}

static int create(struct uco **co, uco_fn *func, void *arg, uint32_t kind)
{
	struct ustack *u = ustack_self();
	struct usched *s;
	struct uco *new;

	if (!u || is_foreign(u))
		return -EPERM;
	if (!func)
		return -EINVAL;
	s = ustack_sched(u);
	new = malloc(offsetof(struct uco, c_frames.u_image) + s->s_room);
	if (!new)
		return -ENOMEM;
	new->c_outer = NULL;
	new->c_root = NULL;
	new->c_stack = &s->s_new;               /* so that its first switches are long */
	new->c_func = func;
	new->c_arg = arg;
	new->c_status = UCO_NEW;
	new->c_closing = 0;
	ustack_init(s, &new->c_frames, body, NULL);
	new->c_frames.u_tokens = ARCH_COROUTINE;
	new->c_frames.u_mail = kind;
	usched__join_frames();
	*co = new;
	return 0;
}

int uco_clone(struct uco *co, struct uco **clone)
{
	int rc = refuse(co, usched__here());
	struct uco *new = NULL;

	if (rc)
		return rc;
	if (!(co->c_frames.u_mail & ARCH_CLONABLE))
		return -ENOTSUP;
	refuse_held(co);
	rc = uco_create_clonable(&new, co->c_func, co->c_arg);
	if (rc == 0 && co->c_status == UCO_SUSPENDED) {
		rc = usched__copy_frames(&new->c_frames, &co->c_frames);
		new->c_status = UCO_SUSPENDED;
		new->c_stack = co->c_stack;
	}
	if (rc == 0)
		*clone = new;
	else
		free(new);
	return rc;
}

struct uco *uco_self(void)
{
	const struct uco_root *root = root_of(ustack_self());

	return root && root->r_inside->c_status == UCO_RUNNING ? root->r_inside : NULL;
}

/* Its attachment is no waiter. */
static bool is_foreign(const struct ustack *u)
{
	return u->u_attached && u->u_attachment->a_ops != &uwait__ops;
}

static struct uco_root *root_of(const struct ustack *u)
{
	const struct uwaiter *w;

	if (!u || !u->u_attached || is_foreign(u))
		return NULL;
	w = (const struct uwaiter *)(const void *)u->u_attachment;
	return w->w_more ? w->w_more->m_root : NULL;
}

enum uco_status uco_status(const struct uco *co)
{
	return (enum uco_status)co->c_status;
}

int uco_close(struct uco *co)
{
	int rc;

	if (co->c_status == UCO_RUNNING || co->c_status == UCO_RESUMING)
		return -EBUSY;
	if (co->c_status == UCO_SUSPENDED) {
		co->c_closing = 1;
		rc = uco_resume(co, NULL, NULL);
		if (rc < 0) {
			co->c_closing = 0;
			return rc;
		}
	}
	forget(co);
	forget_held(co);
	free(co);
	return 0;
}

/* Makes `co', which is to be resumed, the innermost one of this thread. */
int uco__enter(struct uco *co)
{
	struct usched *s = usched__here();
	struct uco_root *root;
	int rc = refuse(co, s);

	check(&co->c_value, OBJECT, "uco_resume()");
	if (rc)
		return rc;
	root = root_of(s->s_current);
	if (!root)
		root = new_root(s->s_current);
	if (!root)
		return -ENOMEM;
	s->s_root = root;
	if (root->r_inside != co)
		enter(root, co);
	return 0;
}

static struct uco_root *new_root(struct ustack *u)
{
	struct uwaiter *w = uwait_self();
	struct uco_root *root;

	if (!w || (!w->w_more && !uwait_room(w, 0)))
		return NULL;
	root = malloc(sizeof *root);
	if (!root)
		return NULL;
	*root = (struct uco_root){ u, (struct uco *)&nothing, NULL };
	w->w_more->m_root = root;
	usched__join_frames();
	return root;
}

static void enter(struct uco_root *root, struct uco *co)
{
	struct uco *outer = root->r_inside;

	forget(co);                             /* it was another thread's last */
	if (outer->c_status == UCO_RUNNING) {
		push(outer, co);
	} else {
		forget(outer);
		co->c_root = root;
		root->r_inside = co;
		root->r_stack = ((const struct ustack *)root->r_thread)->u_stack;
	}
}

/* `outer', which runs, has resumed `co'. */
static void push(struct uco *outer, struct uco *co)
{
	outer->c_status = UCO_RESUMING;
	co->c_outer = outer;
	co->c_root = outer->c_root;
	outer->c_root = NULL;
	co->c_root->r_inside = co;
	co->c_root->r_stack = outer->c_stack;
}

/* And `outer' goes on. */
void uco__pop(struct uco *co)
{
	struct uco *outer = co->c_outer;

	outer->c_status = UCO_RUNNING;
	outer->c_root = co->c_root;
	co->c_outer = NULL;
	co->c_root = NULL;
	outer->c_root->r_inside = outer;
	outer->c_root->r_stack = outer->c_frames.u_stack;
}

/* It runs no more, and is the r_inside of no thread. */
static void forget(struct uco *co)
{
	if (!co->c_root)
		return;
	co->c_root->r_inside = (struct uco *)&nothing;
	co->c_root = NULL;
}

/* Its yield has failed, after uco__pop() or without. */
void uco__stay(struct uco *co)
{
	if (!co->c_root)
		push(usched__here()->s_root->r_inside, co);
	co->c_status = UCO_RUNNING;
}

/* It was not resumed. */
void uco__refused(struct uco *co)
{
	bool begun = co->c_frames.u_stack != &ustack_sched(&co->c_frames)->s_new;

	co->c_status = begun ? UCO_SUSPENDED : UCO_NEW;
	if (co->c_outer)
		uco__pop(co);
}

static int refuse(const struct uco *co, const struct usched *s)
{
	if (!s->s_current || is_foreign(s->s_current))
		return -EPERM;
	if (ustack_sched(&co->c_frames) != s)
		return -EXDEV;
	if (co->c_status == UCO_ENDED)
		return -ESRCH;
	return co->c_status == UCO_NEW || co->c_status == UCO_SUSPENDED ? 0 : -EBUSY;
}

/* Makes the root of this thread the latest, if it runs a coroutine. */
int uco__find(void)
{
	struct usched *s = usched__here();
	struct uco_root *root = root_of(s->s_current);

	if (!root || root->r_inside->c_status != UCO_RUNNING)
		return -EPERM;
	s->s_root = root;
	return root->r_inside->c_closing ? -ECANCELED : 0;
}

/* The first function on the frames of a coroutine, and the last. */
static void body(void *frames)
{
	struct uco *co = uco__of(frames);
	void *value;

	co->c_stack = usched__here()->s_current->u_stack;
	value = co->c_func(co->c_arg, co->c_value);
	co = uco_self();                        /* a clone, perhaps */
	co->c_value = value;
	co->c_status = UCO_ENDED;
	if (co->c_outer)
		uco__pop(co);
	usched__leave_frames(&co->c_frames);
}

/*
 * The thread `u' has ended inside of coroutines, or beside them: its record has the
 * frames of the innermost, which are dropped as ever, and each coroutine of the chain
 * those of its resumer.
 */
void uco__abandon(struct uco_root *root, struct ustack *u)
{
	struct uco *co = root->r_inside, *outer;
	struct usched *s = ustack_sched(u);

	if (s->s_root == root)
		usched__forget_root(s);
	forget(co);
	if (co->c_status != UCO_RUNNING)
		co = NULL;
	for (; co; co = outer) {
		outer = co->c_outer;
		co->c_outer = NULL;
		co->c_status = UCO_ENDED;
		usched__drop_frames(&co->c_frames, u);
	}
	free(root);
}

#if defined(USCHED_CHECK) || defined(USCHED_STRESS)
#include "private/uco_held.inc"
#else
static void forget_held(const struct uco *co)
{
	(void)co;
}

static void refuse_held(const struct uco *co)
{
	(void)co;
}
#endif
