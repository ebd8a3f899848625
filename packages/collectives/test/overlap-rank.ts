import { cpu, type CpuOptions } from '@shardwise/backend-cpu';
import { createGroup, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  connectStore,
  joinShmWorld,
  tcpTransport,
  type ShmWorld,
} from '@shardwise/collectives/node';
import {
  type Backend,
  fromData,
  LineMesh,
  manualSeed,
  nn,
  optim,
  type ProcessGroup,
  setRank,
  subscribe,
  type TimelineEvent,
} from '@shardwise/core';
import type { DeviceBuffer, Executable, Instruction, ValueType } from '@shardwise/core/spec';
import { ddp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';

export interface TcpWorld {
  readonly port: number;
  readonly secret: string;
  readonly epoch: number;
}

type Task = 'message' | 'training';

export async function onThreads(context: RankContext<ThreadsWorld, Task>): Promise<unknown> {
  const { rank, world, data } = context;
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
  return perform(data, joinThreadsWorld(world, rank), { memory: world.memory, ...region });
}

export async function onShm({ rank, world, data }: RankContext<ShmWorld, Task>): Promise<unknown> {
  const { group, memory, region } = joinShmWorld(world, rank);
  return perform(data, group, { memory, ...region });
}

export async function onTcp(context: RankContext<TcpWorld, Task>): Promise<unknown> {
  const { rank, size, world, data } = context;
  const { port, secret, epoch } = world;
  const store = await connectStore({ host: '127.0.0.1', port, secret });
  const group = createGroup(await tcpTransport({ store, rank, size, secret, epoch }));
  try {
    return await perform(data, group, {});
  } finally {
    store.close();
  }
}

export function onMpi(group: ProcessGroup, data: Task): Promise<unknown> {
  return perform(data, group, {});
}

async function perform(task: Task, group: ProcessGroup, memory: CpuOptions): Promise<unknown> {
  const device = await cpu(memory);
  const answer =
    task === 'message' ? await overlapMessage(group, device) : await recordTraining(group, device);
  await group.barrier();
  group.close();
  return answer;
}

const MESSAGE_BYTES = 64 << 20;
const SIDE = 512;

/** Reports whether an all-reduce that was issued before one long computation has finished when the computation ends. */
async function overlapMessage(group: ProcessGroup, device: Backend): Promise<unknown> {
  const bytes = device.map(device.alloc(MESSAGE_BYTES));
  if (bytes === undefined) throw new TypeError('the device has memory of its own');
  const buffer = { bytes, dtype: 'f32' } as const;
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const reduceMs = await elapsed(() => group.allReduce(buffer, 'sum'));
  // Both ranks make their computation long enough to hide the message, even on a machine that others use too.
  const matrices = [device.alloc(SIDE * SIDE * 4), device.alloc(SIDE * SIDE * 4)] as const;
  const probe = await chain(device, 20);
  const probeMs = await elapsed(() => run(probe, matrices));
  const products = Math.ceil((20 * Math.max(100, 5 * reduceMs)) / probeMs);
  const computation = await chain(device, products);

  values.fill(group.rank + 1);
  await group.barrier();
  let isReduced = false;
  const reduce = async (): Promise<void> => {
    await group.allReduce(buffer, 'sum');
    isReduced = true;
  };
  const reduced = reduce();
  await run(computation, matrices);
  const wasReduced = isReduced;
  await reduced;
  return { wasReduced, sums: [...new Set(values)] };
}

/** A program of products, one after another, that runs in one session. */
function chain(device: Backend, products: number): Promise<Executable> {
  const type: ValueType = { shape: [SIDE, SIDE], dtype: 'f32' };
  const params = { transposeA: false, transposeB: false };
  const instructions = Array.from({ length: products }, (_, id): Instruction => ({
    op: 'matmul',
    params,
    inputs: [id, id],
    ...type,
  }));
  return device.compile({ inputs: [type], instructions, outputs: [products], updates: [] });
}

function run(
  executable: Executable,
  [input, output]: readonly [DeviceBuffer, DeviceBuffer],
): Promise<void> {
  return executable.run([input], [output], { overlap: true });
}

async function elapsed(work: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

const WIDTH = 512;

/** Returns the events of five training steps of a deep model whose gradients are reduced in several buckets. */
async function recordTraining(group: ProcessGroup, device: Backend): Promise<unknown> {
  setRank({ device, mesh: new LineMesh('dp', group) });
  manualSeed(0);
  const model = new nn.Sequential(...Array.from({ length: 8 }, () => new nn.Linear(WIDTH, WIDTH)));
  const parallel = await parallelize(model, ddp({ bucketBytes: 1 << 20 }));
  const optimizer = new optim.SGD(model.parameters(), { lr: 1e-3 });
  const steps: TimelineEvent[][] = [];
  for (let step = 0; step < 6; step++) {
    const events: TimelineEvent[] = [];
    const unsubscribe = subscribe((event) => void events.push(event));
    const x = fromData(new Float32Array(512 * WIDTH).fill(step), [512, WIDTH], 'f32');
    optimizer.zeroGrad();
    nn.functional.mseLoss(parallel.forward(x), x).backward();
    await optimizer.step();
    unsubscribe();
    if (step > 0) steps.push(events);
  }
  return steps;
}
