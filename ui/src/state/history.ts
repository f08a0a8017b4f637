import { shallowRef, triggerRef } from 'vue'
import type { Replication } from '../api/types'

// Sample is what a replication did between two reads. null is "not known".
export interface Sample {
  at: number // ms, performance.now()
  bitsPerSecond: number | null
  grainsPerSecond: number | null
  lagMs: number | null
  ageMs: number | null
}

// kept is how far back plots reach, in ms.
export const kept = 180_000

export const replicationKey = (r: Replication) => `${r.role} ${r.replication_id} ${r.peer}`

interface Counted {
  at: number
  bytes: number
  grains: number
}

// shortest is the least time between two samples, in ms. Over less the rate would
// be that of a single grain, or of a page that was held up.
const shortest = 800

// Total is the same over all replications.
export interface Total {
  at: number
  incoming: number | null // bit/s; null while no row's rate is known
  outgoing: number | null
  lagMs: number | null // the largest
}

// createHistory keeps the samples of every replication for the plots.
export function createHistory() {
  const samples = shallowRef(new Map<string, Sample[]>())
  const last = new Map<string, Counted>()
  const totals = shallowRef<Total[]>([])

  // take adds a sample of every row. at is when the rows were asked for, which is
  // nearer to when they were counted than their arrival; age gives the age of a
  // flow's newest grain.
  function take(rows: Replication[], at: number, age: (r: Replication) => number | null) {
    if (at - (totals.value.at(-1)?.at ?? -Infinity) < shortest) return
    const present = new Set<string>()
    const known: Record<Replication['role'], number[]> = { source: [], destination: [] }
    for (const r of rows) {
      const key = replicationKey(r)
      present.add(key)
      const sample = sampleOf(r, last.get(key), at, age(r))
      last.set(key, { at, bytes: r.bytes, grains: r.grains })
      const list = samples.value.get(key) ?? []
      list.push(sample)
      while (list.length > 0 && list[0]!.at < at - kept) list.shift()
      samples.value.set(key, list)
      if (sample.bitsPerSecond !== null) known[r.role].push(sample.bitsPerSecond)
    }
    for (const key of samples.value.keys()) {
      if (present.has(key)) continue
      samples.value.delete(key)
      last.delete(key)
    }
    const lags = rows.filter((r) => r.role === 'destination' && r.state === 'active').map((r) => r.lag_ms)
    const sum = (role: Replication['role']) => sumOf(known[role], rows.some((r) => r.role === role))
    const total = { at, incoming: sum('destination'), outgoing: sum('source'), lagMs: lags.length ? Math.max(...lags) : null }
    totals.value = [...totals.value.filter((t) => t.at >= at - kept), total]
    triggerRef(samples)
  }

  return {
    take,
    totals,
    of: (r: Replication): Sample[] => samples.value.get(replicationKey(r)) ?? [],
    newest: (r: Replication): Sample | undefined => samples.value.get(replicationKey(r))?.at(-1),
  }
}

export type History = ReturnType<typeof createHistory>

// sumOf adds rates. Rows of which none has a rate yet have no sum; no rows have none
// to add.
export function sumOf(rates: number[], rows: boolean): number | null {
  return rates.length === 0 && rows ? null : rates.reduce((sum, rate) => sum + rate, 0)
}

// sampleOf compares a row with the one before. Counters that fell are those of a
// replication that began anew: nothing is known about the time between.
export function sampleOf(r: Replication, before: Counted | undefined, at: number, ageMs: number | null): Sample {
  const seconds = before ? (at - before.at) / 1000 : 0
  const rate = (now: number, then: number | undefined) =>
    then === undefined || seconds <= 0 || now < then ? null : (now - then) / seconds
  const bytesPerSecond = rate(r.bytes, before?.bytes)
  return {
    at,
    bitsPerSecond: bytesPerSecond === null ? null : bytesPerSecond * 8,
    grainsPerSecond: rate(r.grains, before?.grains),
    lagMs: r.role === 'destination' ? r.lag_ms : null,
    ageMs: r.role === 'destination' ? ageMs : null,
  }
}
