import { totalmem } from 'node:os';
import { cpu } from '@shardwise/backend-cpu';
import { singleGroup } from '@shardwise/collectives';
import { LineMesh, manualSeed, randn, setRank, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import type { DeviceDescription } from '@shardwise/planner';
import { copyBandwidth } from '../profile/measure-host.ts';
import { median } from '../run-state/median.ts';

/** The sizes of the products that are timed. Larger ones are no faster. */
const SIZE = 768;
/** Of several rounds, the median counts. */
const ROUNDS = 5;
const LAUNCHES = 50;

/**
 * Measures what a rank computes on this machine: the rate of products, the bandwidth of memory, and what each call of
 * a program takes besides its work. It takes a few seconds.
 */
export async function measureDevice(ranks: number): Promise<DeviceDescription> {
  setRank({ device: await cpu(), mesh: new LineMesh('dp', singleGroup()) });
  manualSeed(1);
  const [a, b] = [randn([SIZE, SIZE]), randn([SIZE, SIZE])];
  const small = randn([16]);
  await realizeAll([a, b, small]);
  const productMs = await medianMs(async () => realizeAll([a.matmul(b)]));
  const launchMs = await medianMs(async () => {
    for (let launch = 0; launch < LAUNCHES; launch++) await realizeAll([small.add(small)]);
  });
  const flops = (2 * SIZE ** 3) / (productMs / 1000);
  return {
    name: 'this machine',
    memoryBytes: totalmem() / ranks,
    flops: { f32: flops, half: flops },
    memoryBytesPerSecond: copyBandwidth(),
    launchSeconds: launchMs / 1000 / LAUNCHES,
  };
}

async function realizeAll(tensors: readonly Tensor[]): Promise<void> {
  await currentSession().realize(tensors.map(({ node }) => node));
}

async function medianMs(run: () => Promise<void>): Promise<number> {
  await run();
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    await run();
    times.push(performance.now() - start);
  }
  return median(times) ?? 0;
}
