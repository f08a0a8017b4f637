/* Batches of samples, one after the other in one call from Go. */
#ifndef MXL_FABRICS_SAMPLES_H
#define MXL_FABRICS_SAMPLES_H

#include "ofi.h"

#define OFI_BATCHES 256 /* most that one run moves */
#define OFI_SAMPLE_HEADER 16 /* of a bounce-buffer entry (MXL Fabrics reference §7.1) */

/* A ring of samples in somebody's files. */
struct ofi_ring {
	uint8_t *channels;    /* channel after channel */
	uint64_t length;      /* samples of one channel */
	uint64_t count;       /* channels */
	uint64_t word;        /* bytes of a sample */
	uint64_t *head;
	uint32_t *sync;
};

/* One batch that was moved; times are the lane's, in ns. */
struct ofi_batch {
	uint64_t head, count;
	uint64_t tai;         /* sender: before it was copied; receiver: when it was readable */
	int64_t began;        /* sender: as nextSamplePost counts, just before it was copied */
	int64_t posted;       /* sender */
	int64_t ended;        /* sender: completed, 0 while it is in flight; receiver: readable */
};

/* What a run has moved, and the times of the last of its cycles: when its wait began,
 * how long that might have lasted, when it was over, and, of a sender, when the batch
 * was posted. */
struct ofi_run {
	struct ofi_batch batches[OFI_BATCHES];
	uint32_t count;
	int64_t began, allowed, woke, posted;
	int32_t schedstat;      /* descriptor of the thread's, or 0 */
	int64_t noted, starved; /* when it was last read, and ns without a processor by then */
};

/* Numbers that others read while a run lasts: package ofi, SampleCounts. */
struct ofi_sample_counts {
	uint64_t head, batch, at, batches, samples, bytes;
};

struct ofi_sink {
	struct ofi_ring ring;
	uint8_t *entries;
	uint64_t stride, entry_size, entry_count;
	uint64_t sync_batch, early, woken; /* which commits wake (MXL format reference §8) */
	struct fid_ep *receiver;           /* NULL where immediates take no receive */
	void *receive, *receive_desc;
	uint64_t receive_len;
	int32_t unposted;                  /* receives that could not be posted again */
	struct ofi_run run;
};

struct ofi_remote {
	uint64_t address, key;
};

struct ofi_feed {
	struct ofi_ring ring;
	struct ofi_write write;    /* of the next batch */
	struct ofi_remote *remote; /* bounce-buffer entries */
	uint64_t remotes;
	uint8_t *buffers;          /* what is sent from, in turn */
	uint64_t stride, buffer_count;
	uint64_t entry;            /* number of the next batch */
	uint64_t next;             /* sample */
	uint64_t limit;            /* samples of a batch */
	int64_t next_post;         /* lane time */
	int64_t pass, gap;         /* ns */
	struct ofi_run run;
};

int ofi_receive_samples(struct ofi_poller *p, struct ofi_sink *s, struct ofi_sample_counts *counts,
			int64_t now, int64_t wait_ns, int64_t run_ns);
int ofi_send_samples(struct ofi_poller *p, struct ofi_feed *f, struct ofi_sample_counts *counts,
		     int64_t now, int64_t end);
int64_t ofi_next_post(int64_t posted, int64_t completed, int64_t pass, int64_t gap);

#endif
