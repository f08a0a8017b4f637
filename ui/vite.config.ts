import vue from '@vitejs/plugin-vue'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { defineConfig, type Plugin } from 'vite'

const here = import.meta.dirname
const out = join(here, '../agent/ui/dist')

// What decides the built files; agent/ui's test has the same list.
const sources = ['index.html', 'package.json', 'package-lock.json', 'tsconfig.json', 'vite.config.ts', 'public', 'src']

function filesOf(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((e) => filesOf(join(path, e.name)))
  } catch {
    return [path]
  }
}

// manifest writes SHA256SUMS of sources and built files beside the built files,
// so that a Go test can tell committed files that are not those of the sources.
function manifest(): Plugin {
  return {
    name: 'manifest',
    apply: 'build',
    closeBundle() {
      const sums = join(out, 'SHA256SUMS')
      const built = filesOf(out).filter((f) => f !== sums)
      const lines = [...sources.flatMap((s) => filesOf(join(here, s))), ...built]
        .map((f) => ({ name: relative(join(here, '..'), f), sum: createHash('sha256').update(readFileSync(f)).digest('hex') }))
        .sort((a, b) => (a.name < b.name ? -1 : 1))
        .map((f) => `${f.sum}  ${f.name}\n`)
      writeFileSync(sums, lines.join(''))
    },
  }
}

export default defineConfig({
  root: here,
  plugins: [vue(), manifest()],
  define: { __VUE_OPTIONS_API__: 'false', __VUE_PROD_DEVTOOLS__: 'false' },
  build: {
    outDir: out,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    target: 'es2022',
    // Names without a hash: the agent answers with ETags, and a new build
    // changes files rather than their names.
    rollupOptions: {
      output: {
        entryFileNames: 'assets/page.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: (asset) => (asset.names[0]?.endsWith('.css') ? 'assets/page.css' : 'assets/[name][extname]'),
      },
    },
  },
  // A running agent for `npm run dev`.
  server: { proxy: Object.fromEntries(['/api', '/readyz', '/statusz', '/metrics', '/assets/settings.json'].map((p) => [p, process.env.AGENT ?? 'http://127.0.0.1:8095'])) },
})
