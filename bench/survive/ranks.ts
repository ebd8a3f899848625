import { fromData, manualSeed, nn, optim, dist, survive } from 'shardwise';
import type { RankLine } from './rank-line.ts';

// The training of the ranks that `survive.ts` starts and kills. Each says when it begins with others, and when it has made
// an update.

const FEATURES = 256;
const HIDDEN = 1024;
const ROWS = 12;

function say(line: Omit<RankLine, 'atMs' | 'pid'>): void {
  const atMs = performance.timeOrigin + performance.now();
  console.log(JSON.stringify({ ...line, pid: process.pid, atMs } satisfies RankLine));
}

await survive(async (context) => {
  const { rank, worldSize } = context;
  manualSeed(1);
  const network = new nn.Sequential(
    new nn.Linear(FEATURES, HIDDEN),
    new nn.Tanh(),
    new nn.Linear(HIDDEN, FEATURES),
  );
  const model = await dist.parallelize(network, dist.ddp());
  const optimizer = new optim.AdamW(network.parameters(), { lr: 0.001 });
  const start = await context.resume({ model: network, optimizer });
  say({ kind: 'begins', step: start, rank, worldSize });
  for (let step = start + 1; ; step += 1) {
    const values = Float32Array.from({ length: ROWS * FEATURES }, (_, i) =>
      Math.sin(step * (rank + 1) * i),
    );
    const rows = fromData(values, [ROWS, FEATURES], 'f32');
    const loss = nn.functional.mseLoss(model.forward(rows), rows);
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    // The code after a commit is skipped if the ranks go over to others there.
    say({ kind: 'step', step, rank, worldSize });
    await context.commit(step);
    if (await context.shouldStop(step)) break;
  }
});
