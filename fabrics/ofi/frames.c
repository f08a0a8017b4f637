/* libfabric's tcp provider trusts what arrives: an acknowledgement of nothing, or a
 * message of a kind that no endpoint here is open for, is a null pointer to it (1.17
 * tcpx_handle_ack and tcpx_op_tagged; 2.5 xnet_handle_ack), and the process is gone.
 * So the functions by which it receives are this file's, and they end a connection
 * that says anything but what a peer of ours or of the SDK says: writes into one
 * region towards a target, and acknowledgements of what was sent towards an
 * initiator (MXL Fabrics reference §10.2). Payload is only counted, never looked at.
 *
 * A connection belongs to the thread that drives its endpoint; the table's entries
 * change hands with the descriptor. */
#define _GNU_SOURCE
#include "frames.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	HELLO = 32,       /* handshake message, before its data */
	HELLO_DATA = 256, /* more of it would be taken for frames by libfabric */
	BASE = 16,        /* header of a frame */
	REGION = 24,
	VERSION = 3,
	OP_MSG = 0,
	OP_WRITE = 4,
	ACK = 2,
	HAS_DATA = 1,
	UNUSED = 2,
	DELIVERY_COMPLETE = 4,
};

static uint16_t get16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static uint64_t get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }

void frames_begin(struct frames_connection *c, int active)
{
	memset(c, 0, sizeof(*c));
	c->in.want = c->out.want = HELLO;
	c->active = active != 0;
}

static void next_frame(struct frames_stream *s)
{
	s->have = 0;
	s->want = BASE;
}

/* The header of what an initiator may send, as far as it is there. */
static const char *check_write(const uint8_t *h, uint8_t have)
{
	uint16_t flags = get16(h + 2);
	uint64_t size = get64(h + 8), address, length;
	uint8_t header = h[6];

	if (h[1] != OP_WRITE)
		return "what is no write";
	if (flags & ~(HAS_DATA | UNUSED | DELIVERY_COMPLETE))
		return "a write with unknown flags";
	if (h[5] != 1)
		return "a write into other than one region";
	if (header != BASE + REGION + (flags & HAS_DATA ? 8 : 0) || size < header)
		return "a write of impossible size";
	if (have < header)
		return NULL;
	address = get64(h + header - REGION);
	length = get64(h + header - REGION + 8);
	if (length != size - header || address + length < address)
		return "a write whose region is not its payload";
	return NULL;
}

static const char *check_ack(struct frames_connection *c, const uint8_t *h)
{
	if (h[1] != OP_MSG || h[4] != ACK || h[6] != BASE || get64(h + 8) != BASE)
		return "what is no acknowledgement";
	if (!c->unacknowledged)
		return "an acknowledgement of nothing";
	c->unacknowledged--;
	return NULL;
}

/* Called when the header bytes that were wanted are there. */
static const char *received_head(struct frames_connection *c)
{
	struct frames_stream *s = &c->in;
	const uint8_t *h = s->head;
	const char *wrong;

	if (!s->greeted) {
		s->skip = (uint64_t)h[2] << 8 | h[3];
		c->swapped = get64(h + 24) != 1;
		s->greeted = 1;
		next_frame(s);
		return s->skip > HELLO_DATA ? "too much connection data" : NULL;
	}
	if (c->swapped)
		return "frames of another byte order";
	if (h[0] != VERSION)
		return "frames of another version";
	if (c->active) {
		wrong = check_ack(c, h);
		next_frame(s);
		return wrong;
	}
	wrong = check_write(h, s->have);
	if (wrong)
		return wrong;
	if (s->have < h[6]) {
		s->want = h[6];
		return NULL;
	}
	s->skip = get64(h + 8) - h[6];
	next_frame(s);
	return NULL;
}

/* Takes bytes into account until the wanted header is there; 0 when it is not. */
static int gather(struct frames_stream *s, const uint8_t **p, size_t *n)
{
	size_t k;

	k = s->skip < *n ? (size_t)s->skip : *n;
	s->skip -= k;
	*p += k;
	*n -= k;
	k = (size_t)(s->want - s->have) < *n ? (size_t)(s->want - s->have) : *n;
	memcpy(s->head + s->have, *p, k);
	s->have = (uint8_t)(s->have + k);
	*p += k;
	*n -= k;
	return s->have == s->want;
}

/* NULL, or what the peer sent that it must not. */
const char *frames_received(struct frames_connection *c, const uint8_t *p, size_t n)
{
	while (n && !c->broken) {
		if (gather(&c->in, &p, &n))
			c->broken = received_head(c);
	}
	return c->broken;
}

