// The answers of the agent, as docs/api.md describes them.

export interface Info {
  host_id: string
  boot_id: string
  version: string
  mxl_version: string
  libfabric_version: string
  providers: string[]
  tai_offset_seconds: number
  mxl_root_tmpfs: boolean
}

export interface Status {
  ready: boolean
  nmos: boolean
  nmos_registered: boolean
  nmos_error: string
  tai_offset_seconds: number
  mxl_root_tmpfs: boolean
}

export interface Readiness {
  status: string
  reason?: string
}

export interface Rate {
  numerator: number
  denominator: number
}

export interface Unusable {
  name: string
  reason: string
}

export interface Flow {
  flow_id: string
  flow_def: Record<string, unknown> | null
  format: 'discrete' | 'continuous'
  media_type: string
  active: boolean
  live: boolean
  grain_rate: Rate
  sample_rate: Rate | null
  ring_depth: number
  payload_size: number
  head_index?: number
}

export interface Domain {
  domain_id: string
  path: string
  options: Record<string, unknown>
  flows: Flow[]
  not_replicable?: Unusable[]
}

export interface Inventory {
  host_id: string
  revision: number
  domains: Domain[]
  unusable?: Unusable[]
}

export interface Reader {
  pid: number
  comm: string
}

export interface Health {
  state: string
  reason: string
  last_grain_age_ms: number | null
  stale_since: number | null
  stale_after_ms: number
  rebuilds: number
  last_rebuild: number | null
  last_rebuild_reason: string | null
}

export interface MirrorFlow {
  flow_id: string
  label: string
  media_type: string
  format: string
  active: boolean
  state: string
  removal_error: string
  health: Health
}

export interface Mirror {
  domain_id: string
  path: string
  origin: { host_id: string; peer_up: boolean; on_peer: boolean; local: boolean }
  state: string
  on_disk: boolean
  demand: boolean
  idle_since: number | null
  age_s: number
  readers: Reader[]
  readers_known: boolean
  readers_error: string
  removal_error: string
  flows: MirrorFlow[]
}

export interface Removal {
  removed: boolean
  dry_run?: boolean
  path?: string
  flows?: number
  readers?: Reader[]
  error?: string
}

export interface Receiver {
  id: string
  label: string
  node_id: string
  node_label: string
  master_enable: boolean
  mxl_domain_id: string
  mxl_flow_id: string
  state: string
  source_host?: string
}

export interface Peer {
  host_id: string
  control_url: string
  up: boolean
  error: string
  warning: string // the agent that answers is another one than expected
  boot_id: string
  link_up: boolean
  link_error: string
  fabric_interface: string
  provider: string
  local_fabric_addr: string
  remote_fabric_addr: string
}

export interface PeerTest {
  host_id: string
  ok: boolean
  control_up?: boolean
  provider?: string
  fallback?: boolean
  error?: string
  detail?: string
}

export interface Replication {
  replication_id: string
  role: 'source' | 'destination'
  domain_id: string
  flow_id: string
  peer: string
  provider: string
  state: string
  grains: number
  bytes: number
  errors: number
  restarts: number
  head_index: number
  lag_grains: number
  lag_ms: number
  origin_gaps: number
  last_error: string
  fallback: boolean
}

export interface Explanation {
  ok: boolean
  broken: string
  summary: string
  steps: { step: string; peer?: string; ok: boolean | null; what: string; remedy?: string }[]
}

export type SettingValue = string | unknown[] | Record<string, unknown>

export interface Configuration {
  config: Record<string, SettingValue>
  origin: Record<string, 'env' | 'file' | 'default'>
  restart_required: boolean
}

// One entry of /assets/settings.json.
export interface Setting {
  name: string
  alias?: string
  default: string
  values: string
  live: boolean
  description: string
}
