import { accelerate } from '@shardwise/compat';
import type { RankInThread } from '@shardwise/testing/node';
import { data, dist, fromArray, manualSeed, nn, optim, type Tensor } from 'shardwise';

const ROWS = 22;
const BATCH = 3;
const PASSES = 3;

/** What a rank finds. */
interface Outcome {
  /** The losses of each precision, by the accelerator and in the words of the library. */
  readonly losses: Record<string, { readonly found: number[]; readonly words: number[] }>;
  readonly gathered: number[];
  readonly updates: number;
  readonly rates: number[];
  readonly continued: { readonly found: number[]; readonly expected: number[] };
}

const x = data.ndArray(
  Float32Array.from({ length: ROWS * 2 }, (_, i) => Math.sin(i)),
  [ROWS, 2],
);
const index = data.ndArray(Int32Array.from({ length: ROWS }, (_, i) => i));
const dataset = new data.ArrayDataset({ x, index });

function linear(): nn.Linear {
  manualSeed(1);
  return new nn.Linear(2, 1);
}

const lossOf = (output: Tensor): Tensor => output.square().mean();

type Context = accelerate.AcceleratorOptions['context'];
const precisions = { no: 'no', bf16: 'bf16', fp16: 'fp16' } as const;

async function trainByAccelerator(
  context: Context,
  mixedPrecision: 'no' | 'bf16' | 'fp16',
  strategy?: accelerate.AcceleratorOptions['strategy'],
): Promise<{ losses: number[]; updates: number; rates: number[] }> {
  const accelerator = new accelerate.Accelerator({
    context,
    mixedPrecision,
    gradientAccumulationSteps: PASSES,
    ...(strategy === undefined ? {} : { strategy }),
  });
  const prepared = await accelerator.prepare({
    model: linear(),
    optimizer: (parameters) => new optim.AdamW([...parameters], { lr: 0.1 }),
    dataLoader: { dataset, batchSize: BATCH },
    scheduler: (own) => new optim.LearningRateScheduler(own, (step) => 1 / (step + 1)),
  });
  const { model, optimizer, dataLoader, scheduler } = prepared;
  const losses: number[] = [];
  const rates: number[] = [];
  let updates = 0;
  for await (const batch of dataLoader) {
    await accelerator.accumulate(async () => {
      const loss = lossOf(model.forward(fromArray(batch.x)));
      accelerator.backward(loss);
      accelerator.clipGradNorm_(model.parameters(), 0.5);
      await optimizer.step();
      scheduler.step();
      optimizer.zeroGrad();
      if (accelerator.syncGradients) updates++;
      losses.push(await loss.item());
      rates.push(optimizer.paramGroups[0]?.lr ?? 0);
    });
  }
  return { losses, updates, rates };
}

/** The same in the words of the library. The last update has one pass, as the data end. */
async function trainByWords(
  context: Context,
  precision: 'no' | 'bf16' | 'fp16',
): Promise<number[]> {
  const model = linear();
  const computeDtype = precision === 'fp16' ? 'f16' : 'bf16';
  const policy = precision === 'no' ? {} : { mixedPrecision: { computeDtype } as const };
  const parallel = await dist.parallelize(model, dist.ddp(policy));
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.1 });
  const schedule = new optim.LearningRateScheduler(optimizer, (step) => 1 / (step + 1));
  const scaler =
    precision === 'fp16' ? new optim.DynamicLossScaler({ scaleWindow: 2000, hysteresis: 1 }) : null;
  const losses: number[] = [];
  const rounds = Math.ceil(ROWS / (BATCH * 2));
  for (let round = 0; round < rounds; round++) {
    const rows = Array.from(
      { length: BATCH },
      (_, row) => (round * BATCH * 2 + context.rank * BATCH + row) % ROWS,
    );
    const batch = data.collate(rows.map((row) => dataset.get(row)));
    const isLast = (round + 1) % PASSES === 0 || round === rounds - 1;
    const pass = (): Tensor => {
      const loss = lossOf(parallel.forward(fromArray(batch.x)));
      const share = loss.div(PASSES);
      (scaler?.scale(share) ?? share).backward();
      return loss;
    };
    const loss = isLast ? pass() : parallel.noSync(pass);
    if (isLast) {
      scaler?.unscale(optimizer);
      optim.clipGradNorm(model.parameters(), 0.5);
      await (scaler?.step(optimizer) ?? optimizer.step());
      scaler?.update();
      // A prepared schedule makes a step for each rank.
      schedule.step();
      schedule.step();
      optimizer.zeroGrad();
    }
    losses.push(await loss.item());
  }
  return losses;
}

/** Saves in the middle of an epoch, and compares the losses after it. */
async function continueFrom(
  context: Context,
  folder: string,
): Promise<{ found: number[]; expected: number[] }> {
  const build = async () => {
    const accelerator = new accelerate.Accelerator({ context });
    const prepared = await accelerator.prepare({
      model: linear(),
      optimizer: (parameters) => new optim.AdamW([...parameters], { lr: 0.1 }),
      dataLoader: { dataset, batchSize: BATCH, shuffle: true, seed: 4 },
    });
    return { accelerator, ...prepared };
  };
  const run = async (
    { accelerator, model, optimizer, dataLoader }: Awaited<ReturnType<typeof build>>,
    saveAt: number,
  ): Promise<number[]> => {
    const losses: number[] = [];
    for (let epoch = 0; epoch < 2; epoch++) {
      for await (const batch of dataLoader) {
        const loss = lossOf(model.forward(fromArray(batch.x)));
        accelerator.backward(loss);
        await optimizer.step();
        optimizer.zeroGrad();
        losses.push(await loss.item());
        if (losses.length === saveAt) await accelerator.saveState(folder);
      }
    }
    return losses;
  };
  const first = await run(await build(), 2);
  const second = await build();
  await second.accelerator.loadState(folder);
  const found: number[] = [];
  for await (const batch of second.dataLoader) {
    const loss = lossOf(second.model.forward(fromArray(batch.x)));
    second.accelerator.backward(loss);
    await second.optimizer.step();
    second.optimizer.zeroGrad();
    found.push(await loss.item());
  }
  return { found, expected: first.slice(2, 2 + found.length) };
}

/** Trains on a rank, whose checkpoint is in `folder`. */
export async function trainOnRank(
  { rank, size, group, mesh }: RankInThread,
  folder: string,
): Promise<Outcome> {
  const context: Context = { rank, worldSize: size, localRank: rank, group, mesh };
  const losses: Outcome['losses'] = {};
  let updates = 0;
  let rates: number[] = [];
  for (const precision of Object.values(precisions)) {
    const found = await trainByAccelerator(context, precision);
    losses[precision] = { found: found.losses, words: await trainByWords(context, precision) };
    ({ updates, rates } = found);
  }
  const sharded = await trainByAccelerator(context, 'no', dist.zero({ stage: 3 }));
  losses['ZeRO-3'] = { found: sharded.losses, words: losses['no']?.words ?? [] };

  const accelerator = new accelerate.Accelerator({ context });
  const loader = accelerator.prepareDataLoader({ dataset, batchSize: BATCH });
  const gathered: number[] = [];
  for await (const batch of loader) {
    gathered.push(
      ...Array.from(await accelerator.gatherForMetrics(fromArray(batch.index)).data(), Number),
    );
  }
  return {
    losses,
    gathered,
    updates,
    rates,
    continued: await continueFrom(context, folder),
  };
}
