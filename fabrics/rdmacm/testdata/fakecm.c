/* Stands in for librdmacm and libibverbs, preloaded into the test's own binary:
 * no device is needed to see that calls made in another shared library pass
 * through package rdmacm. A thread obeys lines from descriptor 3 and answers
 * each with one line on descriptor 4. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

static int option_value, option_errno, query_errno, reported_timeout = -1;
static int retry_passed, destroyed;
static struct rdma_cm_event pending;

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
	(void)id;
	if (level != RDMA_OPTION_ID || name != RDMA_OPTION_ID_ACK_TIMEOUT || len != 1) {
		errno = EINVAL;
		return -1;
	}
	if (option_errno) {
		errno = option_errno;
		return -1;
	}
	option_value = *(uint8_t *)value;
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	retry_passed = param ? param->retry_count : -1;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	retry_passed = param ? param->retry_count : -1;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	*event = &pending;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	destroyed++;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	(void)id;
	destroyed++;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)qp, (void)mask, (void)init;
	if (query_errno)
		return query_errno;
	attr->timeout = (uint8_t)(reported_timeout < 0 ? option_value : reported_timeout);
	attr->retry_cnt = (uint8_t)(retry_passed > 7 ? 7 : retry_passed);
	attr->rnr_retry = 7;
	return 0;
}

static void set_address(struct sockaddr *to, const char *text, int port)
{
	struct sockaddr_in *in4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

	if (inet_pton(AF_INET, text, &in4->sin_addr) == 1) {
		in4->sin_family = AF_INET;
		in4->sin_port = htons((uint16_t)port);
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
	}
}

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = { .device = &device };

static struct rdma_cm_id *new_id(const char *local, const char *remote, unsigned number)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	id->qp = calloc(1, sizeof(*id->qp));
	id->qp->qp_num = number;
	id->verbs = &context;
	set_address(&id->route.addr.src_addr, local, 4001);
	set_address(&id->route.addr.dst_addr, remote, 4002);
	return id;
}

static void establish(struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;

	pending.id = id;
	pending.event = RDMA_CM_EVENT_ESTABLISHED;
	rdma_get_cm_event(NULL, &event);
}

/* WORD LOCAL REMOTE NUMBER OPTION_ERRNO QUERY_ERRNO TIMEOUT COUNT */
static void obey(const char *line, FILE *out)
{
	char word[16], local[64], remote[64];
	unsigned number, count;
	struct rdma_conn_param param = { .retry_count = 15 };

	if (sscanf(line, "%15s %63s %63s %u %d %d %d %u", word, local, remote, &number,
		   &option_errno, &query_errno, &reported_timeout, &count) != 8) {
		fprintf(out, "not understood\n");
		return;
	}
	option_value = 0;
	destroyed = 0;
	for (unsigned i = 0; i < count; i++) {
		struct rdma_cm_id *id = new_id(local, remote, number + i);

		if (!strcmp(word, "accept"))
			rdma_accept(id, &param);
		else
			rdma_connect(id, strcmp(word, "bare") ? &param : NULL);
		if (!strcmp(word, "dead")) { /* ends before it is established */
			if (i % 2)
				rdma_destroy_id(id);
			else
				rdma_destroy_ep(id);
		}
		establish(id);
		if (strcmp(word, "keep") && strcmp(word, "dead")) {
			rdma_destroy_ep(id);
			free(id->qp);
			free(id);
		}
	}
	fprintf(out, "option %d retry %d param %d destroyed %d\n", option_value, retry_passed, param.retry_count, destroyed);
}

static void *run(void *arg)
{
	FILE *in = fdopen(3, "r"), *out = fdopen(4, "w");
	char line[256];

	(void)arg;
	while (in && out && fgets(line, sizeof(line), in)) {
		obey(line, out);
		fflush(out);
	}
	return NULL;
}

__attribute__((constructor)) static void start(void)
{
	pthread_t thread;

	if (getenv("RDMACM_TEST_HOST"))
		pthread_create(&thread, NULL, run, NULL);
}
