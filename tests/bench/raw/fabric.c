/* Raw libfabric over loopback tcp: one RMA write with immediate data and delivery
 * complete for each grain or entry of audio, both ends asleep in fi_cq_sread. No
 * flow, no commit, no copy into or out of the entries, no reader to wake. */
#define _GNU_SOURCE
#include "measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define KEY(slot) ((uint64_t)(slot) + 1)

struct side {
	const struct plan *plan;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	int slots;
	char *slot[ENTRIES > GRAIN_SLOTS ? ENTRIES : GRAIN_SLOTS];
};

static ssize_t check(ssize_t ret, const char *what)
{
	if (ret < 0)
		fail(what, fi_strerror((int)-ret));
	return ret;
}

static struct fi_info *get_info(const char *port, uint64_t flags, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	hints->fabric_attr->prov_name = strdup("tcp");
	hints->ep_attr->type = FI_EP_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->caps = FI_RMA | caps;
	check(fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), "127.0.0.1", port, flags, hints, &info),
	      "fi_getinfo");
	fi_freeinfo(hints);
	return info;
}

static void open_side(struct side *s)
{
	struct fi_eq_attr eq = { .size = 8, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq = { .size = 256, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };

	check(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), "fi_fabric");
	check(fi_domain(s->fabric, s->info, &s->domain, NULL), "fi_domain");
	check(fi_eq_open(s->fabric, &eq, &s->eq, NULL), "fi_eq_open");
	check(fi_cq_open(s->domain, &cq, &s->cq, NULL), "fi_cq_open");
	s->slots = s->plan->audio ? ENTRIES : GRAIN_SLOTS;
	for (int i = 0; i < s->slots; i++)
		s->slot[i] = shared_memory(s->plan->audio ? ENTRY_BYTES : GRAIN_BYTES, i);
}

static void open_endpoint(struct side *s, struct fi_info *info)
{
	check(fi_endpoint(s->domain, info, &s->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(s->ep, &s->eq->fid, 0), "bind event queue");
	/* Both directions: 1.17 crashes otherwise (MXL Fabrics reference §10.1). */
	check(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), "bind completion queue");
}

static struct fi_info *await_event(struct side *s, uint32_t wanted)
{
	struct fi_eq_cm_entry e;
	uint32_t event;
	ssize_t n;

	do {
		n = fi_eq_sread(s->eq, &event, &e, sizeof(e), 10000, 0);
	} while (n == -FI_EINTR);
	check(n, "wait for connection");
	if (event != wanted)
		fail("wait for connection", "another event came");
	return wanted == FI_CONNREQ ? e.info : NULL;
}

/* Blocks until there are completions and returns how many were read. */
static int await_completions(struct side *s, struct fi_cq_data_entry *e, int room)
{
	for (;;) {
		ssize_t n = fi_cq_sread(s->cq, e, (size_t)room, NULL, 10000);

		if (n == -FI_EINTR)
			continue;
		if (n == -FI_EAVAIL) {
			struct fi_cq_err_entry err = { 0 };

			fi_cq_readerr(s->cq, &err, 0);
			fail("completion", fi_strerror(err.err));
		}
		return (int)check(n, "fi_cq_sread");
	}
}

