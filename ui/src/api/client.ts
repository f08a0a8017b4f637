// AgentError is an answer that is not a 2xx, or none at all (status 0).
export class AgentError extends Error {
  constructor(
    readonly status: number,
    readonly body: unknown,
    message: string,
  ) {
    super(message)
  }
}

const readLimit = 8_000
// Longer than the agent takes for its slowest answer, the test of a peer.
const changeLimit = 35_000

// call makes a request of this agent and decodes its JSON. Statuses in accept
// are answers like 2xx. Errors are AgentErrors with a sentence for people.
export async function call<T>(method: string, path: string, body?: string, accept: number[] = []): Promise<T> {
  let answer: Response
  let text: string
  try {
    answer = await fetch(path, {
      method,
      body,
      cache: 'no-store',
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      signal: AbortSignal.timeout(method === 'GET' ? readLimit : changeLimit),
    })
    text = await answer.text()
  } catch (cause) {
    const late = cause instanceof DOMException && cause.name === 'TimeoutError'
    throw new AgentError(0, null, late ? 'The agent did not answer in time.' : 'The agent does not answer.')
  }
  let decoded: unknown = null
  try {
    decoded = text === '' ? null : JSON.parse(text)
  } catch {
    throw new AgentError(answer.status, text, `The answer to ${method} ${path} is not JSON (status ${answer.status}).`)
  }
  if (!answer.ok && !accept.includes(answer.status)) {
    const said = (decoded as { error?: unknown } | null)?.error
    throw new AgentError(answer.status, decoded, typeof said === 'string' ? said : `${method} ${path}: status ${answer.status}.`)
  }
  return decoded as T
}

export const read = <T>(path: string, accept: number[] = []) => call<T>('GET', path, undefined, accept)

// inWords gives the sentence of whatever was thrown.
export function inWords(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
