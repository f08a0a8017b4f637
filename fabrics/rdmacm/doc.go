// Package rdmacm stands between libfabric's verbs provider and librdmacm. Its C
// side exports rdma_connect, rdma_accept, rdma_get_cm_event, rdma_destroy_id and
// rdma_destroy_ep from the executable, in front of the library's: every queue pair
// that the process makes gets the ACK timeout and the retry count of Configure, and
// is read back once its connection stands (contract, "Audio timing"; MXL Fabrics
// reference §11.3).
//
// The functions are the process's, so the settings and the queue behind them are
// too. They run on whichever thread reads connection events, never wait and never
// call Go. A host without RDMA devices never calls them.
package rdmacm
