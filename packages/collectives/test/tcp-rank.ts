import { createGroup } from '@shardwise/collectives';
import { connectStore, tcpTransport } from '@shardwise/collectives/node';
import type { ProcessGroup, Store } from '@shardwise/core/spec';
import {
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankContext,
} from '@shardwise/testing/ranks';

/** Where the ranks of a job meet. */
export interface TcpWorld {
  readonly port: number;
  readonly secret: string;
}

/** Calls `body` when all ranks have joined, because none may fail before. */
async function inJob<Value>(
  { rank, size, world: { port, secret } }: RankContext<TcpWorld>,
  body: (group: ProcessGroup, store: Store) => Promise<Value>,
): Promise<Value> {
  const store = await connectStore({ host: '127.0.0.1', port, secret });
  const group = createGroup(await tcpTransport({ store, rank, size, secret }));
  try {
    if ((await store.add('joined', 1)) === size) await store.set('all joined', new Uint8Array(0));
    await store.wait(['all joined']);
    return await body(group, store);
  } finally {
    group.close();
    store.close();
  }
}

/** Plays one rank's part of the contract. */
export function main(context: RankContext<TcpWorld, ProcessGroupScenario>): Promise<unknown> {
  return inJob(context, (group) => runProcessGroupScenario(group, context.data));
}

/** All-reduces arrays of `data` elements until it fails. Says in the store when the first is over. */
export function reduceForEver(context: RankContext<TcpWorld, number>): Promise<never> {
  return inJob(context, async (group, store) => {
    for (let step = 0; ; step++) {
      const bytes = new Uint8Array(4 * context.data);
      await group.allReduce({ bytes, dtype: 'f32' }, 'sum');
      if (step === 0) await store.set(`reduced by ${context.rank}`, new Uint8Array(0));
    }
  });
}
