/* C side of package ofi: what has to happen in one call from Go. */
#ifndef MXL_FABRICS_OFI_H
#define MXL_FABRICS_OFI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define OFI_MAX_SEGMENTS 8
#define OFI_CM_DATA 256 /* tcp's connection data limit; verbs carries 55 */

/* One RMA write of a batch. */
struct ofi_write {
	struct fid_ep *ep;
	uint64_t token;       /* op_context of the completion */
	uint64_t remote_addr;
	uint64_t remote_key;
	uint64_t immediate;
	uint32_t has_immediate;
	uint32_t segments;
	int32_t result;       /* 0 or a negative fi_errno, set by ofi_post */
	uint32_t reserved;
	struct iovec iov[OFI_MAX_SEGMENTS];
	void *desc[OFI_MAX_SEGMENTS];
};

struct ofi_event {
	uint32_t kind;        /* FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN or 0 */
	int32_t error;        /* positive fi_errno of an error event */
	struct fid *fid;
	struct fi_info *info; /* FI_CONNREQ only, owned by the reader */
	uint32_t data_len;
	uint8_t data[OFI_CM_DATA];
};

#define OFI_WOKEN 1
#define OFI_EVENT 2
#define OFI_CQ_ERROR 4
#define OFI_WORD_ERROR 8

/* What one thread waits on and what it got. */
struct ofi_poller {
	struct fid_fabric *fabric;
	struct fid_cq *cq;
	struct fid_eq *eq;
	int cq_fd, eq_fd, wake_fd;
	int capacity;
	uint32_t flags;       /* OFI_WOKEN | OFI_EVENT | OFI_CQ_ERROR | OFI_WORD_ERROR */
	uint32_t idle_eq;     /* wakes in a row that the event queue had nothing for */
	uint64_t eq_rest;     /* monotonic ns until which its descriptor is left out */
	uint64_t interrupted; /* EINTR seen */
	uint64_t posting;     /* ns that ofi_exchange spent posting */
	const uint32_t *head; /* looked at every head_every ns of a sleep on the word */
	uint32_t head_seen;
	int64_t head_every;   /* 0: not at all */
	int64_t hold_age;     /* ns since the transfer in flight was posted */
	int64_t hold_pass, hold_gap; /* ns; no hold where hold_pass is 0 */
	uint64_t held;        /* ns that ofi_exchange held a completion back */
	int32_t word_error;   /* errno of OFI_WORD_ERROR */
	struct fi_cq_err_entry error;
	struct ofi_event event;
	struct fi_cq_data_entry *entries;
};

void ofi_setup(void);
int ofi_getinfo(const char *provider, const char *node, uint64_t caps,
		uint32_t addr_format, uint64_t flags, struct fi_info **out);
int ofi_info_set_peer(struct fi_info *info, const void *addr, size_t len);
int ofi_open_cq(struct fid_domain *domain, size_t depth, struct fid_cq **cq, int *fd);
int ofi_open_eq(struct fid_fabric *fabric, size_t depth, struct fid_eq **eq, int *fd);
int ofi_register(struct fid_domain *domain, void *base, size_t len, uint64_t access,
		 uint64_t key, struct fid_mr **mr);
int ofi_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len, bool tcp);
int ofi_post(struct ofi_write *writes, int count);
int ofi_post_receives(struct fid_ep *ep, void *buf, size_t len, void *desc, int count);
int ofi_poll(struct ofi_poller *p, int64_t timeout_ns);
int ofi_poll_armed(struct ofi_poller *p, int64_t timeout_ns, bool *armed);
void ofi_sleep_on_word(struct ofi_poller *p, const uint32_t *word, uint32_t seen, uint64_t deadline);
uint64_t ofi_monotonic(void);
int ofi_exchange(struct ofi_poller *p, struct ofi_write *writes, int count, int64_t timeout_ns,
		 const uint32_t *word, uint32_t seen, int64_t glance_ns);

#endif
