// A worker of a training with a parameter server. The data are two spirals, of which each worker has its own points.
import { dist, fromData, nn, optim } from 'shardwise/browser';
import { rowsOfRank, spiralRows } from '../points/point-task.ts';
import { LiveRank } from '../rank/live-rank.ts';
import { PortConnection } from './port-connection.ts';
import { isPortMessage, type ServerLook, type ServerTask } from './server-task.ts';

// The page posts the port before this worker joins the others.
const port = new Promise<MessagePort>((resolve) => {
  globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    if (isPortMessage(data)) resolve(data.requestPort);
  });
});
const live = await LiveRank.join();
const { rank, worldSize } = live.context;
const { consistency, delayMs } = live.task as ServerTask;
const connection = new PortConnection(await port);
let leaving: (() => Promise<void>) | undefined;
let seen: ServerLook = { lead: 0, staleness: 0, worstStaleness: 0, waitedMs: 0, late: 0 };

const servers: dist.servers.ParameterServers = {
  size: 1,
  connect: async () => connection,
  whenClosed: (leave) => {
    leaving = leave;
  },
  onStep: ({ lead, staleness, waitedMs, isLate }) => {
    seen = {
      lead,
      staleness,
      worstStaleness: Math.max(seen.worstStaleness, staleness),
      waitedMs: seen.waitedMs + waitedMs,
      late: seen.late + (isLate ? 1 : 0),
    };
  },
};

const rows = spiralRows();
const own = rowsOfRank(rows, rank, worldSize);
const x = fromData(
  Float32Array.from(own.flatMap((row) => [...rows.x.subarray(2 * row, 2 * row + 2)])),
  [own.length, 2],
  'f32',
);
const classes = fromData(
  Int32Array.from(own, (row) => rows.y[row] ?? 0),
  [own.length],
  'i32',
);
const network = new nn.Sequential(
  new nn.Linear(2, 48),
  new nn.Tanh(),
  new nn.Linear(48, 48),
  new nn.Tanh(),
  new nn.Linear(48, 2),
);
const model = await dist.parallelize(network, dist.parameterServer({ servers, consistency }));
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.01 });

async function update(): Promise<number> {
  const loss = nn.functional.crossEntropy(model.forward(x), classes);
  optimizer.zeroGrad();
  loss.backward();
  const value = await loss.item();
  if (rank === 0 && delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
  await optimizer.step();
  return value;
}

await live.train({
  network,
  optimizer,
  update,
  look: async () => seen,
  lookSteps: 1,
  checkpointSteps: false,
  leave: async () => leaving?.(),
});
