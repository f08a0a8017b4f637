#define _GNU_SOURCE
#include "frames.h"
#include "ofi.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_environment(void)
{
	/* No page-fault hooks in a process that maps shared memory
	 * (MXL Fabrics reference §3.1). */
	setenv("FI_MR_CACHE_MONITOR", "disabled", 1);
	/* The tcp provider must hand mapped memory to the kernel, never copy it
	 * itself: a truncated file is then EFAULT and not SIGBUS. It also keeps
	 * fi_shutdown from waiting for a peer that does not read. */
	setenv("FI_TCP_STAGING_SBUF_SIZE", "0", 0);
}

void ofi_setup(void)
{
	pthread_once(&once, set_environment);
}

static uint32_t api_version(void)
{
	uint32_t built = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	uint32_t running = fi_version();

	return FI_VERSION_LT(running, built) ? running : built;
}

int ofi_getinfo(const char *provider, const char *node, uint64_t caps,
		uint32_t addr_format, uint64_t flags, struct fi_info **out)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_LOCAL |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->caps = caps;
	hints->addr_format = addr_format;
	ret = fi_getinfo(api_version(), node, NULL, flags, hints, out);
	fi_freeinfo(hints);
	return ret;
}

/* libfabric 1.17's verbs resolves the address it finds in the info, later ones
 * the one given to fi_connect (MXL Fabrics reference §11.1). */
int ofi_info_set_peer(struct fi_info *info, const void *addr, size_t len)
{
	void *copy = malloc(len);

	if (!copy)
		return -FI_ENOMEM;
	memcpy(copy, addr, len);
	free(info->dest_addr);
	info->dest_addr = copy;
	info->dest_addrlen = len;
	return 0;
}

int ofi_open_cq(struct fid_domain *domain, size_t depth, struct fid_cq **cq, int *fd)
{
	struct fi_cq_attr attr = {
		.size = depth,
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = FI_WAIT_FD,
		.wait_cond = FI_CQ_COND_NONE,
	};
	int ret = fi_cq_open(domain, &attr, cq, NULL);

	if (ret)
		return ret;
	ret = fi_control(&(*cq)->fid, FI_GETWAIT, fd);
	if (ret)
		fi_close(&(*cq)->fid);
	return ret;
}

int ofi_open_eq(struct fid_fabric *fabric, size_t depth, struct fid_eq **eq, int *fd)
{
	struct fi_eq_attr attr = {
		.size = depth,
		.wait_obj = FI_WAIT_FD,
	};
	int ret = fi_eq_open(fabric, &attr, eq, NULL);

	if (ret)
		return ret;
	ret = fi_control(&(*eq)->fid, FI_GETWAIT, fd);
	if (ret)
		fi_close(&(*eq)->fid);
	return ret;
}

int ofi_register(struct fid_domain *domain, void *base, size_t len, uint64_t access,
		 uint64_t key, struct fid_mr **mr)
{
	struct iovec iov = { .iov_base = base, .iov_len = len };
	struct fi_mr_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.mr_iov = &iov;
	attr.iov_count = 1;
	attr.access = access;
	attr.requested_key = key;
	attr.iface = FI_HMEM_SYSTEM;
	return fi_mr_regattr(domain, &attr, 0, mr);
}

int ofi_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len, bool tcp)
{
	int ret;

	frames_connecting(tcp);
	ret = fi_connect(ep, addr, param, len);
	frames_connecting(0);
	return ret;
}

/* Posts every write. After a failure on an endpoint its later writes are not
 * tried, so that order on one connection is kept; other endpoints go on. */
int ofi_post(struct ofi_write *writes, int count)
{
	int posted = 0;

	for (int i = 0; i < count; i++) {
		struct ofi_write *w = &writes[i];
		struct fi_rma_iov remote;
		struct fi_msg_rma msg;
		uint64_t flags = FI_DELIVERY_COMPLETE;
		size_t len = 0;

		w->result = 0;
		for (int j = 0; j < i; j++) {
			if (writes[j].ep == w->ep && writes[j].result) {
				w->result = -FI_ECANCELED;
				break;
			}
		}
		if (w->result)
			continue;

		for (uint32_t s = 0; s < w->segments; s++)
			len += w->iov[s].iov_len;
		remote.addr = w->remote_addr;
		remote.len = len;
		remote.key = w->remote_key;
		msg.msg_iov = w->iov;
		msg.desc = w->desc;
		msg.iov_count = w->segments;
		msg.addr = 0;
		msg.rma_iov = &remote;
		msg.rma_iov_count = 1;
		msg.context = (void *)(uintptr_t)w->token;
		msg.data = w->immediate;
		if (w->has_immediate)
			flags |= FI_REMOTE_CQ_DATA;
		do {
			w->result = (int32_t)fi_writemsg(w->ep, &msg, flags);
		} while (w->result == -FI_EINTR);
		if (!w->result)
			posted++;
	}
	return posted;
}

