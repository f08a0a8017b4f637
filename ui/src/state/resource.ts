import { ref, shallowRef, type Ref, type ShallowRef } from 'vue'
import { inWords } from '../api/client'

// Resource is one document of the agent that is read again and again.
export interface Resource<T> {
  value: ShallowRef<T | null>
  error: Ref<string> // why the newest read failed, empty when it did not
  load(): Promise<void> // reads now, or once more after the read that runs
  soon(): void // reads shortly; many calls are one read
  due(period: number): boolean // the newest read began longer ago than that, in ms
}

// soonest is the least time between two reads that events ask for, in ms.
const soonest = 300

// resource makes one. took is given what was read and when it was asked for, in ms
// of performance.now().
export function resource<T>(fetch: () => Promise<T>, took?: (value: T, asked: number) => void): Resource<T> {
  const value = shallowRef<T | null>(null)
  const error = ref('')
  let began = -Infinity
  let running: Promise<void> | null = null
  let again = false
  let timer = 0

  async function once() {
    began = performance.now()
    try {
      const next = await fetch()
      value.value = next
      error.value = ''
      took?.(next, began)
    } catch (cause) {
      error.value = inWords(cause)
    }
  }

  function load(): Promise<void> {
    if (running) {
      again = true
      return running
    }
    running = (async () => {
      do {
        again = false
        await once()
      } while (again)
      running = null
    })()
    return running
  }

  return {
    value,
    error,
    load,
    soon() {
      if (timer) return
      timer = window.setTimeout(
        () => {
          timer = 0
          void load()
        },
        Math.max(0, began + soonest - performance.now()),
      )
    },
    due: (period) => !running && performance.now() - began >= period,
  }
}
