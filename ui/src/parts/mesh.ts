// Where the boxes and lines of the mesh picture are. Pure: rows in, points out.

import type { Peer, Replication } from '../api/types'
import { word, type Tone } from '../words'

export interface Strand {
  path: string
  tone: Tone
  incoming: boolean
  title: string
}

export interface Node {
  peer: Peer
  x: number
  y: number
  width: number
  height: number
  tone: Tone
  state: string
  link: string // path of the band behind the strands
  strands: Strand[]
  incoming: Replication[]
  outgoing: Replication[]
}

export interface Picture {
  wide: boolean
  width: number
  height: number
  host: { x: number; y: number; width: number; height: number }
  nodes: Node[]
}

// Strands in each direction: more would be a carpet. A narrow page has room for
// one, which has the worst state of its flows.
const strandsShown = { wide: 6, narrow: 1 }
const strandGap = 5
const box = { width: 236, height: 76, gap: 18 }

export function peerState(p: Peer): { tone: Tone; text: string } {
  if (!p.up) return { tone: 'bad', text: 'down' }
  if (!p.link_up) return { tone: 'bad', text: 'link down' }
  return { tone: 'good', text: 'up' }
}

// layOut puts this host on the left and its peers on the right, or below one
// another where the page is narrow.
export function layOut(width: number, peers: Peer[], rows: Replication[], nameOf: (id: string) => string): Picture {
  const wide = width >= 640
  const host = wide ? { x: 1, y: 1, width: 220, height: 108 } : { x: 1, y: 1, width: width - 2, height: 84 }
  const top = wide ? 1 : host.height + 34
  const total = peers.length * (box.height + box.gap) - box.gap
  const height = Math.max(wide ? Math.max(host.height, total) + 2 : top + total + 1, host.height + 2)
  if (wide) host.y = (height - host.height) / 2
  const nodes = peers.map((peer, i) => {
    const y = (wide ? (height - total) / 2 : top) + i * (box.height + box.gap)
    const x = wide ? width - box.width - 1 : trunk + 18
    const node: Node = {
      peer, x, y,
      width: wide ? box.width : width - x - 1,
      height: box.height,
      tone: peerState(peer).tone,
      state: peerState(peer).text,
      link: '',
      strands: [],
      incoming: rows.filter((r) => r.peer === peer.host_id && r.role === 'destination'),
      outgoing: rows.filter((r) => r.peer === peer.host_id && r.role === 'source'),
    }
    const route = wide ? wideRoute(host, node) : narrowRoute(host, node, Math.max(10, trunk - i * trunkStep))
    node.link = route(0)
    const most = wide ? strandsShown.wide : strandsShown.narrow
    const lines = [...worstFirst(node.outgoing).slice(0, most), ...worstFirst(node.incoming).slice(0, most)]
    node.strands = lines.map((r, n) => ({
      path: route((n - (lines.length - 1) / 2) * strandGap),
      tone: word('replication', r.state).tone,
      incoming: r.role === 'destination',
      title: `${nameOf(r.flow_id) || r.flow_id} ${r.role === 'source' ? 'to' : 'from'} ${r.peer}: ${word('replication', r.state).text}`,
    }))
    return node
  })
  return { wide, width, height, host, nodes }
}

const trunk = 62 // where the first peer's line goes down on a narrow page
const trunkStep = 16

const order: Tone[] = ['bad', 'wait', 'note', 'calm', 'good']
const rank = (r: Replication) => order.indexOf(word('replication', r.state).tone)
const worstFirst = (rows: Replication[]) => [...rows].sort((a, b) => rank(a) - rank(b))

type Box = { x: number; y: number; width: number; height: number }

// A route draws the line of a strand that is off the middle by so many pixels.
function wideRoute(host: Box, node: Box) {
  const from = host.x + host.width
  const bend = Math.min(150, (node.x - from) * 0.4)
  return (off: number) => {
    // Strands leave the host's box spread over its side by where they go.
    const middle = host.y + host.height / 2
    const aim = node.y + node.height / 2
    const start = middle + Math.max(-host.height / 2 + 12, Math.min(host.height / 2 - 12, (aim - middle) * 0.25)) + off
    const end = aim + off
    return `M${from} ${start.toFixed(1)}C${from + bend} ${start.toFixed(1)} ${from + bend * 0.4} ${end.toFixed(1)} ${from + bend + 10} ${end.toFixed(1)}H${node.x}`
  }
}

function narrowRoute(host: Box, node: Box, trunk: number) {
  return (off: number) => {
    const x = trunk - off
    const y = node.y + node.height / 2 + off
    return `M${x} ${host.y + host.height}V${y - 8}Q${x} ${y} ${x + 8} ${y}H${node.x}`
  }
}
