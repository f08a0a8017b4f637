/* C side of package rdmacm: functions in front of librdmacm's. */
#ifndef MXL_FABRICS_RDMACM_H
#define MXL_FABRICS_RDMACM_H

#include <stdint.h>

#define RDMACM_SOURCE 1
#define RDMACM_DESTINATION 2
#define RDMACM_ADDRESS 28 /* sizeof(struct sockaddr_in6) */
#define RDMACM_DEVICE 64  /* IBV_SYSFS_NAME_MAX */

/* One established queue pair. */
struct rdmacm_pair {
	uint32_t role;
	uint32_t qp_num;
	int32_t option_error; /* errno of rdma_set_option, 0 */
	int32_t query_error;  /* errno of ibv_query_qp, 0 */
	uint8_t ack_wanted, retry_wanted; /* settings at the time, 0: left alone */
	uint8_t ack_timeout, retry_count, rnr_retry; /* as the queue pair reports them */
	uint8_t local[RDMACM_ADDRESS], remote[RDMACM_ADDRESS];
	char device[RDMACM_DEVICE];
};

void rdmacm_configure(uint8_t ack_timeout, uint8_t retry_count);
int rdmacm_hooked(void);
int rdmacm_next(struct rdmacm_pair *out);
uint64_t rdmacm_dropped(void);

#endif
