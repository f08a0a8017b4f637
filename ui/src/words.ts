// What the agent's states mean, in words and in tone.

export type Tone = 'good' | 'wait' | 'bad' | 'calm' | 'note'

export interface Word {
  text: string
  tone: Tone
  means?: string
}

type Words = Record<string, Word>

const replication: Words = {
  active: { text: 'active', tone: 'good', means: 'Grains move.' },
  pending: { text: 'pending', tone: 'wait', means: 'Being set up; no grain has moved yet.' },
  idle: { text: 'idle', tone: 'calm', means: 'The destination has gone or has not connected.' },
  error: { text: 'error', tone: 'bad', means: 'Setting up failed; it is tried again.' },
  link_down: { text: 'link down', tone: 'bad', means: 'The local fabric link is down.' },
}

const mirrorDomain: Words = {
  active: { text: 'active', tone: 'good', means: 'Wanted, or kept for its origin.' },
  idle: { text: 'idle', tone: 'calm', means: 'Nothing wants it; it goes when the idle time is over.' },
  orphan: { text: 'orphan', tone: 'wait', means: 'No peer lists its origin; it goes when nobody reads it.' },
  same_node: { text: 'same node', tone: 'wait', means: 'Its origin is on this host; it goes when nobody reads it.' },
}

const mirrorFlow: Words = {
  replicating: { text: 'replicating', tone: 'good', means: 'There, and a replication is held.' },
  idle: { text: 'idle', tone: 'calm', means: 'There, no receiver wants it.' },
  absent: { text: 'absent', tone: 'calm', means: 'No mirror, and none is wanted now.' },
  orphaned: { text: 'orphaned', tone: 'wait', means: 'Wanted, but its origin has no writer.' },
  peer_down: { text: 'peer down', tone: 'bad', means: 'Its source does not answer.' },
  insufficient_space: { text: 'no space', tone: 'bad', means: 'It would leave less than TMPFS_RESERVE_MB free.' },
  conflict: { text: 'conflict', tone: 'bad', means: 'The domain is local here, or the directory is not ours.' },
}

const health: Words = {
  live: { text: 'live', tone: 'good', means: 'Grains are due and come.' },
  pending: { text: 'pending', tone: 'wait', means: 'Grains are due for a short time only.' },
  stale: { text: 'stale', tone: 'bad', means: 'Grains are due and do not come.' },
  idle: { text: 'idle', tone: 'calm', means: 'Nothing is due.' },
  absent: { text: 'absent', tone: 'calm', means: 'Not on disk.' },
}

const demand: Words = {
  replicating: { text: 'replicating', tone: 'good', means: 'A peer that is up lists the flow.' },
  local: { text: 'local', tone: 'calm', means: 'Not enabled, not routed, or the domain is on this host.' },
  stale_reference: { text: 'stale reference', tone: 'wait', means: 'A peer lists the domain, none the flow.' },
  unresolved: { text: 'unresolved', tone: 'bad', means: 'No peer lists the domain.' },
}

const vocabulary = { replication, mirrorDomain, mirrorFlow, health, demand }

export function word(kind: keyof typeof vocabulary, state: string): Word {
  return vocabulary[kind][state] ?? { text: state.replaceAll('_', ' '), tone: 'note' }
}

const reasons: Record<string, string> = {
  no_new_grains: 'no new grains come',
  no_first_grain: 'no first grain came',
  peer_down: 'the source does not answer',
  link_down: 'the fabric link is down',
  inventory_pending: 'the source’s inventory is not read yet',
  origin_missing: 'the source does not list the flow',
  origin_inactive: 'the origin has no writer',
  origin_gone: 'the origin has had no writer for long',
  origin_silent: 'the origin’s writer writes nothing',
  origin_not_live: 'the origin’s head is not current',
  no_demand: 'no receiver wants it',
  excluded: 'excluded by the mirror filter',
  origin_config_changed: 'the origin came back with another definition',
  replaced: 'something else replaced its files',
  api: 'by the API',
}

// reason gives a reason of the agent in words; what is not known stays as it is.
export function reason(code: string | null | undefined): string {
  if (!code) return ''
  const domain = code.match(/^mirror_domain_(.+)$/)
  if (domain) return `the mirror domain was removed (${(reasons[domain[1]!] ?? domain[1]!).replaceAll('_', ' ')})`
  return reasons[code] ?? code.replaceAll('_', ' ')
}

const peerErrors: Record<string, string> = {
  dns: 'its host name cannot be resolved',
  connect: 'no connection to its control port',
  send: 'the connection broke while sending',
  recv: 'it did not answer',
  'too large': 'its answer is too large',
  'bad url': 'its control URL is not one',
  'no control url': 'it has no control URL',
}

export function peerError(code: string): string {
  const status = code.match(/^http (\d+)$/)
  return status ? `it answered with status ${status[1]}` : (peerErrors[code] ?? code)
}