/* Counts the writes that were sent whole: only those may be acknowledged. */
void frames_sent(struct frames_connection *c, const uint8_t *p, size_t n)
{
	struct frames_stream *s = &c->out;

	while (n && c->active) {
		const uint8_t *h = s->head;
		uint64_t before = s->skip;
		int whole = gather(s, &p, &n);

		if (before && !s->skip && s->counted) {
			s->counted = 0;
			c->unacknowledged++;
		}
		if (!whole)
			continue;
		if (!s->greeted) {
			s->greeted = 1;
			s->skip = (uint64_t)h[2] << 8 | h[3];
			next_frame(s);
			continue;
		}
		if (s->have < h[6] && h[6] <= FRAMES_HEAD) {
			s->want = h[6];
			continue;
		}
		s->skip = get64(h + 8) - h[6];
		if (get16(h + 2) & DELIVERY_COMPLETE) {
			if (s->skip)
				s->counted = 1;
			else
				c->unacknowledged++;
		}
		next_frame(s);
	}
}

/* The table, by descriptor. */
#define DESCRIPTORS 65536

static _Atomic(struct frames_connection *) connections[DESCRIPTORS];
static __thread int connecting;
static __thread const char *fault;

static struct frames_connection *connection_of(int fd)
{
	if (fd < 0 || fd >= DESCRIPTORS)
		return NULL;
	return atomic_load_explicit(&connections[fd], memory_order_acquire);
}

static int track(int fd, int active)
{
	struct frames_connection *c = NULL;

	if (fd < DESCRIPTORS)
		c = malloc(sizeof(*c));
	if (!c)
		return -1;
	frames_begin(c, active);
	free(atomic_exchange(&connections[fd], c));
	return 0;
}

static ssize_t refuse(struct frames_connection *c)
{
	fault = c->broken;
	errno = ECONNABORTED;
	return -1;
}

void frames_connecting(int yes)
{
	connecting = yes;
}

const char *frames_fault(void)
{
	const char *f = fault;

	fault = NULL;
	return f;
}

int frames_hooked(void)
{
	return dlsym(RTLD_DEFAULT, "recv") == (void *)recv;
}

/* From here on: libc's functions. They are system calls that libfabric makes through
 * the dynamic linker, where the executable's come first. */

int accept(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	int s = (int)syscall(SYS_accept4, fd, addr, len, 0);
	int family;
	socklen_t n = sizeof(family);

	if (s < 0 || getsockopt(s, SOL_SOCKET, SO_DOMAIN, &family, &n) ||
	    (family != AF_INET && family != AF_INET6))
		return s;
	if (track(s, 0)) {
		syscall(SYS_close, s);
		errno = ENOMEM;
		return -1;
	}
	return s;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (connecting && track(fd, 1)) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_connect, fd, addr, len);
}

int close(int fd)
{
	if (fd >= 0 && fd < DESCRIPTORS &&
	    atomic_load_explicit(&connections[fd], memory_order_relaxed))
		free(atomic_exchange(&connections[fd], NULL));
	return (int)syscall(SYS_close, fd);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct frames_connection *c = connection_of(fd);
	ssize_t n;

	if (c && c->broken)
		return refuse(c);
	n = syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
	if (c && n > 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE)) &&
	    frames_received(c, buf, (size_t)n))
		return refuse(c);
	return n;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct frames_connection *c = connection_of(fd);
	size_t left, i = 0;
	ssize_t n;

	if (c && c->broken)
		return refuse(c);
	n = syscall(SYS_recvmsg, fd, msg, flags);
	if (!c || n <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)))
		return n;
	for (left = (size_t)n; left; i++) {
		size_t k = msg->msg_iov[i].iov_len < left ? msg->msg_iov[i].iov_len : left;

		if (frames_received(c, msg->msg_iov[i].iov_base, k))
			return refuse(c);
		left -= k;
	}
	return n;
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	ssize_t n = syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
	struct frames_connection *c = connection_of(fd);

	if (c && n > 0)
		frames_sent(c, buf, (size_t)n);
	return n;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n = syscall(SYS_sendmsg, fd, msg, flags);
	struct frames_connection *c = connection_of(fd);
	size_t left, i = 0;

	if (!c || n <= 0)
		return n;
	for (left = (size_t)n; left; i++) {
		size_t k = msg->msg_iov[i].iov_len < left ? msg->msg_iov[i].iov_len : left;

		frames_sent(c, msg->msg_iov[i].iov_base, k);
		left -= k;
	}
	return n;
}
