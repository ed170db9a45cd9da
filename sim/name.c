/* SPDX-License-Identifier: MIT */
/*
 * name.c: addresses of sockets, and names of hosts. A host may have one address. All
 * other addresses belong to threads on no host.
 */
#include "world.h"

#include <arpa/inet.h>
#include <netdb.h>

enum {
	NAMES    = 4096,                /* lists of bound sockets */
	PORT_LOW = 32768,               /* lowest port that is chosen for a socket */
	PORTS    = 28232,               /* number of such ports, as on Linux */
	LISTED   = 64,                  /* the most hosts of --hosts */
};

/* Bound sockets, in list a_port % NAMES. */
static LIST_HEAD(, sim_open) lists[NAMES];
static unsigned next_port;              /* number of ports chosen so far */

/* Hosts of --hosts; a name that is NULL ends them. */
static struct listed { const char *name, *address; } listed[LISTED + 1];

/* ---- Addresses ---- */

/* Returns whether an address is of IPv4. */
static bool is_four(const struct sim_address *a)
{
	return !strchr(a->a_text, ':');
}

static bool is_any(const struct sim_address *a)
{
	return strcmp(a->a_text, "0.0.0.0") == 0 || strcmp(a->a_text, "::") == 0;
}

static bool is_text(const struct sim_address *a, const struct sim_address *b)
{
	return a->a_size == b->a_size && memcmp(a->a_text, b->a_text, a->a_size) == 0;
}

static void set_text(struct sim_address *a, const char *text)
{
	a->a_size = (socklen_t)strlen(text);
	memcpy(a->a_text, text, a->a_size + 1);
}

static int take_path(const struct sockaddr_un *un, socklen_t size, bool to_send,
		     struct sim_address *a)
{
	int file;

	a->a_size = size - (socklen_t)offsetof(struct sockaddr_un, sun_path);
	if (a->a_size == 0 || a->a_size >= sizeof a->a_text)
		return -EINVAL;
	memcpy(a->a_text, un->sun_path, a->a_size);
	if (!a->a_text[0])
		return 0;
	a->a_size = (socklen_t)strlen(a->a_text) + 1;
	file = sim__socket_file(a->a_text, !to_send);
	a->a_port = (in_port_t)file;
	return file < 0 ? file : 0;
}

int sim__take_address(const struct sim_open *o, const void *from, socklen_t size,
		      bool to_send, struct sim_address *a)
{
	const struct sockaddr_in *in = from;    /* sockaddr_in6 has the same members up
						   to the port */
	char text[sizeof a->a_text];

	*a = (struct sim_address){ .a_family = sim__is_far(o) ? AF_INET : AF_UNIX };
	if (!from || size < sizeof in->sin_family)
		return -EINVAL;
	if (in->sin_family != o->f_family)
		return -EAFNOSUPPORT;
	if (o->f_family == AF_UNIX)
		return take_path(from, size, to_send, a);
	if (getnameinfo(from, size, text, sizeof text, NULL, 0, NI_NUMERICHOST))
		return -EINVAL;
	set_text(a, strncmp(text, "::ffff:", 7) ? text : text + 7);
	a->a_port = in->sin_port;
	if (to_send && is_any(a))
		set_text(a, is_four(a) ? "127.0.0.1" : "::1");
	return 0;
}

int sim__give_address(const struct sim_open *o, const struct sim_address *a, void *to,
		      socklen_t *size)
{
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} u = { .un.sun_family = (sa_family_t)o->f_family };
	socklen_t all = sizeof u.in6;
	char text[sizeof a->a_text + 7];

	if (!to || !size)
		return 0;
	if (sim__is_far(o))
		u.in.sin_port = a->a_port;
	snprintf(text, sizeof text, "%s%s", is_four(a) ? "::ffff:" : "", a->a_text);
	if (o->f_family == AF_UNIX) {
		memcpy(u.un.sun_path, a->a_text, a->a_size);
		all = (socklen_t)offsetof(struct sockaddr_un, sun_path) + a->a_size;
	} else if (o->f_family == AF_INET) {
		inet_pton(AF_INET, a->a_text, &u.in.sin_addr);
		all = sizeof u.in;
	} else {
		inet_pton(AF_INET6, text, &u.in6.sin6_addr);
	}
	memcpy(to, &u, *size < all ? *size : all);
	*size = all;
	return 0;
}

