#define _GNU_SOURCE
#include "hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* librdmacm's own functions. */
static struct {
	int (*connect)(struct rdma_cm_id *, struct rdma_conn_param *);
	int (*accept)(struct rdma_cm_id *, struct rdma_conn_param *);
	int (*get_cm_event)(struct rdma_event_channel *, struct rdma_cm_event **);
	int (*destroy_id)(struct rdma_cm_id *);
	void (*destroy_ep)(struct rdma_cm_id *);
} next;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_next(void)
{
	*(void **)&next.connect = dlsym(RTLD_NEXT, "rdma_connect");
	*(void **)&next.accept = dlsym(RTLD_NEXT, "rdma_accept");
	*(void **)&next.get_cm_event = dlsym(RTLD_NEXT, "rdma_get_cm_event");
	*(void **)&next.destroy_id = dlsym(RTLD_NEXT, "rdma_destroy_id");
	*(void **)&next.destroy_ep = dlsym(RTLD_NEXT, "rdma_destroy_ep");
}

static int missing(void)
{
	errno = ENOSYS;
	return -1;
}

static _Atomic uint8_t ack_wanted, retry_wanted;

void rdmacm_configure(uint8_t ack_timeout, uint8_t retry_count)
{
	atomic_store(&ack_wanted, ack_timeout);
	atomic_store(&retry_wanted, retry_count);
}

/* What is known of an id between its connect or accept and its end. A slot is
 * written by the thread that owns the id; others only see that it is not theirs.
 * An id that finds no slot in its window is connected all the same and not
 * reported. */
#define SLOTS 8192u
#define WINDOW 64u

struct slot {
	_Atomic uintptr_t id; /* 0: free, 1: being written */
	uint32_t role;
	int32_t option_error;
	uint8_t ack_wanted, retry_wanted;
};

static struct slot slots[SLOTS];
static _Atomic uint64_t dropped;

static uint32_t first_slot(uintptr_t id)
{
	return (uint32_t)(((uint64_t)id * 0x9e3779b97f4a7c15u) >> 51); /* 13 bits */
}

static struct slot *find(struct rdma_cm_id *id)
{
	uint32_t at = first_slot((uintptr_t)id);

	for (uint32_t i = 0; i < WINDOW; i++) {
		struct slot *s = &slots[(at + i) % SLOTS];

		if (atomic_load(&s->id) == (uintptr_t)id)
			return s;
	}
	return NULL;
}

static void forget(struct rdma_cm_id *id)
{
	struct slot *s;

	while (id && (s = find(id)))
		atomic_store(&s->id, 0);
}

static void remember(struct rdma_cm_id *id, const struct slot *what)
{
	uint32_t at = first_slot((uintptr_t)id);

	forget(id);
	for (uint32_t i = 0; i < WINDOW; i++) {
		struct slot *s = &slots[(at + i) % SLOTS];
		uintptr_t nobody = 0;

		if (!atomic_compare_exchange_strong(&s->id, &nobody, 1))
			continue;
		s->role = what->role;
		s->option_error = what->option_error;
		s->ack_wanted = what->ack_wanted;
		s->retry_wanted = what->retry_wanted;
		atomic_store(&s->id, (uintptr_t)id);
		return;
	}
	atomic_fetch_add(&dropped, 1);
}

/* A bounded queue of many producers and consumers: a cell whose turn is the
 * position is free for the producer, position + 1 is full for the consumer. */
#define CELLS 256u

static struct cell {
	_Atomic uint64_t turn; /* less its own number, so that zero memory is empty */
	struct rdmacm_pair pair;
} cells[CELLS];
static _Atomic uint64_t head, tail;

static void push(const struct rdmacm_pair *pair)
{
	uint64_t at = atomic_load(&head);

	for (;;) {
		struct cell *c = &cells[at % CELLS];
		int64_t ahead = (int64_t)(atomic_load(&c->turn) + at % CELLS - at);

		if (ahead == 0) {
			if (!atomic_compare_exchange_weak(&head, &at, at + 1))
				continue;
			c->pair = *pair;
			atomic_store(&c->turn, at + 1 - at % CELLS);
			return;
		}
		if (ahead < 0) { /* full: nobody has read for 256 connections */
			atomic_fetch_add(&dropped, 1);
			return;
		}
		at = atomic_load(&head);
	}
}

