/* Plain TCP over loopback: blocking sends from a ring of memory, blocking receives
 * into one. What the kernel can do for messages of this size; nothing is
 * acknowledged, registered or committed. */
#define _GNU_SOURCE
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(long ret, const char *what)
{
	if (ret < 0)
		fail(what, strerror(errno));
}

static char *slot_of(const struct plan *p, char *ring, uint64_t sequence)
{
	return p->audio ? ring + (sequence % ENTRIES) * ENTRY_BYTES
			: ring + (sequence % GRAIN_SLOTS) * GRAIN_BYTES;
}

static char *make_ring(const struct plan *p, int fill)
{
	return shared_memory(p->audio ? ENTRIES * ENTRY_BYTES : (uint64_t)GRAIN_SLOTS * GRAIN_BYTES, fill);
}

static int receive_bytes(int s, char *to, uint64_t len)
{
	while (len) {
		ssize_t n = recv(s, to, len, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		check(n, "recv");
		if (!n)
			return 0;
		to += n;
		len -= (uint64_t)n;
	}
	return 1;
}

static void receive_all(const struct plan *p)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	struct result r = { 0 };
	char *ring = make_ring(p, 0);
	int l = socket(AF_INET, SOCK_STREAM, 0), s;

	check(bind(l, (struct sockaddr *)&a, len), "bind");
	check(listen(l, 1), "listen");
	check(getsockname(l, (struct sockaddr *)&a, &len), "getsockname");
	printf("{\"port\":%u}\n", ntohs(a.sin_port));
	fflush(stdout);
	s = accept(l, NULL, NULL);
	check(s, "accept");
	for (uint64_t n = 0;; n++) {
		char *slot = slot_of(p, ring, n);
		struct header h = { 0 };
		uint64_t bytes;

		if (p->audio) { /* its length is in its header */
			if (!receive_bytes(s, slot, ENTRY_HEADER))
				break;
			memcpy(&h, slot, sizeof(h));
			bytes = message_bytes(p, &h);
			receive_bytes(s, slot + ENTRY_HEADER, bytes - ENTRY_HEADER);
		} else {
			bytes = GRAIN_BYTES;
			if (!receive_bytes(s, slot, bytes))
				break;
			memcpy(&h, slot, sizeof(h));
		}
		if (n < WARM) {
			if (n == WARM - 1)
				begin(&r);
			continue;
		}
		r.messages++;
		r.bytes += bytes;
		if (p->mode == PACED)
			stamp(&r, h.index, tai());
	}
	finish(&r);
	print_result(&r);
}

static void send_bytes(int s, const char *from, uint64_t len)
{
	while (len) {
		ssize_t n = send(s, from, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		check(n, "send");
		from += n;
		len -= (uint64_t)n;
	}
}

static void send_all(const struct plan *p)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)atoi(p->port)) };
	struct result r = { 0 };
	struct header h = { 0, p->audio ? COMMIT_SAMPLES : 1 };
	struct pace pace;
	char *ring = make_ring(p, 0x5a);
	int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	uint64_t n = 0;

	check(connect(s, (struct sockaddr *)&a, sizeof(a)), "connect");
	/* Without it a message of audio waits for the last one's acknowledgement. */
	check(setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
	for (; n < WARM; n++) {
		memcpy(slot_of(p, ring, n), &h, sizeof(h));
		send_bytes(s, slot_of(p, ring, n), message_bytes(p, &h));
	}
	begin(&r);
	pace_begin(&pace, p);
	for (; pace_next(&pace, &h, &r); n++) {
		memcpy(slot_of(p, ring, n), &h, sizeof(h));
		send_bytes(s, slot_of(p, ring, n), message_bytes(p, &h));
		r.messages++;
		r.bytes += message_bytes(p, &h);
	}
	finish(&r);
	check(shutdown(s, SHUT_WR), "shutdown");
	print_result(&r);
}

int main(int argc, char **argv)
{
	struct plan p = read_plan(argc, argv);

	p.receive ? receive_all(&p) : send_all(&p);
	return 0;
}
