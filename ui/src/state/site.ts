import { computed, inject, ref, shallowRef, type InjectionKey } from 'vue'
import { read } from '../api/client'
import { openStream, type AgentEvent, type EventName } from '../api/stream'
import type {
  Configuration,
  Info,
  Inventory,
  Mirror,
  Peer,
  Readiness,
  Receiver,
  Replication,
  Setting,
  Status,
} from '../api/types'
import { createHistory } from './history'
import { resource, type Resource } from './resource'
import { plain } from '../units'

export interface Heard extends AgentEvent {
  at: number // Unix ms
  serial: number
}

const eventsKept = 500

// Every resource with how often it is read, in ms: while events tell of changes,
// and while they do not. Counters and ages change without events.
interface Read {
  what: Resource<unknown>
  withEvents: number
  without: number
}

// createSite is this agent as the page sees it: its documents, read again when
// events tell of changes and every so often.
export function createSite() {
  const info = resource(() => read<Info>('/api/v1/info'))
  const status = resource(() => read<Status>('/statusz'))
  const readiness = resource(() => read<Readiness>('/readyz', [503]))
  const inventory = resource(() => read<Inventory>('/api/v1/inventory'))
  const mirrors = resource(() => read<Mirror[]>('/api/v1/mirrors'))
  const demand = resource(() => read<{ receivers: Receiver[] }>('/api/v1/demand'))
  const peers = resource(() => read<Peer[]>('/api/v1/peers'))
  const config = resource(() => read<Configuration>('/api/v1/config'))
  const settings = resource(() => read<Setting[]>('/assets/settings.json'))
  const history = createHistory()
  const replications = resource(
    () => read<Replication[]>('/api/v1/replications'),
    (rows, asked) => history.take(rows, asked, (r) => mirrorFlow(r)?.health.last_grain_age_ms ?? null),
  )

  const reads: Read[] = [
    { what: replications, withEvents: 1_000, without: 1_000 },
    { what: mirrors, withEvents: 1_000, without: 1_000 },
    { what: demand, withEvents: 2_000, without: 2_000 },
    { what: inventory, withEvents: 5_000, without: 2_000 },
    { what: peers, withEvents: 5_000, without: 2_000 },
    { what: status, withEvents: 5_000, without: 2_000 },
    { what: readiness, withEvents: 5_000, without: 2_000 },
    { what: info, withEvents: 10_000, without: 5_000 },
  ]

  const streaming = ref(false)
  const events = shallowRef<Heard[]>([])
  let serial = 0
  const concerns: Record<EventName, Resource<unknown>[]> = {
    inventory: [inventory],
    replication: [replications, mirrors],
    peer: [peers, demand],
    mirror: [mirrors, replications],
  }

  function heard(event: AgentEvent) {
    events.value = [{ ...event, at: Date.now(), serial: ++serial }, ...events.value].slice(0, eventsKept)
    for (const r of concerns[event.name]) r.soon()
  }

  function beat() {
    if (document.hidden) return
    for (const r of reads) if (r.what.due(streaming.value ? r.withEvents : r.without)) void r.what.load()
  }

  // run begins to read; it goes on until the page ends.
  function run() {
    openStream(heard, (open) => {
      streaming.value = open
      // What happened while no events came is not known.
      if (open) for (const r of reads) r.what.soon()
    })
    beat()
    window.setInterval(beat, 250)
    document.addEventListener('visibilitychange', beat)
  }

  function mirrorFlow(r: Replication) {
    return mirrors.value.value?.find((m) => m.domain_id === r.domain_id)?.flows.find((f) => f.flow_id === r.flow_id)
  }

  const names = computed(() => {
    const found = new Map<string, string>()
    for (const m of mirrors.value.value ?? []) for (const f of m.flows) found.set(f.flow_id, plain(f.label) || f.media_type)
    for (const d of inventory.value.value?.domains ?? []) {
      for (const f of d.flows) found.set(f.flow_id, plain(f.flow_def?.label) || f.media_type)
    }
    return found
  })

  return {
    info,
    status,
    readiness,
    inventory,
    mirrors,
    demand,
    peers,
    config,
    settings,
    replications,
    history,
    events,
    streaming,
    run,
    clearEvents: () => (events.value = []),
    // flowName is a flow's label, or its media type when it has none.
    flowName: (id: string) => names.value.get(id) ?? '',
    // answering is false while nothing can be read.
    answering: computed(() => replications.error.value === '' || info.error.value === ''),
  }
}

export type Site = ReturnType<typeof createSite>
export const siteKey: InjectionKey<Site> = Symbol('site')

export function useSite(): Site {
  const site = inject(siteKey)
  if (!site) throw new Error('no site is provided')
  return site
}
