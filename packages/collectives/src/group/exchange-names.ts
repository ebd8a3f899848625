import { peersOf } from '../algorithms/communicator.ts';
import { decodeName, encodeName, NAME_BYTES, NAMES_MS } from '../call/call-names.ts';
import type { GroupEnd } from './group-end.ts';

/**
 * Ranks whose calls differ tell each other what they are, each in a text. Returns the text of each rank. It is empty for ranks
 * that have not said it in time.
 */
export async function exchangeNames(group: GroupEnd, text: string): Promise<readonly string[]> {
  const { rank, size, members, transport, nameTag } = group;
  const own = encodeName(text);
  const names = Array.from({ length: size }, (_, each) => (each === rank ? decodeName(own) : ''));
  const exchanges = peersOf(group).map(async (peer) => {
    const bytes = new Uint8Array(NAME_BYTES);
    const received = transport.recv(members[peer]!, nameTag, bytes);
    await Promise.all([transport.send(members[peer]!, nameTag, own), received]);
    names[peer] = decodeName(bytes);
  });
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, NAMES_MS);
  await Promise.race([Promise.allSettled(exchanges), late]);
  clearTimeout(timer);
  return [...names];
}
