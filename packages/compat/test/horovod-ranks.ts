import { horovod } from '@shardwise/compat';
import { dist, fromData, Generator, manualSeed, nn, optim, profiler, type Tensor } from 'shardwise';

const STEPS = 3;

interface Trained {
  readonly losses: number[];
  readonly parameters: number[];
}

/** What a rank finds. */
interface Outcome {
  readonly words: Trained;
  readonly horovod: Trained;
  readonly inSmallMessages: Trained;
  readonly inHalf: Trained;
  /** With the sum of gradients of half a loss each, which is the mean for two ranks. */
  readonly summed: Trained;
  readonly clipped: Trained;
  readonly clippedWords: Trained;
  readonly momenta: number[];
  readonly rates: number[];
  readonly messages: number;
  readonly messagesOfParts: number;
}

function network(seed: number): nn.Sequential {
  manualSeed(seed);
  return new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 2));
}

function batchOf(step: number, rank: number): Tensor {
  return fromData(new Generator(10 * step + rank).uniform(15, -2, 2), [5, 3], 'f32');
}

async function valuesOf(tensors: readonly Tensor[]): Promise<number[]> {
  const values: number[] = [];
  for (const tensor of tensors) values.push(...Array.from(await tensor.data(), Number));
  return values;
}

interface Training {
  readonly model: nn.Sequential;
  readonly forward: (x: Tensor) => Tensor;
  readonly optimizer: { step(): Promise<boolean>; zeroGrad(): void };
  readonly scale?: number;
  readonly clip?: () => void;
}

async function train(rank: number, training: Training): Promise<Trained> {
  const { model, forward, optimizer, scale = 1, clip } = training;
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    const loss = forward(batchOf(step, rank)).square().mean();
    (scale === 1 ? loss : loss.mul(scale)).backward();
    clip?.();
    await optimizer.step();
    optimizer.zeroGrad();
    losses.push(await loss.item());
  }
  return { losses, parameters: await valuesOf(model.parameters()) };
}

const momentum = { lr: 0.1, momentum: 0.9 };

/** Trains on a rank by Horovod's words, and by the library's own. */
export async function trainOnRank(rank: number): Promise<Outcome> {
  const byWords = async (isClipped: boolean): Promise<Trained> => {
    const model = network(0);
    const parallel = await dist.parallelize(model, dist.ddp());
    const optimizer = new optim.SGD(model.parameters(), momentum);
    const clip = (): void => void optim.clipGradNorm(model.parameters(), 0.1);
    return train(rank, {
      model,
      forward: (x) => parallel.forward(x),
      optimizer,
      ...(isClipped ? { clip } : {}),
    });
  };
  const byHorovod = async (
    options: horovod.DistributedOptimizerOptions = {},
    more: { scale?: number; isClipped?: boolean } = {},
  ): Promise<Trained> => {
    // Each rank begins with other parameters, until it gets those of rank 0.
    const model = network(rank);
    await horovod.broadcastParameters(model.parameters());
    const optimizer = new horovod.DistributedOptimizer(
      new optim.SGD(model.parameters(), momentum),
      options,
    );
    const clip = (): void => {
      optimizer.synchronize();
      optim.clipGradNorm(model.parameters(), 0.1);
    };
    const { scale, isClipped = false } = more;
    return train(rank, {
      model,
      forward: (x) => model.forward(x),
      optimizer,
      ...(scale === undefined ? {} : { scale }),
      ...(isClipped ? { clip } : {}),
    });
  };
  const counted = async (options: horovod.DistributedOptimizerOptions): Promise<number> => {
    let count = 0;
    const stop = profiler.subscribe((event) => {
      if (event.category === 'collective' && /all-?reduce/i.test(event.name)) count++;
    });
    const model = network(0);
    const own = new horovod.DistributedOptimizer(
      new optim.SGD(model.parameters(), momentum),
      options,
    );
    model.forward(batchOf(0, rank)).square().mean().backward();
    await own.step();
    stop();
    return count;
  };

  // An update that only rank 0 has made.
  const model = network(0);
  const optimizer = new optim.SGD(model.parameters(), {
    lr: rank === 0 ? 0.3 : 0.1,
    momentum: 0.9,
  });
  if (rank === 0) {
    model.forward(batchOf(0, 0)).square().mean().backward();
    await optimizer.step();
  }
  await horovod.broadcastOptimizerState(optimizer);
  const { state, paramGroups } = await optimizer.stateDict();
  const bytes = state['0']?.['momentum_buffer']?.bytes.slice() ?? new Uint8Array();

  return {
    words: await byWords(false),
    horovod: await byHorovod(),
    inSmallMessages: await byHorovod({ fusionThresholdBytes: 16 }),
    inHalf: await byHorovod({ compression: 'fp16' }),
    summed: await byHorovod({ op: 'sum' }, { scale: 0.5 }),
    clipped: await byHorovod({}, { isClipped: true }),
    clippedWords: await byWords(true),
    momenta: Array.from(new Float32Array(bytes.buffer)),
    rates: paramGroups.map(({ lr }) => lr),
    messages: await counted({}),
    messagesOfParts: await counted({ fusionThresholdBytes: 16 }),
  };
}
