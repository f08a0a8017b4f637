// Walks the admin page of two running agents (see main.go) like an operator.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { accessible, fits, go, openBrowser, openPage, panel, says, shot, shots } from './browser.mjs'

const { A, B, DOMAIN, HOLD_PID, READERS_KNOWN } = process.env
const known = READERS_KNOWN === 'true'
const titles = ['Overview', 'Domains and flows', 'Replications', 'Demand', 'Peers', 'Mirrors', 'Settings', 'Events']
const file = (title) => title.toLowerCase().split(' ')[0]

const get = async (url) => (await fetch(url)).json()
const config = async (name) => (await get(B + '/api/v1/config')).config[name]

async function until(what, condition) {
  const deadline = Date.now() + 15_000
  for (;;) {
    if (await condition()) return
    assert.ok(Date.now() < deadline, `not within 15 s: ${what}`)
    await new Promise((r) => setTimeout(r, 100))
  }
}

let point = 0
async function step(what, deed) {
  const began = Date.now()
  try {
    const note = await deed()
    console.log(`ok ${++point} ${what} (${Date.now() - began} ms)${note ? ': ' + note : ''}`)
  } catch (cause) {
    console.log(`FAIL ${++point} ${what}`)
    throw cause
  }
}

const { context, close } = await openBrowser()
try {
  // A refused removal and an invalid setting are answers here, not faults.
  const { page, faults } = await openPage(context, B, (m) => /status of 40[09]/.test(m.text()))
  const dialog = page.getByRole('dialog')
  const setting = (name) => page.getByLabel(name, { exact: true })
  const save = () => page.getByRole('button', { name: /^Save/ }).click()

  await step('the overview shows this host, its peers and what needs attention', async () => {
    await says(page.locator('header'), 'live')
    await page.getByRole('img', { name: /host-a is up: 1 flow to it, 4 flows from it/ }).waitFor()
    await says(panel(page), /Peer host-c is down: no connection to its control port/)
    await says(panel(page), /Peer host-d: its control url leads to this agent itself/)
    await until('throughput is shown', async () => /Mbit\/s/.test(await page.getByRole('button', { name: /^Received/ }).innerText()))
  })

  await step('tabs are walked by keyboard, and the focus is seen', async () => {
    await page.getByRole('tab', { name: 'Overview' }).focus()
    for (const title of [...titles.slice(1), titles[0]]) {
      await page.keyboard.press('ArrowRight')
      await page.getByRole('tab', { name: title, exact: true, selected: true }).waitFor()
      assert.equal(await page.evaluate(() => document.activeElement.textContent), title)
    }
    await page.keyboard.press('End')
    await page.getByRole('tab', { name: 'Events', selected: true }).waitFor()
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle)
    assert.notEqual(outline, 'none')
    await page.goBack()
    await page.getByRole('tab', { name: 'Overview', selected: true }).waitFor()
  })

  await step('domains and flows, with those that cannot be replicated and why', async () => {
    const { page: source, faults: none } = await openPage(context, A)
    await go(source, 'Domains and flows')
    await says(panel(source), '960×540')
    await says(panel(source), '8 channels')
    await says(panel(source), /5cee.* cannot be replicated: /)
    await says(panel(source), /broken cannot be used: /)
    await says(panel(source), 'host-b')
    await source.getByPlaceholder('Filter').fill('main mix')
    await says(panel(source), /^1 of \d+ rows$/)
    await source.getByPlaceholder('Filter').fill('')
    await shot(source, 'domains-source-1280')
    await accessible(source, 'domains of the source')
    assert.deepEqual(none, [])
    await source.close()
  })

  // Names are text, whoever wrote them: nothing of them runs, is loaded or becomes an
  // element, and they break no layout (every tab is measured below).
  await step('names of a hostile writer are shown as text', async () => {
    const { page: source, faults: none } = await openPage(context, A)
    const shown = '<script>taken=1</script><img src=x onerror=taken=1>{{taken=1}} "\'`taken=1` WWWW'
    for (const [where, title] of [[source, 'Domains and flows'], [page, 'Replications'], [page, 'Demand'], [page, 'Mirrors'], [page, 'Overview']]) {
      await go(where, title)
      if (title !== 'Overview') await says(panel(where), shown)
      assert.equal(await where.locator('main script, main img, main [onerror]').count(), 0, title)
      assert.equal(await where.evaluate(() => 'taken' in globalThis), false, title)
      await fits(where, `${title} with hostile names`)
    }
    await says(panel(page), /from 4 flows/)
    await go(source, 'Domains and flows')
    await says(panel(source), '<img src=x onerror=taken=1>')
    await shot(source, 'hostile-1280')
    await source.setViewportSize({ width: 390, height: 844 })
    await fits(source, 'hostile names at 390 px')
    await shot(source, 'hostile-390')
    assert.deepEqual(none, [])
    await source.close()
  })

  await step('replications move, with plots', async () => {
    await go(page, 'Replications')
    await page.getByRole('button', { name: /^Plots of Camera 1 from host-a/ }).click()
    await page.getByRole('img', { name: /^Throughput: now [\d.]+ Mbit\/s/ }).waitFor()
    await page.getByRole('img', { name: /^Lag behind TAI: now [\d.]+ ms/ }).waitFor()
    await page.getByRole('img', { name: /^Age of the newest grain: now [\d.]+ ms/ }).waitFor()
  })

  await step('demand shows every receiver', async () => {
    await go(page, 'Demand')
    for (const text of ['replicating', 'unresolved', 'local', 'No peer lists the domain.']) await says(panel(page), text)
    await page.getByRole('button', { name: 'Explain 0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5cff' }).click()
    for (const text of ['receiver', 'connection', 'origin']) await says(dialog, text)
    assert.match(await dialog.locator('.message').innerText(), /domain|peer/)
    await accessible(page, 'an explanation')
    await shot(page, 'explained-1280')
    await dialog.getByRole('button', { name: 'Close' }).click()
  })

  await step('a peer that is another agent than expected is named', async () => {
    await go(page, 'Peers')
    const { warning } = (await get(B + '/api/v1/peers')).find((p) => p.host_id === 'host-d')
    assert.equal(warning, 'its control url leads to this agent itself')
    await says(panel(page), `Who it is: ${warning}.`)
    assert.equal(await panel(page).getByText('Who it is:').count(), 1) // and no other one
  })

  await step('peers are tested', async () => {
    await page.getByRole('button', { name: 'Test host-a' }).click()
    await says(panel(page), /All is well over tcp: /)
    await page.getByRole('button', { name: 'Test host-c' }).click()
    await says(panel(page), /The control port does not answer/)
    await shot(page, 'peers-tested-1280')
  })

  await step('a mirror with a reader is not removed', async () => {
    await go(page, 'Mirrors')
    await page.getByRole('button', { name: `Remove the mirror of domain ${DOMAIN}` }).click()
    await dialog.waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: `Remove the mirror of domain ${DOMAIN}` }).click()
    await dialog.getByRole('button', { name: 'Remove', exact: true }).click()
    await says(dialog, 'Refused.')
    const text = await dialog.getByRole('alert').innerText()
    if (known) assert.match(text, new RegExp(`pid ${HOLD_PID} \\(mxl-pattern\\)`))
    else assert.match(text, /not|unknown|could/)
    await shot(page, 'refused-1280')
    await accessible(page, 'the refusal')
    await page.setViewportSize({ width: 390, height: 844 })
    await shot(page, 'refused-390')
    await page.setViewportSize({ width: 1280, height: 800 })
    return text.replaceAll('\n', ' ')
  })

  await step(known ? 'without the reader it is removed, and comes back' : 'the refusal says that readers are not known', async () => {
    if (known) {
      process.kill(Number(HOLD_PID), 'SIGTERM')
      await until('the reader has gone', async () => !(await get(B + '/api/v1/mirrors')).some((m) => m.readers.length))
      await dialog.getByRole('button', { name: 'Try again' }).click()
      await says(dialog, /was removed with 2 flows/)
      await dialog.getByRole('button', { name: 'Close' }).click()
      await says(panel(page), 'the mirror domain was removed (by the API)')
    } else {
      await dialog.getByRole('button', { name: 'Close' }).click()
      await says(panel(page), /not all known: /)
    }
  })

  await step('a live setting is changed and saved', async () => {
    await go(page, 'Settings')
    await setting('MIRROR_STALE_MS').fill('3000')
    await save()
    await says(page, 'One setting was saved. It is in effect.')
    assert.equal(await config('MIRROR_STALE_MS'), '3000')
  })

  await step('an edit that is made while another is saved stays', async () => {
    let read
    const asked = new Promise((resolve) => (read = resolve))
    let answer
    const held = new Promise((resolve) => (answer = resolve))
    await page.route('**/api/v1/config', async (route) => {
      if (route.request().method() === 'GET') {
        read()
        await held
      }
      await route.continue()
    })
    await setting('MIRROR_GRACE_S').fill('11')
    await save()
    await asked // saved, and the page reads the configuration anew
    await setting('MIRROR_STALE_MS').fill('soon')
    answer()
    await until('the save is over', async () => (await page.getByRole('button', { name: /^Save/, disabled: false }).count()) === 1)
    await page.unroute('**/api/v1/config')
    assert.equal(await config('MIRROR_GRACE_S'), '11')
    assert.equal(await setting('MIRROR_STALE_MS').inputValue(), 'soon')
  })

  await step('an invalid setting changes nothing and is told', async () => {
    await save()
    await says(page.getByRole('alert'), /Nothing was changed: MIRROR_STALE_MS="soon": must be a decimal integer/)
    assert.equal(await config('MIRROR_STALE_MS'), '3000')
    await shot(page, 'settings-wrong-1280')
    await accessible(page, 'a wrong setting')
    await page.getByRole('button', { name: 'Discard' }).click()
    assert.equal(await setting('MIRROR_STALE_MS').inputValue(), '3000')
  })

  await step('what the environment holds cannot be edited; what needs a restart says so', async () => {
    assert.equal(await setting('HOST_ID').getAttribute('readonly'), '')
    await setting('LOG_LEVEL').selectOption('debug')
    await save()
    await says(page, /waits for the agent’s restart/)
    await says(page, /apply at the agent’s next start/)
  })

  await step('export, change, import: as exported', async () => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Export' }).click()])
    assert.equal(download.suggestedFilename(), 'host-b.json')
    const path = join(shots, 'exported.json')
    await download.saveAs(path)
    assert.equal(JSON.parse(readFileSync(path, 'utf8')).MIRROR_STALE_MS, '3000')

    await setting('MIRROR_STALE_MS').fill('4000')
    await save()
    await until('the change is saved', async () => (await config('MIRROR_STALE_MS')) === '4000')
    await page.getByLabel('Configuration to import').setInputFiles(path)
    await dialog.getByRole('button', { name: 'Import' }).click()
    await says(page, /exported.json was imported/)
    assert.equal(await config('MIRROR_STALE_MS'), '3000')
    await until('the form shows it', async () => (await setting('MIRROR_STALE_MS').inputValue()) === '3000')

    const wrong = join(shots, 'wrong.json')
    writeFileSync(wrong, '{"MIRROR_STALE_MS":"-1"}')
    await page.getByLabel('Configuration to import').setInputFiles(wrong)
    await dialog.getByRole('button', { name: 'Import' }).click()
    await says(page.getByRole('alert'), /Nothing was changed: MIRROR_STALE_MS/)
    assert.equal(await config('MIRROR_STALE_MS'), '3000')
    await page.getByRole('button', { name: 'Dismiss' }).click()
  })

  await step('a setting goes back to its default', async () => {
    await page.getByRole('button', { name: 'Reset MIRROR_STALE_MS to its default' }).click()
    await until('the default is back', async () => (await config('MIRROR_STALE_MS')) === '2000')
  })

  await step('events are listed', async () => {
    await go(page, 'Events')
    await says(panel(page), /The inventory of this host changed: revision \d+\./)
    if (known) await says(panel(page), /was rebuilt: the mirror domain was removed/)
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByRole('button', { name: /^Go on/ }).click()
  })

  // The colours are the same at every width: light is looked at once.
  for (const [width, height, scheme] of [[390, 844, 'dark'], [1280, 800, 'dark'], [1280, 800, 'light']]) {
    await step(`every tab at ${width} px in ${scheme}: fits, is accessible, is photographed`, async () => {
      await page.setViewportSize({ width, height })
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
      for (const title of titles) {
        await go(page, title)
        if (title === 'Replications') await page.getByRole('button', { name: /^Plots of Camera 1 from/ }).click()
        await page.getByText('Reading…').waitFor({ state: 'detached' })
        await fits(page, `${title} at ${width} px`)
        await accessible(page, `${title} at ${width} px in ${scheme}`)
        if (scheme === 'dark' || title === 'Overview' || title === 'Settings') await shot(page, `${file(title)}-${width}${scheme === 'light' ? '-light' : ''}`)
      }
    })
  }

  await step('the choice of colours holds over a reload', async () => {
    await page.setViewportSize({ width: 1280, height: 800 })
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
    await page.emulateMedia({ colorScheme: 'light' })
    const light = await ground()
    await page.getByRole('button', { name: /^Colours: auto/ }).click()
    await page.getByRole('button', { name: /^Colours: dark/ }).waitFor()
    await page.reload()
    assert.notEqual(await ground(), light)
  })

  await step('nothing failed and nothing was asked of another host', async () => assert.deepEqual(faults, []))

  await step('without events the page polls; without an agent it says so', async () => {
    await context.route('**/api/v1/events', (route) => route.abort())
    const { page: polling } = await openPage(context, B, () => true)
    await says(polling.locator('header'), 'polling')
    await polling.getByRole('img', { name: /host-a is up/ }).waitFor()
    await polling.context().route('**/*', (route) => route.abort())
    await says(polling.getByRole('alert'), /The agent does not answer\. What is shown is old/)
    await shot(polling, 'no-answer-1280')
    await accessible(polling, 'no answer')
  })
  console.log('ui: all points passed; pictures are ' + shots + '/*.png')
} finally {
  await close()
}
