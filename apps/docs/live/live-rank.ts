// A rank of a training that the page shows.
import {
  ddp,
  fromData,
  fsdp,
  init,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  parallelize,
  statistics,
  zero,
} from 'shardwise/browser';
import {
  type Allowance,
  type LiveSnapshot,
  type LiveTask,
  probes,
  rowsOfRank,
  sineRows,
  spiralRows,
} from './live-task.ts';

const SNAPSHOT_STEPS = 10;

const context = await init();
const { rank, worldSize } = context;
const task = context.data as LiveTask;

/** How many steps the page allows. */
class Gate {
  readonly #channel: BroadcastChannel;
  #allowed = 0;
  #wake: (() => void) | undefined;

  constructor(name: string) {
    this.#channel = new BroadcastChannel(name);
    this.#channel.addEventListener('message', ({ data }: MessageEvent<Allowance>) => {
      this.#allowed = data.steps;
      this.#wake?.();
    });
  }

  async pass(step: number): Promise<void> {
    while (step > this.#allowed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  close(): void {
    this.#channel.close();
  }
}

const gate = new Gate(task.channel);
const isSine = task.model === 'sine';
const rows = isSine ? sineRows() : spiralRows();
const own = rowsOfRank(rows, rank, worldSize);
const width = isSine ? 1 : 2;
const x = fromData(
  Float32Array.from(own.flatMap((row) => [...rows.x.subarray(row * width, (row + 1) * width)])),
  [own.length, width],
  'f32',
);
const targets = isSine
  ? fromData(
      Float32Array.from(own, (row) => rows.y[row] ?? 0),
      [own.length, 1],
      'f32',
    )
  : fromData(
      Int32Array.from(own, (row) => rows.y[row] ?? 0),
      [own.length],
      'i32',
    );

manualSeed(task.seed);
const network = new nn.Sequential(
  new nn.Linear(width, 48),
  new nn.Tanh(),
  new nn.Linear(48, 48),
  new nn.Tanh(),
  new nn.Linear(48, isSine ? 1 : 2),
);
const strategies = { ddp: () => ddp(), 'zero-2': () => zero({ stage: 2 }), fsdp: () => fsdp() };
const model = await parallelize(network, strategies[task.strategy]());
const optimizer = new optim.AdamW(network.parameters(), { lr: 0.01 });
const asked = probes(task.model);
const grid = fromData(asked, [asked.length / width, width], 'f32');

/** What the model says of each point: its value, or how likely the second spiral is. A collective. */
async function valuesNow(): Promise<readonly number[]> {
  const output = noGrad(() => {
    const raw = model.forward(grid);
    return isSine ? raw : raw.softmax(-1).slice(1, 1, 2);
  });
  const values = await output.data();
  return rank === 0 ? Array.from(values as Float32Array) : [];
}

context.send('ready');
for (let step = 1; step <= task.steps; step += 1) {
  await gate.pass(step);
  const output = model.forward(x);
  const loss = isSine
    ? nn.functional.mseLoss(output, targets)
    : nn.functional.crossEntropy(output, targets);
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  context.report({ step, totalSteps: task.steps, loss: await loss.item() });
  if (step % SNAPSHOT_STEPS === 0 || step === task.steps || step === 1) {
    const { computeMs, communicationMs } = statistics();
    const { parameterBytes, gradientBytes, optimizerBytes } = memory({ model: network, optimizer });
    const snapshot: LiveSnapshot = {
      step,
      computeMs,
      communicationMs,
      statesBytes: parameterBytes + gradientBytes + optimizerBytes,
      values: await valuesNow(),
    };
    context.send(snapshot);
  }
}
gate.close();
await context.close();
