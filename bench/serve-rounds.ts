import { parentPort, workerData } from 'node:worker_threads';
import { cpu, dist, profiler, setRank } from 'shardwise';
import type { Precision } from './precision.ts';
import type { RankData, RankRequest, RankRound } from './rank-messages.ts';

interface JoinedRank {
  readonly rank: number;
  readonly group: dist.ProcessGroup;
  readonly contestant: string;
  readonly batch: number | undefined;
  readonly precision: Precision;
}

/** Makes this thread the rank that its worker data describe. */
export async function joinBenchWorld(): Promise<JoinedRank> {
  const { rank, world, contestant, batch, precision }: RankData = workerData;
  const group = dist.transports.joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
  setRank({
    device: await cpu({ memory: world.memory, ...region }),
    mesh: new dist.LineMesh('dp', group),
  });
  return { rank, group, contestant, batch, precision };
}

/** What runs steps, and returns the loss of each. */
export interface Trains {
  run(steps: number): Promise<readonly { readonly loss: number }[]>;
}

/** Trains when it is told to, and answers with its measurements. */
export function serveRounds(
  group: dist.ProcessGroup,
  trainings: Readonly<Partial<Record<'together' | 'alone', Trains>>>,
): void {
  parentPort?.on('message', (request: RankRequest) => {
    if (request.mode === 'close') group.close();
    else void answer(request);
  });

  /** A rejection ends the thread, which the benchmark's main thread notices. */
  async function answer({ mode, steps }: Exclude<RankRequest, { mode: 'close' }>): Promise<void> {
    const training = trainings[mode];
    if (training === undefined) throw new RangeError(`no training ${mode}`);
    let communicationBytes = 0;
    const before = profiler.statistics();
    const unsubscribe = profiler.subscribe(({ category, name, bytes = 0 }) => {
      if (category !== 'collective') return;
      communicationBytes += (name === 'allReduce' ? 2 : 1) * bytes;
    });
    await group.barrier();
    const start = performance.now();
    const times = await training.run(steps);
    await group.barrier();
    const after = profiler.statistics();
    unsubscribe();
    const round: RankRound = {
      msPerStep: (performance.now() - start) / steps,
      communicationMs: (after.communicationMs - before.communicationMs) / steps,
      communicationBytes: communicationBytes / steps,
      losses: times.map(({ loss }) => loss),
    };
    parentPort?.postMessage(round);
  }
}