int ofi_post_receives(struct fid_ep *ep, void *buf, size_t len, void *desc, int count)
{
	int posted = 0;

	while (posted < count) {
		ssize_t ret = fi_recv(ep, buf, len, desc, 0, NULL);

		if (ret == -FI_EINTR)
			continue;
		if (ret)
			return posted ? posted : (int)ret;
		posted++;
	}
	return posted;
}

uint64_t ofi_monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Returns 1 when an event was taken, 0 when there was none. */
static int read_event(struct ofi_poller *p)
{
	struct {
		struct fi_eq_cm_entry cm;
		uint8_t data[OFI_CM_DATA];
	} entry;
	uint32_t kind = 0;
	ssize_t ret;

	memset(&entry.cm, 0, sizeof(entry.cm));
	do {
		/* tcp in 1.17 reports a connection closed before its request
		 * with whatever errno holds, and keeps it when that is EAGAIN. */
		errno = 0;
		ret = fi_eq_read(p->eq, &kind, &entry, sizeof(entry), 0);
		if (ret == -FI_EINTR)
			p->interrupted++;
	} while (ret == -FI_EINTR);
	if (ret == -FI_EAGAIN || ret == 0)
		return 0;

	memset(&p->event, 0, offsetof(struct ofi_event, data));
	p->flags |= OFI_EVENT;
	if (ret == -FI_EAVAIL) {
		struct fi_eq_err_entry err;

		memset(&err, 0, sizeof(err));
		ret = fi_eq_readerr(p->eq, &err, 0);
		if (ret == -FI_EAGAIN) {
			p->flags &= ~OFI_EVENT;
			return 0;
		}
		p->event.fid = err.fid;
		p->event.error = err.err > 0 ? err.err : FI_EOTHER;
		return 1;
	}
	if (ret < 0) {
		p->event.error = (int32_t)-ret;
		return 1;
	}
	p->event.kind = kind;
	p->event.fid = entry.cm.fid;
	if (kind == FI_CONNREQ)
		p->event.info = entry.cm.info;
	if ((size_t)ret > sizeof(entry.cm)) {
		p->event.data_len = (uint32_t)((size_t)ret - sizeof(entry.cm));
		if (p->event.data_len > OFI_CM_DATA)
			p->event.data_len = OFI_CM_DATA;
		memcpy(p->event.data, entry.data, p->event.data_len);
	}
	return 1;
}

static ssize_t read_completions(struct ofi_poller *p)
{
	ssize_t ret;

	for (;;) {
		ret = fi_cq_read(p->cq, p->entries, (size_t)p->capacity);
		if (ret == -FI_EINTR) {
			p->interrupted++;
			continue;
		}
		if (ret != -FI_EAVAIL)
			return ret == -FI_EAGAIN ? 0 : ret;
		memset(&p->error, 0, sizeof(p->error));
		ret = fi_cq_readerr(p->cq, &p->error, 0);
		if (ret == -FI_EAGAIN)
			return 0;
		p->flags |= OFI_CQ_ERROR;
		return ret < 0 ? ret : 0;
	}
}

/* The event queue's descriptor may be ready without an event behind it: where
 * the provider shares one poll set between both queues, or holds a half-open
 * connection. After EQ_FALSE such wakes it is left out for EQ_REST. */
#define EQ_FALSE 16
#define EQ_REST 5000000u

/* Prepares the event queue's descriptor for waiting and reads an event. trywait
 * forgets what was signalled, so the queue is read after it; and it is not called
 * again before the wait: reading completions signals the end of a connection. */
static int arm_events(struct ofi_poller *p)
{
	struct fid *fid = &p->eq->fid;

	(void)fi_trywait(p->fabric, &fid, 1);
	return read_event(p);
}