int rdmacm_next(struct rdmacm_pair *out)
{
	uint64_t at = atomic_load(&tail);

	for (;;) {
		struct cell *c = &cells[at % CELLS];
		int64_t ahead = (int64_t)(atomic_load(&c->turn) + at % CELLS - (at + 1));

		if (ahead == 0) {
			if (!atomic_compare_exchange_weak(&tail, &at, at + 1))
				continue;
			*out = c->pair;
			atomic_store(&c->turn, at + CELLS - at % CELLS);
			return 1;
		}
		if (ahead < 0)
			return 0;
		at = atomic_load(&tail);
	}
}

uint64_t rdmacm_dropped(void)
{
	return atomic_load(&dropped);
}

/* Sets the timeout on an id that is about to be connected or accepted. */
static void prepare(struct rdma_cm_id *id, uint32_t role, uint8_t retry)
{
	struct slot s = {
		.role = role,
		.ack_wanted = atomic_load(&ack_wanted),
		.retry_wanted = retry,
	};

	if (s.ack_wanted) {
		uint8_t timeout = s.ack_wanted;

		if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
				    &timeout, sizeof(timeout)))
			s.option_error = errno;
	}
	remember(id, &s);
}

static void copy_address(uint8_t *to, const struct sockaddr *from)
{
	memcpy(to, from, RDMACM_ADDRESS);
}

/* Reads the queue pair of an established id back. */
static void report(struct rdma_cm_id *id)
{
	struct slot *s = find(id);
	struct rdmacm_pair pair;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (!s || !id->qp)
		return;
	memset(&pair, 0, sizeof(pair));
	memset(&attr, 0, sizeof(attr));
	memset(&init, 0, sizeof(init));
	pair.role = s->role;
	pair.option_error = s->option_error;
	pair.ack_wanted = s->ack_wanted;
	pair.retry_wanted = s->retry_wanted;
	pair.qp_num = id->qp->qp_num;
	pair.query_error = ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY, &init);
	if (pair.query_error < 0) /* some libraries return -1 and set errno */
		pair.query_error = errno ? errno : EIO;
	pair.ack_timeout = attr.timeout;
	pair.retry_count = attr.retry_cnt;
	pair.rnr_retry = attr.rnr_retry;
	copy_address(pair.local, rdma_get_local_addr(id));
	copy_address(pair.remote, rdma_get_peer_addr(id));
	if (id->verbs && id->verbs->device)
		memcpy(pair.device, id->verbs->device->name,
		       strnlen(id->verbs->device->name, sizeof(pair.device) - 1));
	push(&pair);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	uint8_t retry = atomic_load(&retry_wanted);
	struct rdma_conn_param copy;
	int ret;

	pthread_once(&once, find_next);
	if (!next.connect)
		return missing();
	if (conn_param) {
		copy = *conn_param;
		if (retry)
			copy.retry_count = retry;
		conn_param = &copy;
	}
	prepare(id, RDMACM_SOURCE, retry);
	ret = next.connect(id, conn_param);
	if (ret)
		forget(id);
	return ret;
}

/* The retry count of an accepting side is the one that came with the request. */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	int ret;

	pthread_once(&once, find_next);
	if (!next.accept)
		return missing();
	prepare(id, RDMACM_DESTINATION, 0);
	ret = next.accept(id, conn_param);
	if (ret)
		forget(id);
	return ret;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int ret;

	pthread_once(&once, find_next);
	if (!next.get_cm_event)
		return missing();
	ret = next.get_cm_event(channel, event);
	if (!ret && *event && (*event)->id && (*event)->event == RDMA_CM_EVENT_ESTABLISHED)
		report((*event)->id);
	return ret;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	pthread_once(&once, find_next);
	forget(id);
	return next.destroy_id ? next.destroy_id(id) : missing();
}

/* librdmacm's calls its own rdma_destroy_id, past the one above. */
void rdma_destroy_ep(struct rdma_cm_id *id)
{
	pthread_once(&once, find_next);
	forget(id);
	if (next.destroy_ep)
		next.destroy_ep(id);
}

int rdmacm_hooked(void)
{
	pthread_once(&once, find_next);
	return next.connect && next.accept && next.get_cm_event && next.destroy_id && next.destroy_ep &&
	       dlsym(RTLD_DEFAULT, "rdma_connect") == (void *)rdma_connect &&
	       dlsym(RTLD_DEFAULT, "rdma_accept") == (void *)rdma_accept &&
	       dlsym(RTLD_DEFAULT, "rdma_get_cm_event") == (void *)rdma_get_cm_event &&
	       dlsym(RTLD_DEFAULT, "rdma_destroy_id") == (void *)rdma_destroy_id &&
	       dlsym(RTLD_DEFAULT, "rdma_destroy_ep") == (void *)rdma_destroy_ep;
}
