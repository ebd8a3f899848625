import { devNull } from 'node:os';
import type { Tensor } from '@shardwise/core';
import { deepspeed } from '@shardwise/compat';
import type { RankInThread } from '@shardwise/testing/node';
import {
  concat,
  dist,
  fromData,
  Generator,
  manualSeed,
  nn,
  noGrad,
  optim,
  profiler,
} from 'shardwise';

export const stages = [0, 1, 2, 3] as const;
export const precisions = ['f32', 'fp16', 'bf16', 'autocast'] as const;
type Precision = (typeof precisions)[number];
type Offloads = 'nothing' | 'states' | 'states and parameters';

const STEPS = 4;
const ROWS = 6;
const PASSES = 2;

/** The losses of all passes by both ways, as bits, and parameters after them. */
export interface Outcome {
  readonly engine: readonly number[];
  readonly words: readonly number[];
  readonly parameters: readonly number[];
  readonly expected: readonly number[];
}

class Network extends nn.Module {
  readonly layers = new nn.ModuleList([new nn.Linear(5, 7), new nn.Linear(7, 3)]);

  forward(x: Tensor): Tensor {
    const [first, second] = this.layers;
    if (first === undefined || second === undefined) throw new RangeError('two layers');
    return second.forward(first.forward(x).tanh());
  }
}

const lossOf = (output: Tensor, target: Tensor): Tensor => nn.functional.mseLoss(output, target);

function network(): Network {
  manualSeed(3);
  return new Network();
}

/** Another batch on each rank, and for each pass. */
function batchOf(pass: number, rank: number): { x: Tensor; target: Tensor } {
  const generator = new Generator(1000 * pass + rank);
  const draw = (columns: number): Tensor =>
    fromData(generator.uniform(ROWS * columns, -2, 2), [ROWS, columns], 'f32');
  return { x: draw(5), target: draw(3) };
}

const optimizer = { type: 'AdamW', params: { lr: 0.01, weight_decay: 0.1 } };

function configOf(stage: number, precision: Precision): object {
  return {
    train_micro_batch_size_per_gpu: ROWS,
    gradient_accumulation_steps: PASSES,
    gradient_clipping: 0.5,
    optimizer,
    scheduler: { type: 'WarmupLR', params: { warmup_num_steps: 3, warmup_type: 'linear' } },
    zero_optimization: { stage },
    ...(precision === 'fp16' ? { fp16: { enabled: true, initial_scale_power: 8 } } : {}),
    ...(precision === 'bf16' ? { bf16: { enabled: true } } : {}),
    ...(precision === 'autocast' ? { torch_autocast: { enabled: true } } : {}),
  };
}

interface Trained {
  readonly losses: number[];
  readonly parameters: number[];
}

async function parametersOf(model: nn.Module): Promise<number[]> {
  const values: number[] = [];
  for (const parameter of model.parameters())
    values.push(...Array.from(await parameter.to('f32').data(), Number));
  return values;
}

function outcomeOf(engine: Trained, words: Trained): Outcome {
  return {
    engine: engine.losses,
    words: words.losses,
    parameters: engine.parameters,
    expected: words.parameters,
  };
}

async function trainByEngine(config: object, context: deepspeed.EngineContext): Promise<Trained> {
  const { engine } = await deepspeed.initialize({ model: network(), config, context });
  const losses: number[] = [];
  for (let pass = 0; pass < STEPS * PASSES; pass++) {
    const { x, target } = batchOf(pass, context.rank);
    const loss = lossOf(engine.forward(x), target);
    engine.backward(loss);
    await engine.step();
    losses.push(await loss.item());
  }
  const parameters = await parametersOf(engine.module);
  await engine.destroy();
  return { losses, parameters };
}

