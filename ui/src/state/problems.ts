import { peerError, reason, type Tone } from '../words'
import { few } from '../units'
import type { Site } from './site'

export interface Problem {
  tone: Tone
  text: string
  tab: string
}

// problemsOf lists what needs attention, the worst first, in words.
export function problemsOf(site: Site): Problem[] {
  const list: Problem[] = []
  const add = (tone: Tone, tab: string, text: string) => list.push({ tone, tab, text })

  const readiness = site.readiness.value.value
  if (readiness?.reason) add('bad', 'overview', `The agent is not ready: ${readiness.reason}.`)
  const status = site.status.value.value
  if (status) {
    if (status.tai_offset_seconds === 0) add('bad', 'overview', 'The kernel’s TAI offset is 0 s, it should be 37 s: grain indexes are wrong against other hosts. Let PTP or chrony set it.')
    if (!status.mxl_root_tmpfs) add('wait', 'settings', 'The MXL root is not on a tmpfs: every grain is written to a disk’s cache.')
    if (status.nmos && status.nmos_error) add('bad', 'demand', `NMOS: ${status.nmos_error}.`)
    if (!status.nmos) add('note', 'settings', 'NMOS is off: receivers are not seen, nothing is replicated for them.')
  }
  for (const p of site.peers.value.value ?? []) {
    if (!p.up) add('bad', 'peers', `Peer ${p.host_id} is down: ${peerError(p.error) || 'not polled yet'}.`)
    else if (!p.link_up) add('bad', 'peers', `The fabric link to ${p.host_id} is down: ${p.link_error || 'no reason given'}.`)
    if (p.warning) add('wait', 'peers', `Peer ${p.host_id}: ${p.warning}.`)
  }
  for (const m of site.mirrors.value.value ?? []) {
    for (const f of m.flows) {
      const name = `${site.flowName(f.flow_id) || f.flow_id} from ${m.origin.host_id}`
      if (f.health.state === 'stale') add('bad', 'mirrors', `The mirror of ${name} is stale: ${reason(f.health.reason)}.`)
      else if (f.state === 'insufficient_space') add('bad', 'mirrors', `No space for the mirror of ${name}.`)
      else if (f.state === 'conflict') add('bad', 'mirrors', `The mirror of ${name} is in conflict with a local domain or another agent’s directory.`)
    }
  }
  for (const r of site.replications.value.value ?? []) {
    if (r.state === 'error') add('bad', 'replications', `${r.role === 'source' ? 'Sending' : 'Receiving'} ${site.flowName(r.flow_id) || r.flow_id} ${r.role === 'source' ? 'to' : 'from'} ${r.peer}: ${r.last_error || 'error'}.`)
    else if (r.fallback) add('wait', 'replications', `${site.flowName(r.flow_id) || r.flow_id} with ${r.peer} runs over tcp in place of verbs.`)
  }
  const receivers = site.demand.value.value?.receivers ?? []
  const lost = (state: string) => receivers.filter((r) => r.state === state).length
  if (lost('unresolved')) add('wait', 'demand', `${few(lost('unresolved'), 'receiver wants', 'receivers want')} a domain that no peer lists.`)
  if (lost('stale_reference')) add('wait', 'demand', `${few(lost('stale_reference'), 'receiver wants', 'receivers want')} a flow that its host does not list.`)
  const inventory = site.inventory.value.value
  const refused = (inventory?.domains ?? []).reduce((n, d) => n + (d.not_replicable?.length ?? 0), 0)
  if (refused) add('wait', 'domains', `${few(refused, 'flow directory', 'flow directories')} cannot be replicated.`)
  if (inventory?.unusable?.length) add('wait', 'domains', `${few(inventory.unusable.length, 'domain directory', 'domain directories')} cannot be used.`)

  const order: Tone[] = ['bad', 'wait', 'note', 'good', 'calm']
  return list.sort((a, b) => order.indexOf(a.tone) - order.indexOf(b.tone))
}