/* Returns whether `o' is bound to address `a', or to a wildcard that includes `a'. */
static bool covers(const struct sim_open *o, const struct sim_address *a)
{
	if (a->a_family == AF_UNIX || !is_any(&o->f_local))
		return (a->a_family == AF_UNIX && a->a_port) || is_text(&o->f_local, a);
	return o->f_family == AF_INET ? is_four(a) : !o->f_only6 || !is_four(a);
}

struct sim_host *sim__host_at(const struct sim_open *o, const struct sim_address *to)
{
	bool own = to->a_family == AF_UNIX || strcmp(to->a_text, "::1") == 0
		|| (is_four(to) && strncmp(to->a_text, "127.", 4) == 0);

	return own ? o->f_host : sim__find_host(to->a_text);
}

/* ---- Names ---- */

/* Returns whether `o' is on the machine of `host', and has the family and port of address
   `a', and the kind of `other'. */
static bool is_alike(const struct sim_open *o, const struct sim_open *other,
		     const struct sim_address *a, struct sim_host *host)
{
	return o->f_kind == other->f_kind && o->f_local.a_family == a->a_family
		&& o->f_local.a_port == a->a_port
		&& sim__machine(o->f_host) == sim__machine(host);
}

/*
 * Returns how well `o' fits as the receiver of a packet or connection from `sender', with
 * address `from', to address `to'. 0: not at all; 1: `o' is bound to the wildcard
 * address; 2: `o' is bound to address `to'; 3: `o' is connected to address `from'.
 */
static int fit(const struct sim_open *o, const struct sim_open *sender,
	       const struct sim_address *to, const struct sim_address *from)
{
	if (!is_alike(o, sender, to, sim__host_at(sender, to))
	    || (o->f_kind == SOCK_STREAM && o->f_state != SIM_LISTENS) || !covers(o, to))
		return 0;
	if (o->f_state == SIM_CONNECTED && sim__is_far(o))
		return o->f_remote.a_port == from->a_port && is_text(&o->f_remote, from)
			? 3 : 0;
	return is_any(&o->f_local) ? 1 : 2;
}

struct sim_open *sim__socket_at(const struct sim_open *sender,
				const struct sim_address *to,
				const struct sim_address *from)
{
	struct sim_open *o, *found = NULL;
	int best = 0, now, equal = 0;

	LIST_FOREACH(o, &lists[to->a_port % NAMES], f_of_name)
		if ((now = fit(o, sender, to, from)) > 0 && now >= best) {
			equal = now == best ? equal + 1 : 1;
			best = now;
			if ((from ? ntohs(from->a_port) : 0) % equal == 0)
				found = o;
		}
	return found;
}

/* Returns whether another socket of the host has the address of `o', and does not share
   that, or whether one is a wildcard that includes the other. */
static bool is_taken(const struct sim_open *o)
{
	const struct sim_open *other;

	LIST_FOREACH(other, &lists[o->f_local.a_port % NAMES], f_of_name)
		if (is_alike(other, o, &o->f_local, o->f_host)
		    && (covers(other, &o->f_local) || covers(o, &other->f_local))
		    && !(o->f_shares && other->f_shares))
			return true;
	return false;
}

int sim__enter_name(struct sim_open *o, const struct sim_address *a)
{
	bool chooses = !a || (a->a_family != AF_UNIX && a->a_port == 0);
	int tries = chooses ? PORTS : 1;

	o->f_local = a ? *a : (struct sim_address){ .a_family = AF_INET };
	if (!a)
		set_text(&o->f_local, o->f_family == AF_INET ? "0.0.0.0" : "::");
	do
		if (chooses)
			o->f_local.a_port = htons((in_port_t)(PORT_LOW
							      + next_port++ % PORTS));
	while (is_taken(o) && --tries > 0);
	if (tries == 0) {
		o->f_local = (struct sim_address){ 0 };
		return -EADDRINUSE;
	}
	LIST_INSERT_HEAD(&lists[o->f_local.a_port % NAMES], o, f_of_name);
	o->f_bound = true;
	o->f_chosen = chooses && o->f_kind == SOCK_DGRAM;
	return 0;
}