/** The same in the words of the library. */
async function trainByWords(
  stage: 0 | 1 | 2 | 3,
  precision: Precision,
  context: deepspeed.EngineContext,
  offloads: Offloads = 'nothing',
): Promise<Trained> {
  const policies = {
    f32: {},
    fp16: { mixedPrecision: { parameterDtype: 'f16', computeDtype: 'f16' } },
    bf16: { mixedPrecision: { parameterDtype: 'bf16', computeDtype: 'bf16' } },
    autocast: { mixedPrecision: { computeDtype: 'bf16' } },
  } as const;
  const policy = policies[precision];
  const model = network();
  const pages = dist.hostPages();
  const strategy =
    offloads === 'states and parameters'
      ? dist.fsdp({ ...policy, pages })
      : stage === 0
        ? dist.ddp(policy)
        : dist.zero({ stage, ...policy });
  const parallel = await dist.parallelize(model, strategy);
  const adam = new optim.AdamW(model.parameters(), { lr: 0.01, weightDecay: 0.1 });
  const own =
    offloads === 'nothing'
      ? adam
      : new dist.OffloadedOptimizer(model, adam, {
          states: pages,
          gradients: pages,
          ...(offloads === 'states' ? {} : { parameters: pages }),
        });
  const scaler =
    precision === 'fp16' ? new optim.DynamicLossScaler({ initialScale: 2 ** 8 }) : undefined;
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    const read: Tensor[] = [];
    for (let part = 0; part < PASSES; part++) {
      const { x, target } = batchOf(step * PASSES + part, context.rank);
      const pass = (): void => {
        const loss = lossOf(parallel.forward(x), target);
        read.push(loss);
        const share = loss.div(PASSES);
        (scaler === undefined ? share : scaler.scale(share)).backward();
      };
      if (part < PASSES - 1 && stage < 2) parallel.noSync(pass);
      else pass();
      losses.push((await read.at(-1)?.item()) ?? Number.NaN);
    }
    // The rates of WarmupLR: its first two steps have none.
    const shares = [0, 0, 1 / 3, 2 / 3];
    for (const group of own.paramGroups) group.lr = 0.01 * (shares[step] ?? 1);
    scaler?.unscale(own);
    optim.clipGradNorm(model.parameters(), 0.5);
    await (scaler === undefined ? own.step() : scaler.step(own));
    scaler?.update();
    own.zeroGrad();
  }
  return { losses, parameters: await parametersOf(model) };
}

async function compare(
  context: deepspeed.EngineContext,
): Promise<Readonly<Record<string, Outcome>>> {
  const found: Record<string, Outcome> = {};
  for (const stage of stages) {
    for (const precision of precisions) {
      const engine = await trainByEngine(configOf(stage, precision), context);
      const words = await trainByWords(stage, precision, context);
      found[`${stage} ${precision}`] = outcomeOf(engine, words);
    }
  }
  return found;
}

const onHost = { device: 'cpu', pin_memory: true };
export const offloadings = [
  ...stages.map((stage) => [stage, 'states'] as const),
  [3, 'states and parameters'] as const,
];

async function offload(context: deepspeed.EngineContext): Promise<Record<string, Outcome>> {
  const found: Record<string, Outcome> = {};
  for (const [stage, offloads] of offloadings) {
    for (const precision of precisions) {
      const zero = {
        stage,
        offload_optimizer: onHost,
        ...(offloads === 'states' ? {} : { offload_param: onHost }),
      };
      const config = { ...configOf(stage, precision), zero_optimization: zero };
      const engine = await trainByEngine(config, context);
      const words = await trainByWords(stage, precision, context, offloads);
      found[`${stage} ${precision} with ${offloads} on the host`] = outcomeOf(engine, words);
    }
  }
  return found;
}

/** An update that is measured has the numbers of others. */
async function measured(context: deepspeed.EngineContext): Promise<Record<string, Outcome>> {
  const found: Record<string, Outcome> = {};
  for (const stage of [0, 3]) {
    const config = configOf(stage, 'f32');
    const keys = { wall_clock_breakdown: true, steps_per_print: 2 };
    const profile = { enabled: true, profile_step: 2, detailed: false, output_file: devNull };
    const engine = await trainByEngine({ ...config, ...keys, flops_profiler: profile }, context);
    const words = await trainByEngine(config, context);
    found[`measured at stage ${stage}`] = outcomeOf(engine, words);
  }
  return found;
}

/** The counts and bytes that comms_logger has logged, and those that a logger of the library has of the same training. */
async function logged(context: deepspeed.EngineContext): Promise<Record<string, Outcome>> {
  const found: Record<string, Outcome> = {};
  const trained = async (
    stage: number,
    keys: object,
    options: profiler.CommsLoggerOptions,
  ): Promise<{ counts: number[]; isLogging: boolean }> => {
    const { engine } = await deepspeed.initialize({
      model: network(),
      config: { ...configOf(stage, 'f32'), ...keys },
      context,
    });
    const logger = engine.commsLogger ?? profiler.commsLogger(context.group, options);
    const { x, target } = batchOf(0, context.rank);
    for (let pass = 0; pass < STEPS * PASSES; pass++) {
      engine.backward(lossOf(engine.forward(x), target));
      await engine.step();
    }
    const { rows } = await logger.logSummary({ print: false });
    await engine.destroy();
    const { isLogging } = logger;
    logger.stop();
    return {
      counts: rows.flatMap(({ count, messageBytes }) => [count, messageBytes]),
      isLogging,
    };
  };
  for (const [stage, section, options] of [
    [0, { prof_all: false, prof_ops: ['all_reduce'] }, { profAll: false, profOps: ['allReduce'] }],
    [3, {}, {}],
  ] as const) {
    const own = await trained(stage, { comms_logger: { enabled: true, ...section } }, {});
    const words = await trained(stage, {}, options);
    found[`logged at stage ${stage}`] = {
      engine: own.counts,
      words: words.counts,
      // The engine stops its own logger.
      parameters: [Number(own.isLogging), Number(words.isLogging)],
      expected: [0, 1],
    };
  }
  return found;
}