/* Reads completions and one event; when there is neither, waits until there is,
 * until the wake descriptor is written, or until the timeout. Returns the number
 * of completions or a negative fi_errno; flags tell the rest. Once armed, the event
 * queue is read only when its descriptor says so: it stays ready until then. The
 * completion queue is then read when trywait has found something in it. */
int ofi_poll_armed(struct ofi_poller *p, int64_t timeout_ns, bool *armed)
{
	bool unread = *armed && timeout_ns > 0;
	uint64_t deadline = 0;
	int waited = 0;

	p->flags = 0;
	for (;;) {
		struct pollfd fds[3];
		struct timespec ts;
		uint64_t now, left;
		ssize_t got = 0;
		int n = 0, cq_at = -1, eq_at = -1, wake_at = -1, ret;

		if (p->cq && !unread)
			got = read_completions(p);
		unread = false;
		if (p->eq && !*armed) {
			arm_events(p);
			*armed = true;
		}
		if (got || p->flags || timeout_ns <= 0)
			return (int)got;

		now = ofi_monotonic();
		if (!waited) {
			deadline = now + (uint64_t)timeout_ns;
			waited = 1;
		}
		if (now >= deadline)
			return 0;
		left = deadline - now;

		if (p->cq) {
			struct fid *fid = &p->cq->fid;

			ret = fi_trywait(p->fabric, &fid, 1);
			if (ret == -FI_EAGAIN)
				continue;
			if (ret)
				return ret;
			cq_at = n;
			fds[n].fd = p->cq_fd;
			fds[n].events = POLLIN;
			fds[n++].revents = 0;
		}
		if (p->eq && now < p->eq_rest) {
			if (left > p->eq_rest - now)
				left = p->eq_rest - now;
		} else if (p->eq) {
			eq_at = n;
			fds[n].fd = p->eq_fd;
			fds[n].events = POLLIN;
			fds[n++].revents = 0;
		}
		if (p->wake_fd >= 0) {
			wake_at = n;
			fds[n].fd = p->wake_fd;
			fds[n].events = POLLIN;
			fds[n++].revents = 0;
		}

		ts.tv_sec = (time_t)(left / 1000000000u);
		ts.tv_nsec = (long)(left % 1000000000u);
		ret = ppoll(fds, (nfds_t)n, &ts, NULL);
		if (ret < 0) {
			if (errno != EINTR)
				return -errno;
			p->interrupted++;
			continue;
		}
		if (wake_at >= 0 && fds[wake_at].revents) {
			uint64_t value;

			if (read(p->wake_fd, &value, sizeof(value)) < 0)
				value = 0;
			p->flags |= OFI_WOKEN;
		}
		if (eq_at >= 0 && fds[eq_at].revents) {
			if (read_event(p) || arm_events(p)) {
				p->idle_eq = 0;
			} else if (++p->idle_eq >= EQ_FALSE) {
				p->idle_eq = 0;
				p->eq_rest = ofi_monotonic() + EQ_REST;
			}
		} else if (eq_at < 0 && p->eq && ofi_monotonic() >= p->eq_rest) {
			arm_events(p);
		} else if (cq_at >= 0 && fds[cq_at].revents == 0) {
			p->idle_eq = 0;
		}
	}
}

int ofi_poll(struct ofi_poller *p, int64_t timeout_ns)
{
	bool armed = false;

	return ofi_poll_armed(p, timeout_ns, &armed);
}

/* The word is in a file of somebody else's, which may be cut off at any time: only
 * the kernel reads it, for whom that is EFAULT and not SIGBUS. */

/* Tells whether the word still holds seen; requeueing nobody compares only. */
static int word_holds(struct ofi_poller *p, const uint32_t *word, uint32_t seen)
{
	if (syscall(SYS_futex, word, FUTEX_CMP_REQUEUE, 0, (unsigned long)0, word, seen) >= 0)
		return 1;
	if (errno != EAGAIN) {
		p->flags |= OFI_WORD_ERROR;
		p->word_error = errno;
	}
	return 0;
}

