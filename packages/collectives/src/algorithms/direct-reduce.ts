import { peersOf, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { fragmentsOf } from './fragments.ts';
import { receiveAhead } from './receive-ahead.ts';
import { reduceAll, type Reduction } from './partial-sums.ts';

/**
 * Everyone sends its values to root, which reduces them in rank order. Specification: reduceSpecification.
 *
 *   rank 0  a          rank 0  a+b+c
 *   rank 1  b    =>    rank 1  b
 *   rank 2  c          rank 2  c
 */
export async function directReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  root: number,
  reduction: Reduction,
): Promise<void> {
  const fragments = fragmentsOf(buffer);
  if (communicator.rank !== root) {
    await Promise.all(fragments.map((fragment) => communicator.send(root, fragment)));
    return;
  }
  const peers = peersOf(communicator);
  const turns = fragments.map(({ byteLength }) => peers.map((from) => ({ from, byteLength })));
  let index = 0;
  for await (const buffers of receiveAhead(communicator, turns, reduction.reducer)) {
    const own = fragments[index]!;
    const sources = Array.from(
      { length: communicator.size },
      (_, r) => buffers[peers.indexOf(r)] ?? own,
    );
    reduceAll(reduction, sources, own);
    index += 1;
  }
}

export const directReduceCost: Cost = {
  rounds: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size > 1 ? bytes : 0),
};