/** 1-bit Adam by its name, and in the words of the library. */
async function oneBit(context: deepspeed.EngineContext): Promise<Record<string, Outcome>> {
  const params = { lr: 0.01, betas: [0.8, 0.999], eps: 1e-8, weight_decay: 3e-7, freeze_step: 2 };
  const config = {
    train_micro_batch_size_per_gpu: ROWS,
    gradient_accumulation_steps: PASSES,
    optimizer: {
      type: 'OneBitAdam',
      params: { ...params, cuda_aware: false, comm_backend_name: 'nccl' },
    },
  };
  const engine = await trainByEngine(config, context);
  const model = network();
  const parallel = await dist.parallelize(model, dist.ddp());
  const own = new optim.OneBitAdam(model.parameters(), {
    lr: 0.01,
    betas: [0.8, 0.999],
    eps: 1e-8,
    weightDecay: 3e-7,
    freezeStep: 2,
  });
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    for (let part = 0; part < PASSES; part++) {
      const { x, target } = batchOf(step * PASSES + part, context.rank);
      const loss = parallel.noSync(() => {
        const own = lossOf(parallel.forward(x), target);
        own.div(PASSES).backward();
        return own;
      });
      losses.push(await loss.item());
    }
    await own.step();
    own.zeroGrad();
  }
  return {
    OneBitAdam: {
      engine: engine.losses,
      words: losses,
      parameters: engine.parameters,
      expected: await parametersOf(model),
    },
  };
}

/** A pipeline of two stages, and one rank that has the whole model and accumulates. */
async function inStages(context: deepspeed.EngineContext): Promise<Record<string, Outcome>> {
  const config = {
    train_batch_size: ROWS * PASSES,
    train_micro_batch_size_per_gpu: ROWS,
    gradient_clipping: 0,
    optimizer,
    pipeline: { stages: 2 },
    // The times of the third update are printed, and its numbers are those of others.
    wall_clock_breakdown: true,
    steps_per_print: 3,
  };
  const { engine } = await deepspeed.initialize({
    model: network(),
    config,
    context,
    lossFunction: lossOf,
  });
  let pass = 0;
  const batches: Iterator<[Tensor, Tensor]> = {
    next: () => {
      const { x, target } = batchOf(pass++, 0);
      return { done: false, value: [x, target] };
    },
  };
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    losses.push(await (await engine.trainBatch(batches)).item());
  }
  losses.push(await (await engine.evalBatch(batches)).item());

  const model = network();
  const parallel = await dist.parallelize(
    model,
    dist.pipeline({ microbatches: PASSES, loss: lossOf }),
  );
  const own = new optim.AdamW(model.parameters(), { lr: 0.01, weightDecay: 0.1 });
  const expected: number[] = [];
  for (let step = 0; step <= STEPS; step++) {
    const parts = [0, 1].map((part) => batchOf(step * PASSES + part, 0));
    const x = concat(
      parts.map((each) => each.x),
      0,
    );
    const target = concat(
      parts.map((each) => each.target),
      0,
    );
    const isLast = step === STEPS;
    const loss = isLast ? noGrad(() => parallel.forward(x, target)) : parallel.forward(x, target);
    if (!isLast) {
      loss.backward();
      await own.step();
      own.zeroGrad();
    }
    expected.push(await loss.item());
  }
  return { pipeline: { engine: losses, words: expected, parameters: [], expected: [] } };
}

const parts = { compare, offload, measured, logged, oneBit, inStages };

/** Trains by both ways on a rank. Returns the outcomes of these parts, by their names. */
export async function trainOnRank(
  { rank, size, group, mesh }: RankInThread,
  ...names: readonly (keyof typeof parts)[]
): Promise<Readonly<Record<string, Outcome>>> {
  const context = { rank, worldSize: size, group, mesh };
  const found: Record<string, Outcome> = {};
  for (const name of names) Object.assign(found, await parts[name](context));
  return found;
}