/* Sleeps while the word holds seen, until the deadline. Returns 1 when it came. */
static int wait_word(struct ofi_poller *p, const uint32_t *word, uint32_t seen, uint64_t deadline)
{
	for (;;) {
		uint64_t now = ofi_monotonic();
		struct timespec ts;

		if (now >= deadline)
			return 1;
		ts.tv_sec = (time_t)((deadline - now) / 1000000000u);
		ts.tv_nsec = (long)((deadline - now) % 1000000000u);
		if (!syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0))
			return 0;
		if (errno == EINTR) {
			p->interrupted++;
			continue;
		}
		if (errno == ETIMEDOUT)
			return 1;
		if (errno != EAGAIN) {
			p->flags |= OFI_WORD_ERROR;
			p->word_error = errno;
		}
		return 0;
	}
}

/* Sleeps on the word until the deadline. A writer of samples wakes its readers once a
 * sync batch and commits more often, so the head is looked at besides. */
void ofi_sleep_on_word(struct ofi_poller *p, const uint32_t *word, uint32_t seen, uint64_t deadline)
{
	for (;;) {
		uint64_t until = deadline;

		if (p->head && p->head_every > 0) {
			uint64_t look = ofi_monotonic() + (uint64_t)p->head_every;

			if (look < until)
				until = look;
		}
		if (!wait_word(p, word, seen, until) || until == deadline || !word_holds(p, p->head, p->head_seen))
			return;
	}
}

/* Keeps a completion until the next transfer may be posted, as the passes of the
 * lane would: they are hold_pass apart, counted from the post; the one that notices
 * the completion is the first not before it, and the next transfer starts hold_gap
 * after that. Only the wake descriptor ends the hold. Nothing else is in flight; what
 * happens to the connection meanwhile is seen after it. */
static void hold(struct ofi_poller *p, uint64_t called)
{
	uint64_t completed = ofi_monotonic();
	uint64_t posted = called - (uint64_t)p->hold_age, passes, next;

	passes = (completed - posted + (uint64_t)p->hold_pass - 1) / (uint64_t)p->hold_pass;
	next = posted + (passes ? passes : 1) * (uint64_t)p->hold_pass + (uint64_t)p->hold_gap;
	for (;;) {
		struct pollfd wake = { .fd = p->wake_fd, .events = POLLIN };
		uint64_t now = ofi_monotonic();
		struct timespec ts;
		int ret;

		p->held = now - completed;
		if (now >= next)
			return;
		ts.tv_sec = (time_t)((next - now) / 1000000000u);
		ts.tv_nsec = (long)((next - now) % 1000000000u);
		ret = ppoll(&wake, 1, &ts, NULL);
		if (ret > 0) {
			p->held = ofi_monotonic() - completed;
			return; /* the next poll reads it */
		}
		if (ret < 0 && errno != EINTR)
			return;
		if (ret < 0)
			p->interrupted++;
	}
}

/* A whole pass outside Go: posts the writes, then waits like ofi_poll. Each return
 * to Go costs the caller a scheduler's processor, and often a wake-up of the
 * runtime's monitor. With a word the wait also ends when that no longer holds seen:
 * it is looked at every glance_ns, or slept on instead of the queues, which are then
 * read once, where that is 0. There is no wait after a write that was refused. With
 * a hold_pass a completion that comes is held back. */
int ofi_exchange(struct ofi_poller *p, struct ofi_write *writes, int count, int64_t timeout_ns,
		 const uint32_t *word, uint32_t seen, int64_t glance_ns)
{
	uint64_t now, deadline;

	p->posting = 0;
	p->held = 0;
	now = ofi_monotonic();
	if (count) {
		if (ofi_post(writes, count) < count)
			timeout_ns = 0;
		p->posting = ofi_monotonic() - now;
	}
	if (!word || timeout_ns <= 0) {
		int got = ofi_poll(p, timeout_ns);

		if (got > 0 && !p->flags && p->hold_pass > 0)
			hold(p, now);
		return got;
	}
	now = ofi_monotonic();
	deadline = now + (uint64_t)timeout_ns;
	for (;;) {
		int64_t left = (int64_t)(deadline - now);
		int got = ofi_poll(p, left < glance_ns ? left : glance_ns);

		if (got || p->flags)
			return got;
		if (!glance_ns) {
			ofi_sleep_on_word(p, word, seen, deadline);
			return 0;
		}
		now = ofi_monotonic();
		if (now >= deadline || !word_holds(p, word, seen))
			return 0;
	}
}
