// Package mesh runs the real binaries on one machine: two agents on loopback
// tcp with an MXL root each on /dev/shm, an NMOS registry with receivers, and
// whatever media functions a test adds. Everything it starts, it ends; every
// file it makes outside the log directory, it removes.
package mesh
