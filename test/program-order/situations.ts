import {
  allGather,
  allReduce,
  fromData,
  hostPages,
  LineMesh,
  manualSeed,
  nn,
  noGrad,
  optim,
  OutOfMemoryError,
  sendRecv,
  setRank,
  ShardwiseError,
  type Strategy,
  tensor,
  type Tensor,
} from '@shardwise/core';
import { currentSession, type ProcessGroup } from '@shardwise/core/extend';
import {
  colwiseParallel,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';

/** What a situation gives on one rank: numbers, or the code and the message of an error. */
export type Seen = readonly number[] | { readonly code: string; readonly message: string };

const x = (): Tensor => fromData(Float32Array.of(1, 2, 3, 4, -1, 0, 2, 1), [2, 4], 'f32');

class Branches extends nn.Module {
  readonly a = new nn.Linear(4, 4);
  readonly b = new nn.Linear(4, 4);
  readonly head = new nn.Linear(4, 1);

  forward(input: Tensor, branch: number): Tensor {
    return this.head.forward((branch === 0 ? this.a : this.b).forward(input));
  }
}

class Towers extends nn.Module {
  readonly image = new nn.Sequential(new nn.Linear(4, 4), new nn.Tanh(), new nn.Linear(4, 4));
  readonly text = new nn.Sequential(new nn.Linear(4, 4), new nn.Tanh(), new nn.Linear(4, 4));

  forward(input: Tensor): [Tensor, Tensor] {
    return [this.image.forward(input), this.text.forward(input)];
  }
}

/** Towers whose activations lie in host memory until the backward pass. */
class OffloadedTowers extends Towers {
  readonly #pages = hostPages();

  override forward(input: Tensor): [Tensor, Tensor] {
    return nn.checkpoint(() => super.forward(input), {
      policy: nn.offloadProducts,
      pages: this.#pages,
    });
  }
}

const unevenTower = (): nn.Sequential =>
  new nn.Sequential(new nn.Linear(4, 5), new nn.Tanh(), new nn.Linear(5, 3));

/** Checkpointed towers that two ranks cannot divide equally. */
class UnevenTowers extends Towers {
  override readonly image = unevenTower();
  override readonly text = unevenTower();

  override forward(input: Tensor): [Tensor, Tensor] {
    const [image, text] = [this.image, this.text].map((tower) =>
      nn.checkpoint(() => tower.forward(input)),
    );
    if (image === undefined || text === undefined) throw new RangeError('two towers');
    return [image, text];
  }
}

/** Gathers the rows of all ranks, and returns what one layer makes of them. */
class OfAllRows extends nn.Module {
  readonly layer = new nn.Linear(4, 3, { bias: false });

  forward(input: Tensor): Tensor {
    return this.layer.forward(allGather(input, 'dp', 0));
  }
}

/** Trains for two steps. Rank 0 reads the output before backward() if `reads`. Returns the losses. */
async function trainOnAllRows(rank: number, reads: boolean): Promise<number[]> {
  manualSeed(3);
  const parallel = await parallelize(new OfAllRows(), ddp());
  const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
  const seen: number[] = [];
  for (let step = 0; step < 2; step++) {
    const output = parallel.forward(x().mul(rank + 1));
    if (reads && rank === 0) await output.data();
    const loss = output.square().mean();
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    seen.push(await loss.item());
  }
  return seen;
}

const units = (path: string): string => path.split('.')[0] ?? '';

/** Trains towers for two steps. Rank 0 reads one of the results early if `reads`. Returns the losses and a weight. */
async function trainTowers(
  strategy: Strategy,
  rank: number,
  reads: string,
  build = (): Towers => new Towers(),
): Promise<number[]> {
  manualSeed(3);
  const parallel = await parallelize(build(), strategy);
  const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
  const seen: number[] = [];
  for (let step = 0; step < 2; step++) {
    const [image, text] = parallel.forward(x());
    const loss = image.add(text).square().mean();
    if (reads === 'text' && rank === 0) await text.sum().item();
    if (reads === 'loss' && rank === 0) await loss.item();
    optimizer.zeroGrad();
    loss.backward();
    if (reads === 'after' && rank === 0) await image.sum().item();
    await optimizer.step();
    seen.push(await loss.item());
  }
  const [weight] = parallel.module.parameters();
  if (weight !== undefined) seen.push(await weight.mul(1).sum().item());
  return seen;
}

function trainUnevenTowers(rank: number, reads: string): Promise<number[]> {
  const strategy = fsdp({ unitOf: units, reshardAfterForward: false });
  return trainTowers(strategy, rank, reads, () => new UnevenTowers());
}

const styles = {
  'image.0': colwiseParallel(),
  'image.2': rowwiseParallel(),
  'text.0': colwiseParallel(),
  'text.2': rowwiseParallel(),
};

const situations = {
  'a metric that one rank reads first': async (rank) => {
    const loss = allReduce(tensor([1 + rank]), 'dp');
    const accuracy = allReduce(tensor([10 + rank]), 'dp');
    if (rank === 0) await accuracy.item();
    return [await loss.item(), await accuracy.item()];
  },
  'a gather that one rank reads first': async (rank) => {
    const one = allGather(tensor([1 + rank]), 'dp', 0);
    const other = allGather(tensor([10 + rank]), 'dp', 0);
    if (rank === 1) await other.data();
    return [...(await one.data()), ...(await other.data())].map(Number);
  },
  'metrics that one rank never reads': async (rank) => {
    const loss = allReduce(tensor([1 + rank]), 'dp');
    const accuracy = allReduce(tensor([10 + rank]), 'dp');
    const seen: number[] = [];
    if (rank === 0) seen.push(await accuracy.item(), await loss.item());
    const last = allReduce(tensor([100 + rank]), 'dp');
    return [...seen, await last.item()];
  },
  'a metric that nobody waits for on the other rank': async (rank) => {
    const loss = allReduce(tensor([1 + rank]), 'dp');
    // The rank that does not read waits for something else than a collective.
    if (rank === 0) return [await loss.item()];
    await new Promise((resolve) => setTimeout(resolve, 300));
    return [];
  },
  'a call of the group after a metric': async (rank, group) => {
    const loss = allReduce(tensor([1 + rank]), 'dp');
    if (rank === 0) await loss.item();
    const bytes = new Uint8Array(Float32Array.of(5 + rank).buffer);
    await group.allReduce({ bytes, dtype: 'f32' }, 'sum');
    return [new Float32Array(bytes.buffer)[0] ?? 0, await loss.item()];
  },
  'branches of fsdp': (rank) => evaluateBranches(fsdp({ unitOf: units }), rank),
  'branches of zero 3': (rank) => evaluateBranches(zero({ stage: 3, unitOf: units }), rank),
  'two models of one class under fsdp': async (rank) => {
    const towers = [
      await parallelize(new Towers(), fsdp({ unitOf: units })),
      await parallelize(new Towers(), fsdp({ unitOf: units })),
    ];
    const [image] = noGrad(() => towers[rank]?.forward(x()) ?? []);
    return Array.from((await image?.data()) ?? [], Number);
  },
  'frozen branches of fsdp': async (rank) => {
    manualSeed(3);
    const model = new Branches();
    for (const layer of [model.a, model.b]) {
      for (const each of layer.parameters()) each.requiresGrad_(false);
    }
    const parallel = await parallelize(model, fsdp({ unitOf: units }));
    const optimizer = new optim.SGD(parallel.module.head.parameters(), { lr: 0.1 });
    const loss = parallel.forward(x(), rank).square().mean();
    loss.backward();
    await optimizer.step();
    return [await loss.item()];
  },
  'towers of fsdp': (rank) => trainTowers(fsdp({ unitOf: units }), rank, ''),
  'towers of fsdp, text read early': (rank) => trainTowers(fsdp({ unitOf: units }), rank, 'text'),
  'towers of fsdp, loss read early': (rank) => trainTowers(fsdp({ unitOf: units }), rank, 'loss'),
  'towers of fsdp, a result read after backward': (rank) =>
    trainTowers(fsdp({ unitOf: units }), rank, 'after'),
  'towers of zero 3': (rank) => trainTowers(zero({ stage: 3 }), rank, ''),
  'rows of all ranks': (rank) => trainOnAllRows(rank, false),
  'rows of all ranks, output read early': (rank) => trainOnAllRows(rank, true),
  'uneven towers of fsdp that keeps parameters': (rank) => trainUnevenTowers(rank, ''),
  'uneven towers of fsdp that keeps parameters, text read early': (rank) =>
    trainUnevenTowers(rank, 'text'),
  'towers of zero 3, text read early': (rank) => trainTowers(zero({ stage: 3 }), rank, 'text'),
  'towers of tensor parallelism': (rank) =>
    trainTowers(tensorParallel(styles, { axis: 'dp' }), rank, ''),
  'towers of tensor parallelism, text read early': (rank) =>
    trainTowers(tensorParallel(styles, { axis: 'dp' }), rank, 'text'),
  'towers of tensor parallelism, offloaded, loss read early': (rank) =>
    trainTowers(tensorParallel(styles, { axis: 'dp' }), rank, 'loss', () => new OffloadedTowers()),
  'a call that memory does not suffice for, and a smaller one': async (rank, group) => {
    const device = interpreter({ capacityBytes: 20_000 });
    setRank({ device, mesh: new LineMesh('dp', group) });
    const sum = (rows: number): Tensor =>
      allReduce(
        tensor([1 + rank])
          .expand([rows])
          .mul(1),
        'dp',
      ).sum();
    try {
      await sum(10_000).item();
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
    }
    return [await sum(1000).item()];
  },
  'parameters that ranks read in another order': async (rank) => {
    manualSeed(3);
    const parallel = await parallelize(new Branches(), fsdp({ unitOf: units }));
    const [a, , b] = parallel.module.parameters();
    const read = rank === 0 ? a : b;
    return [(await read?.sum().item()) ?? Number.NaN];
  },
  'a swapped pair': async (rank) => {
    const one = (): Tensor => allReduce(tensor([1 + rank]), 'dp');
    const other = (): Tensor => allReduce(tensor([10 + rank]), 'dp');
    const seen = rank === 0 ? [one(), other()] : [other(), one()];
    const numbers: number[] = [];
    for (const each of seen) numbers.push(await each.item());
    return numbers;
  },
  'steps of a pipeline': (rank) => trainPipeline(rank, true),
  'steps of a pipeline that nobody waits for': (rank) => trainPipeline(rank, false),
  'calls that differ and that nobody waits for': async (rank) => {
    if (rank === 0) allReduce(tensor([1]), 'dp');
    else allReduce(tensor([2]), 'dp');
    await new Promise((resolve) => setTimeout(resolve, 400));
    return [];
  },
  'swapped messages': async (rank) => {
    const one = (): Tensor => sendRecv(tensor([1 + rank]), 'dp', [1, 0]);
    const other = (): Tensor => sendRecv(tensor([10 + rank]), 'dp', [1, 0]);
    const seen = rank === 0 ? [one(), other()] : [other(), one()];
    const numbers: number[] = [];
    for (const each of seen) numbers.push(await each.item());
    return numbers;
  },
  'one call more': async (rank) => {
    const numbers: number[] = [];
    for (let i = 0; i < 2 + rank; i++) {
      numbers.push(await allReduce(tensor([i + rank]), 'dp').item());
    }
    numbers.push(await allReduce(tensor([100]), 'dp').item());
    return numbers;
  },
} satisfies Record<string, (rank: number, group: ProcessGroup) => Promise<readonly number[]>>;

/** Trains two stages for three steps, whose gradients come from two passes each. Returns the last loss. */
async function trainPipeline(rank: number, isAwaited: boolean): Promise<number[]> {
  manualSeed(3);
  const model = new nn.Sequential(new nn.Linear(4, 8), new nn.Tanh(), new nn.Linear(8, 4));
  const parallel = await parallelize(
    model,
    pipeline({
      axis: 'dp',
      schedule: '1f1b',
      microbatches: 2,
      cut: ['2'],
      loss: (output: Tensor, target: Tensor) => output.sub(target).square().mean(),
    }),
  );
  const optimizer = new optim.AdamW(parallel.module.parameters(), { lr: 0.1 });
  const steps: Promise<boolean>[] = [];
  let loss = parallel.forward(x(), x());
  for (let step = 0; step < 3; step++) {
    loss.backward();
    // Nothing on this rank waits for it.
    allGather(tensor([rank]), 'dp', 0);
    loss = parallel.forward(x(), x().mul(2));
    loss.backward();
    const stepped = optimizer.step();
    if (isAwaited) await stepped;
    else steps.push(stepped);
    optimizer.zeroGrad();
    loss = parallel.forward(x(), x());
  }
  await Promise.all(steps);
  return [await loss.item()];
}

async function evaluateBranches(strategy: Strategy, rank: number): Promise<readonly number[]> {
  manualSeed(3);
  const parallel = await parallelize(new Branches(), strategy);
  const output = noGrad(() => parallel.forward(x(), rank));
  return Array.from(await output.data(), Number);
}

export type Situation = keyof typeof situations;

/** Plays a situation on two ranks, and returns what each has seen. */
export function play(situation: Situation): Promise<readonly Seen[]> {
  return onRanks(
    2,
    async ({ rank, group }): Promise<Seen> => {
      try {
        const seen = await situations[situation](rank, group);
        await currentSession().finish();
        return seen;
      } catch (error) {
        if (!ShardwiseError.isInstance(error)) throw error;
        return { code: error.code, message: error.message };
      }
    },
    { createDevice: () => interpreter() },
  );
}
