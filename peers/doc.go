// Package peers knows the other agents: who they are, what they offer, and
// whether they and the fabric links to them are up. It also holds the wire
// types of the agents' control API (agent API reference §4, §5, §8).
package peers