bool sim__is_served(const struct sim_host *host)
{
	const struct sim_open *o;
	bool is_served = false;

	for (size_t i = 0; i < NAMES; i++)
		LIST_FOREACH(o, &lists[i], f_of_name) {
			if (o->f_host != host)
				continue;
			if (o->f_kind == SOCK_STREAM && o->f_state == SIM_NEW)
				return false;
			is_served |= o->f_state <= SIM_LISTENS && !o->f_chosen;
		}
	return is_served;
}

/* Returns the source address of what `o' sends to address `to'. */
static struct sim_address sender(const struct sim_open *o, const struct sim_address *to)
{
	const struct sim_host *host = o->f_host;
	struct sim_address a = o->f_local;

	if (a.a_size > 0 && !is_any(&a))
		return a;
	a.a_family = AF_INET;
	if (sim__host_at(o, to) == host)
		set_text(&a, to->a_text);
	else                            /* RFC 5737: for documentation */
		set_text(&a, host && host->h_address ? host->h_address : "192.0.2.1");
	return a;
}

int sim__name_for(struct sim_open *o, const struct sim_address *to,
		  struct sim_address *own)
{
	int rc = 0;

	*own = sender(o, to);
	if (!o->f_bound) {
		rc = sim__enter_name(o, own);
		*own = o->f_local;
	} else if (o->f_kind == SOCK_STREAM) {
		o->f_local = *own;
	}
	return rc;
}

/* ---- Names of hosts ---- */

bool sim__list_hosts(const char *list)
{
	char *rest = strdup(list), *name, *address;
	unsigned char to[sizeof(struct in6_addr)];

	for (size_t i = 0; (address = strsep(&rest, ",")); i++) {
		name = strsep(&address, "=");
		if (i == LISTED || !*name || !address
		    || (inet_pton(AF_INET, address, to) != 1
			&& inet_pton(AF_INET6, address, to) != 1))
			return false;
		listed[i] = (struct listed){ name, address };
	}
	return true;
}

/* Returns the address of a host as text, or, if there is no such host, the name. */
static const char *text_of(const char *name, int family)
{
	const struct sim_host *h = sim__find_host(name);

	if (strcmp(name, "localhost") == 0)
		return family == AF_INET ? "127.0.0.1" : "::1";
	for (size_t i = 0; !h && listed[i].name; i++)
		if (strcmp(listed[i].name, name) == 0)
			return listed[i].address;
	return h && h->h_address ? h->h_address : name;
}

/* Calls libc's function for each family by itself, with a numeric address. Then libc does
   not ask for interfaces of the system, and sorts no results. */
REPLACE(int, getaddrinfo, (const char *name, const char *service,
			   const struct addrinfo *hints, struct addrinfo **found))
{
	struct addrinfo h = hints ? *hints : (struct addrinfo){ .ai_family = AF_UNSPEC };
	const int wanted = h.ai_family, families[] = { AF_INET6, AF_INET };
	bool is_text = !name || h.ai_flags & AI_NUMERICHOST;
	struct addrinfo **last = found;
	int rc = EAI_NONAME, bad;

	h.ai_flags = (h.ai_flags & (AI_PASSIVE | AI_CANONNAME)) | AI_NUMERICHOST
		| AI_NUMERICSERV;
	*found = NULL;
	for (int i = 0; i < 2; i++) {
		h.ai_family = families[i];
		if (wanted != AF_UNSPEC && wanted != families[i])
			continue;
		bad = real_getaddrinfo(is_text ? name : text_of(name, families[i]),
				       service, &h, last);
		while (*last)
			last = &(*last)->ai_next;
		rc = *found ? 0 : bad;
	}
	return rc == EAI_ADDRFAMILY ? EAI_NONAME : rc;
}
