import { connectPorts, createPageWorld, type PageRank } from '@shardwise/collectives';
import type { RankAnswer, RankTask, WorldReport } from './messages.ts';

// The page of the test. Its workers reduce in the world that fits the page, and also over ports for comparison.

const SIZE = 3;
const ELEMENTS = 10_000;

async function perform(pageRank: PageRank): Promise<RankAnswer> {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  const task: RankTask = { pageRank, elements: ELEMENTS };
  try {
    return await new Promise<RankAnswer>((resolve, reject) => {
      worker.addEventListener('message', ({ data }: MessageEvent<RankAnswer>) => resolve(data));
      worker.addEventListener('error', ({ message }) => reject(new Error(message)));
      worker.postMessage(task, pageRank.ports);
    });
  } finally {
    worker.terminate();
  }
}

const chosen = createPageWorld({ size: SIZE, arenaBytes: 1 << 20 });
const overPorts = connectPorts(SIZE).ranks.map((ports, rank): PageRank => ({
  rank,
  size: SIZE,
  world: undefined,
  ports: [...ports],
}));
const reports: WorldReport[] = [];
for (const { transport, reason, ranks } of [
  chosen,
  { transport: 'ports', reason: 'to compare', ranks: overPorts },
]) {
  reports.push({ transport, reason, answers: await Promise.all(ranks.map(perform)) });
}
await fetch('/result', { method: 'POST', body: JSON.stringify(reports) });