static void receive_all(struct side *s)
{
	const struct plan *p = s->plan;
	struct fid_pep *pep;
	struct fid_mr *mr;
	struct fi_info *request;
	struct sockaddr_in a;
	size_t len = sizeof(a);
	struct result r = { 0 };
	uint64_t n = 0;

	s->info = get_info("0", FI_SOURCE, FI_REMOTE_WRITE);
	open_side(s);
	for (int i = 0; i < s->slots; i++)
		check(fi_mr_reg(s->domain, s->slot[i], p->audio ? ENTRY_BYTES : GRAIN_BYTES, FI_REMOTE_WRITE, 0,
				KEY(i), 0, &mr, NULL), "fi_mr_reg");
	check(fi_passive_ep(s->fabric, s->info, &pep, NULL), "fi_passive_ep");
	check(fi_pep_bind(pep, &s->eq->fid, 0), "fi_pep_bind");
	check(fi_listen(pep), "fi_listen");
	check(fi_getname(&pep->fid, &a, &len), "fi_getname");
	printf("{\"port\":%u}\n", ntohs(a.sin_port));
	fflush(stdout);

	request = await_event(s, FI_CONNREQ);
	open_endpoint(s, request);
	fi_freeinfo(request);
	check(fi_accept(s->ep, NULL, 0), "fi_accept");
	await_event(s, FI_CONNECTED);
	for (;;) {
		struct fi_cq_data_entry e[64];
		int got = await_completions(s, e, 64);
		uint64_t now = tai();

		for (int i = 0; i < got; i++, n++) {
			struct header h;

			if (!(e[i].flags & FI_REMOTE_CQ_DATA) || e[i].data != n % (uint64_t)s->slots)
				fail("immediate", "not the next slot");
			memcpy(&h, s->slot[e[i].data], sizeof(h));
			if (h.index == LAST_INDEX) {
				finish(&r);
				print_result(&r);
				return;
			}
			if (n < WARM) {
				if (n == WARM - 1)
					begin(&r);
				continue;
			}
			r.messages++;
			r.bytes += message_bytes(p, &h);
			if (p->mode == PACED || p->mode == CADENCE)
				stamp(&r, h.index, now);
		}
	}
}

/* A message of the media; the immediate names its slot. */
static uint64_t write_next(struct side *s, struct header *h, uint64_t sequence)
{
	uint64_t slot = sequence % (uint64_t)s->slots, bytes = message_bytes(s->plan, h);
	struct iovec iov = { s->slot[slot], bytes };
	struct fi_rma_iov remote = { .len = bytes, .key = KEY(slot) };
	struct fi_msg_rma m = { .msg_iov = &iov, .iov_count = 1, .rma_iov = &remote, .rma_iov_count = 1, .data = slot };
	ssize_t ret;

	memcpy(s->slot[slot], h, sizeof(*h));
	do {
		ret = fi_writemsg(s->ep, &m, FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA);
	} while (ret == -FI_EINTR);
	check(ret, "fi_writemsg");
	return bytes;
}

/* Waits until at most limit messages are in flight. */
static void settle(struct side *s, int *flying, int limit)
{
	struct fi_cq_data_entry e[64];

	while (*flying > limit)
		*flying -= await_completions(s, e, 64);
}

static void send_all(struct side *s)
{
	const struct plan *p = s->plan;
	struct header h = { p->audio ? COMMIT_SAMPLES : 1, p->audio ? COMMIT_SAMPLES : 1 };
	struct result r = { 0 };
	struct pace pace;
	uint64_t n = 0;
	int flying = 0, spaced = p->mode == CADENCE || p->mode == FLAT_CADENCE;

	s->info = get_info(p->port, 0, FI_WRITE);
	open_side(s);
	open_endpoint(s, s->info);
	check(fi_connect(s->ep, s->info->dest_addr, NULL, 0), "fi_connect");
	await_event(s, FI_CONNECTED);
	for (; n < WARM; n++) {
		settle(s, &flying, p->depth - 1);
		write_next(s, &h, n);
		flying++;
	}
	settle(s, &flying, 0);
	begin(&r);
	pace_begin(&pace, p);
	for (; pace_next(&pace, &h, &r); n++) {
		settle(s, &flying, p->depth - 1);
		if (spaced)
			pace.posted_ns = tai();
		r.bytes += write_next(s, &h, n);
		r.messages++;
		flying++;
		if (p->mode != FLAT)
			settle(s, &flying, 0);
		if (spaced)
			pace.completed_ns = tai();
	}
	settle(s, &flying, 0);
	finish(&r);
	h.index = LAST_INDEX;
	h.count = p->audio ? COMMIT_SAMPLES : 1;
	write_next(s, &h, n);
	flying++;
	settle(s, &flying, 0);
	print_result(&r);
}

int main(int argc, char **argv)
{
	struct plan p = read_plan(argc, argv);
	struct side s = { .plan = &p };

	p.receive ? receive_all(&s) : send_all(&s);
	return 0;
}
