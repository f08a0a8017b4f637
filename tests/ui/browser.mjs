// Chromium with what a closed network needs, a page that tolerates no error, and
// small words for the walk.
import { chromium } from 'playwright-core'
import axe from 'axe-core'
import assert from 'node:assert/strict'
import { mkdtempSync, mkdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const shots = 'build/ui'
mkdirSync(shots, { recursive: true })

export async function openBrowser() {
  const profile = mkdtempSync(join(tmpdir(), 'mxl-ui-'))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    viewport: { width: 1280, height: 800 },
    colorScheme: 'dark',
    acceptDownloads: true,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  })
  context.setDefaultTimeout(30_000) // of a busy machine
  return {
    context,
    close: async () => {
      await context.close()
      rmSync(profile, { recursive: true, force: true })
    },
  }
}

// openPage loads an agent's page and collects what must not happen: errors on the
// console (a breach of the content policy is one) and requests to other hosts.
export async function openPage(context, url, expected = () => false) {
  const page = await context.newPage()
  const faults = []
  page.on('console', (m) => {
    if (m.type() === 'error' && !expected(m)) faults.push(`console: ${m.text()} ${m.location().url}`)
  })
  page.on('pageerror', (e) => faults.push(`exception: ${e.stack}`))
  page.on('request', (r) => {
    if (!r.url().startsWith(url + '/') && !r.url().startsWith('data:')) faults.push(`request to ${r.url()}`)
  })
  await page.goto(url + '/')
  await page.getByRole('tab', { name: 'Overview' }).waitFor()
  return { page, faults }
}

export const panel = (page) => page.getByRole('tabpanel')

export async function go(page, title) {
  await page.getByRole('tab', { name: title, exact: true }).click()
  await page.getByRole('tabpanel', { name: title, exact: true }).waitFor()
}

// says waits until the text is on the page.
export const says = (where, text) => where.getByText(text).first().waitFor()

// fits holds that nothing is wider than the window.
export async function fits(page, what) {
  const { inside, window } = await page.evaluate(() => ({ inside: document.documentElement.scrollWidth, window: document.documentElement.clientWidth }))
  assert.ok(inside <= window, `${what}: the content is ${inside} px wide in a window of ${window} px`)
}

// accessible scans with axe; serious and critical findings fail, others are told.
export async function accessible(page, what) {
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  const told = violations.map((v) => `${what}: ${v.impact} ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`)
  for (const t of told) console.log('  ' + t)
  assert.deepEqual(violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => v.id), [], told.join('\n'))
}

export const shot = (page, name) => page.screenshot({ path: join(shots, name + '.png'), fullPage: true })
