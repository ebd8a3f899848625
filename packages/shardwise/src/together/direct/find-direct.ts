import type { ConnectDirectly, DirectEvents } from '../protocol/direct-link.ts';
import { unwrapSaid, type WorkerAsks, wrapDirect } from './worker-message.ts';

/** A page that answers does so at once. */
const ANSWER_MS = 500;

/** How this program reaches members of other pages directly. Null: it cannot, as in Node. */
export async function findDirect(stun: readonly string[]): Promise<ConnectDirectly | null> {
  if ('RTCPeerConnection' in globalThis) {
    const { connectPeers } = await import('./peer-connection.ts');
    return (begins, events) => connectPeers(stun, begins, events);
  }
  const isWorker = 'WorkerGlobalScope' in globalThis && 'postMessage' in globalThis;
  return isWorker ? byPage(stun) : null;
}

interface OpenLink {
  readonly events: DirectEvents;
  bufferedBytes: number;
}

/** Asks the page of this worker, which may have called `withDirectLinks`. */
async function byPage(stun: readonly string[]): Promise<ConnectDirectly | null> {
  const ask = (message: WorkerAsks, transfer: Transferable[] = []): void =>
    globalThis.postMessage(wrapDirect(message), { transfer });
  const links = new Map<number, OpenLink>();
  const isHere = Promise.withResolvers<boolean>();
  let latest = 0;
  globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    const message = unwrapSaid(data);
    if (message === undefined) return undefined;
    if (message.kind === 'here') return isHere.resolve(true);
    const link = links.get(message.id);
    if (link === undefined) return undefined;
    switch (message.kind) {
      case 'signal':
        return link.events.signal(message.text);
      case 'opened':
        return link.events.opened();
      case 'received':
        return link.events.receive(message.bytes);
      case 'buffered':
        link.bufferedBytes = message.bytes;
        return undefined;
      case 'closed':
        links.delete(message.id);
        return link.events.closed();
      default:
        return message satisfies never;
    }
  });
  setTimeout(() => isHere.resolve(false), ANSWER_MS);
  ask({ kind: 'hello' });
  if (!(await isHere.promise)) return null;
  return (begins, events) => {
    latest += 1;
    const id = latest;
    const link: OpenLink = { events, bufferedBytes: 0 };
    links.set(id, link);
    ask({ kind: 'connect', id, begins, stun });
    return {
      signal: (text) => ask({ kind: 'signal', id, text }),
      send(bytes) {
        const own = bytes.slice();
        link.bufferedBytes += own.byteLength;
        ask({ kind: 'send', id, bytes: own }, [own.buffer]);
      },
      get bufferedBytes() {
        return link.bufferedBytes;
      },
      close: () => ask({ kind: 'close', id }),
    };
  };
}
