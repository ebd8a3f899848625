import { once } from 'node:events';
import { createGroup } from '@shardwise/collectives';
import { connectStore, tcpTransport } from '@shardwise/collectives/node';
import type { ProcessGroup } from '@shardwise/core/spec';
import { reportOf, runProcessGroupScenario } from '@shardwise/testing/ranks';
import { JOB_SECRET, type TcpRankContext, type TcpRankMessage, type TcpTask } from './tcp-job.ts';

// startTcpJob runs this in each process.
const [context]: TcpRankContext[] = await once(process, 'message');
if (context === undefined) throw new TypeError('The process was told nothing');
const { rank, size, port, task } = context;
const store = await connectStore({ host: '127.0.0.1', port, secret: JOB_SECRET });
const group = createGroup(await tcpTransport({ store, rank, size, secret: JOB_SECRET }));
// No rank may fail before all have joined.
if ((await store.add('joined', 1)) === size) await store.set('all joined', new Uint8Array(0));
await store.wait(['all joined']);
try {
  const value = await play(group, task);
  group.close();
  await tell({ outcome: { status: 'fulfilled', value } });
} catch (error) {
  await tell({ outcome: { status: 'rejected', report: reportOf(error) } });
}
store.close();
process.disconnect();

async function play(group: ProcessGroup, task: TcpTask): Promise<unknown> {
  if (task.mode === 'scenario') return runProcessGroupScenario(group, task.scenario);
  for (let step = 0; ; step++) {
    const bytes = new Uint8Array(4 * task.elements);
    await group.allReduce({ bytes, dtype: 'f32' }, 'sum');
    if (step === 0) await tell({ ready: true });
  }
}

function tell(message: TcpRankMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send(message, undefined, undefined, () => resolve());
  });
}
