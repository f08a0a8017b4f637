// Numbers with their units. Everything gives text; '–' stands for "none".

import type { Rate } from './api/types'

export const none = '–'

function scaled(value: number, units: string[], step: number): string {
  let i = 0
  while (Math.abs(value) >= step && i < units.length - 1) {
    value /= step
    i++
  }
  const digits = i === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return `${value.toFixed(digits)} ${units[i]}`
}

export function bitRate(bitsPerSecond: number | null | undefined): string {
  return bitsPerSecond == null ? none : scaled(bitsPerSecond, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s'], 1000)
}

export function bytes(n: number | null | undefined): string {
  return n == null ? none : scaled(n, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000)
}

export function count(n: number | null | undefined): string {
  return n == null ? none : n.toLocaleString('en-GB').replaceAll(',', '\u202f')
}

export function perSecond(n: number | null | undefined): string {
  return n == null ? none : `${n >= 100 ? n.toFixed(0) : n.toFixed(1)} /s`
}

export function milliseconds(ms: number | null | undefined): string {
  if (ms == null) return none
  if (Math.abs(ms) < 100) return `${ms.toFixed(1)} ms`
  return Math.abs(ms) < 10_000 ? `${Math.round(ms)} ms` : duration(ms / 1000)
}

// duration gives seconds as the two largest units.
export function duration(seconds: number | null | undefined): string {
  if (seconds == null) return none
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`
}

// since gives how long ago a Unix time was.
export function since(unixSeconds: number | null): string {
  return unixSeconds == null ? none : duration(Date.now() / 1000 - unixSeconds)
}

export function clock(at: number): string {
  const d = new Date(at)
  const two = (n: number) => String(n).padStart(2, '0')
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, '0')}`
}

// rate gives 30000/1001 as 29.97 and 48000/1 as 48 000.
export function rate(r: Rate | null | undefined): string {
  if (!r || r.denominator === 0) return none
  const value = r.numerator / r.denominator
  return Number.isInteger(value) ? count(value) : value.toFixed(2)
}

// plain is a name from elsewhere, fit for a line: without what breaks lines or turns
// the direction of what follows, and not endless.
export function plain(text: unknown, most = 100): string {
  const line = [...String(text ?? '').replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '').replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()]
  return line.length > most ? line.slice(0, most - 1).join('') + '…' : line.join('')
}

export function few(n: number, one: string, many = one + 's'): string {
  return `${count(n)} ${n === 1 ? one : many}`
}
