import type { DirectLink } from '../protocol/direct-link.ts';
import { connectPeers } from './peer-connection.ts';
import { type PageSays, unwrapAsked, wrapDirect } from './worker-message.ts';

const BUFFERED_MS = 20;

/**
 * Lets a rank in a worker reach the members of other pages directly, by WebRTC, which only pages have. Give it the worker that
 * `script` of `startRanks` makes. It returns the worker.
 *
 *     script: () => withDirectLinks(new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' }))
 */
export function withDirectLinks(worker: Worker): Worker {
  const links = new Map<number, DirectLink>();
  const say = (message: PageSays, transfer: Transferable[] = []): void =>
    worker.postMessage(wrapDirect(message), transfer);
  const tellBuffered = (id: number): void => {
    const link = links.get(id);
    if (link === undefined) return;
    say({ kind: 'buffered', id, bytes: link.bufferedBytes });
    if (link.bufferedBytes > 0) setTimeout(tellBuffered, BUFFERED_MS, id);
  };
  const connect = (id: number, begins: boolean, stun: readonly string[]): void => {
    const link = connectPeers(stun, begins, {
      signal: (text) => say({ kind: 'signal', id, text }),
      opened: () => say({ kind: 'opened', id }),
      receive: (bytes) => {
        const own = bytes.slice();
        say({ kind: 'received', id, bytes: own }, [own.buffer]);
      },
      closed: () => {
        links.delete(id);
        say({ kind: 'closed', id });
      },
    });
    links.set(id, link);
  };
  worker.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    const message = unwrapAsked(data);
    switch (message?.kind) {
      case undefined:
        return undefined;
      case 'hello':
        return say({ kind: 'here' });
      case 'connect':
        return connect(message.id, message.begins, message.stun);
      case 'signal':
        return links.get(message.id)?.signal(message.text);
      case 'send':
        links.get(message.id)?.send(message.bytes);
        return tellBuffered(message.id);
      case 'close':
        return links.get(message.id)?.close();
      default:
        return message satisfies never;
    }
  });
  return worker;
}
