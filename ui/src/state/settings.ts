import { computed, reactive, ref } from 'vue'
import { AgentError, call, inWords } from '../api/client'
import type { Configuration, Setting, SettingValue } from '../api/types'
import type { Site } from './site'

// Shown is one setting as the form shows it.
export interface Shown extends Setting {
  group: string
  origin: 'env' | 'file' | 'default'
  text: string // the value as it is edited
  choices: string[] | null // a closed list of values
  document: boolean // JSON
}

const groups: [string, RegExp][] = [
  ['Host and MXL', /^(HOST_ID|MXL_|STATE_DIR|AGENT_CONFIG_FILE|SCAN_|TMPFS_)/],
  ['Mirrors', /^MIRROR_/],
  ['Peers', /^(PEER|RELEASE_)/],
  ['Fabric', /^(DEFAULT_PROVIDER|PROVIDER_|FABRIC_|RT_|CPU_|AUDIO_)/],
  ['NMOS', /^(NMOS_|LOCAL_NODE_)/],
]
const otherGroup = 'Page, log and metrics'
export const groupNames = [...groups.map(([name]) => name), otherGroup]

export const textOf = (value: SettingValue | undefined) => (value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value, null, 2))

// choicesOf reads the closed list of values out of the description of the key,
// in which values stand between backticks.
export function choicesOf(setting: Setting): string[] | null {
  if (/^`1`, `true`/.test(setting.values)) return ['true', 'false']
  const named = [...setting.values.matchAll(/`([^`]+)`/g)].map((m) => m[1]!)
  if (named.length === 0) return null
  return /empty/.test(setting.values) ? ['', ...named] : named
}

export function shownSettings(settings: Setting[], c: Configuration): Shown[] {
  return settings
    .filter((s) => s.name in c.config)
    .map((s) => {
      const value = c.config[s.name]
      return {
        ...s,
        group: groups.find(([, names]) => names.test(s.name))?.[0] ?? otherGroup,
        origin: c.origin[s.name] ?? 'default',
        text: textOf(value),
        choices: choicesOf(s),
        document: value !== undefined && typeof value !== 'string',
      }
    })
}

// useSettings is the form: what is shown, what was edited, and the deeds.
export function useSettings(site: Site) {
  const edits = reactive(new Map<string, string>())
  const busy = ref(false)
  const message = ref<{ tone: 'good' | 'bad'; text: string; about?: string } | null>(null)

  const shown = computed(() => {
    const c = site.config.value.value
    return c ? shownSettings(site.settings.value.value ?? [], c) : []
  })
  const restart = computed(() => site.config.value.value?.restart_required ?? false)

  function edit(s: Shown, text: string) {
    if (text === s.text) edits.delete(s.name)
    else edits.set(s.name, text)
  }

  // deed runs a change of the configuration and says what came of it.
  async function deed(method: string, path: string, body: string, success: string): Promise<boolean> {
    busy.value = true
    message.value = null
    try {
      const r = await call<{ restart_required: boolean }>(method, path, body)
      message.value = { tone: 'good', text: success + (r.restart_required ? ' A change waits for the agent’s restart.' : ' It is in effect.') }
      return true
    } catch (cause) {
      const off = cause instanceof AgentError && cause.status === 403
      const text = off && cause.message === 'ui disabled' ? 'Changes over the API are off (WEB_ENABLE).' : inWords(cause)
      message.value = { tone: 'bad', text: `Nothing was changed: ${text}`, about: shown.value.find((s) => text.startsWith(s.name))?.name }
      return false
    } finally {
      busy.value = false
      await site.config.load()
    }
  }

  // forget drops the edits of a deed. Those that were made while it ran stay.
  function forget(before: Map<string, string>) {
    for (const [name, text] of before) if (edits.get(name) === text) edits.delete(name)
  }

  async function save() {
    const sent = new Map(edits)
    const n = sent.size
    const patch = JSON.stringify(Object.fromEntries(sent))
    if (await deed('PUT', '/api/v1/config', patch, `${n === 1 ? 'One setting was' : `${n} settings were`} saved.`)) forget(sent)
  }

  const reset = async (s: Shown) => {
    const before = new Map([...edits].filter(([name]) => name === s.name))
    if (await deed('PUT', '/api/v1/config', JSON.stringify({ [s.name]: null }), `${s.name} is at its default again.`)) forget(before)
  }

  async function take(document: string, name: string) {
    const before = new Map(edits)
    if (await deed('POST', '/api/v1/config/import', document, `${name} was imported.`)) forget(before)
  }

  return { shown, edits, edit, busy, message, restart, save, reset, take, discard: () => (edits.clear(), (message.value = null)) }
}
