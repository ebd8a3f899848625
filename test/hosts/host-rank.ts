import { createGroup, hostedTransport } from '@shardwise/collectives';
import {
  connectStore,
  joinShmWorld,
  startStoreServer,
  tcpTransport,
} from '@shardwise/collectives/node';
import { ShardwiseError, type ProcessGroup } from '@shardwise/core/spec';
import { runProcessGroupScenario, typed } from '@shardwise/testing/ranks';
import {
  contribution,
  REDUCE_TIMEOUT_MS,
  SECRET,
  type HostMessage,
  type HostRequest,
  type HostTask,
  type HostWorld,
} from './host-task.ts';

// HostRanks starts this program as each rank. It joins one world after another.

process.on('message', (request: HostRequest) => void answer(request));

async function answer(request: HostRequest): Promise<void> {
  if ('serve' in request) {
    const { port } = await startStoreServer({ host: request.serve, secret: SECRET });
    await tell({ kind: 'serving', port });
    return;
  }
  try {
    await tell({ kind: 'fulfilled', value: await play(request.join) });
  } catch (error) {
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
    const known = ShardwiseError.isInstance(error) ? error : undefined;
    const report = { name, message, stack, code: known?.code, fields: known?.fields ?? {} };
    await tell({ kind: 'rejected', report });
  }
}

async function play(world: HostWorld): Promise<unknown> {
  const { rank, hosts, address, epoch, shared, algorithm, joinTimeoutMs } = world;
  const store = await connectStore({ ...world.store, secret: SECRET });
  const size = hosts.length;
  const residents = hosts.flatMap((host, other) => (host === hosts[rank] ? [other] : []));
  const strangers = hosts.flatMap((host, other) => (host === hosts[rank] ? [] : [other]));
  const remote = await tcpTransport({
    store,
    rank,
    size,
    epoch,
    secret: SECRET,
    host: address,
    ...(shared === undefined ? {} : { peers: strangers }),
    ...(joinTimeoutMs === undefined ? {} : { timeoutMs: joinTimeoutMs }),
  });
  const local = shared && joinShmWorld(shared, residents.indexOf(rank)).group;
  const transport = local === undefined ? remote : hostedTransport({ local, remote, hosts });
  const group = createGroup(transport, {
    hosts,
    ...(algorithm === undefined ? {} : { algorithm }),
  });
  // No rank may fail before all have joined.
  if ((await store.add(`joined/${epoch}`, 1)) === size) {
    await store.set(`all joined/${epoch}`, new Uint8Array(0));
  }
  await store.wait([`all joined/${epoch}`]);
  try {
    return await carryOut(group, world.task);
  } finally {
    group.close();
    store.close();
  }
}

async function carryOut(group: ProcessGroup, task: HostTask): Promise<unknown> {
  if (task.kind === 'scenario') return runProcessGroupScenario(group, task.scenario);
  if (task.kind === 'reduce') {
    await tell({ kind: 'ready' });
    const buffer = typed(task.dtype, contribution(group.rank, task.elements));
    await group.allReduce(buffer, 'sum');
    return buffer.bytes;
  }
  for (let step = 0; ; step++) {
    const bytes = new Uint8Array(4 * task.elements);
    await group.allReduce({ bytes, dtype: 'f32' }, 'sum', { timeoutMs: REDUCE_TIMEOUT_MS });
    if (step === 0) await tell({ kind: 'ready' });
  }
}

function tell(message: HostMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send(message, undefined, undefined, () => resolve());
  });
}
