// Names of the agent's server-sent events.
export const eventNames = ['inventory', 'replication', 'peer', 'mirror'] as const
export type EventName = (typeof eventNames)[number]

export interface AgentEvent {
  name: EventName
  data: unknown
}

export interface Stream {
  close(): void
}

const retryFirst = 1_000
const retryMost = 15_000
// The agent pings after 15 s of silence; twice that is a dead connection.
const silenceLimit = 35_000

// openStream follows /api/v1/events until close, opening it anew when it ends.
// changed tells whether events come; polling has to do while they do not.
export function openStream(on: (event: AgentEvent) => void, changed: (open: boolean) => void): Stream {
  let source: EventSource | null = null
  let timer = 0
  let delay = retryFirst
  let heard = 0

  function open() {
    source = new EventSource('/api/v1/events')
    source.onopen = () => {
      delay = retryFirst
      listen()
      changed(true)
    }
    source.onerror = again
    source.addEventListener('ping', listen)
    for (const name of eventNames) {
      source.addEventListener(name, (event) => {
        listen()
        try {
          on({ name, data: JSON.parse((event as MessageEvent<string>).data) })
        } catch {
          on({ name, data: null }) // something changed, whatever it was
        }
      })
    }
  }

  function listen() {
    clearTimeout(heard)
    heard = window.setTimeout(again, silenceLimit)
  }

  function again() {
    clearTimeout(heard)
    source?.close()
    source = null
    changed(false)
    clearTimeout(timer)
    timer = window.setTimeout(open, delay)
    delay = Math.min(delay * 2, retryMost)
  }

  open()
  return {
    close() {
      clearTimeout(timer)
      clearTimeout(heard)
      source?.close()
    },
  }
}
