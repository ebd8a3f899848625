import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { concat, manualSeed, nn, noGrad, optim, statistics, Tensor, tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  onEveryRank,
  parallelize,
  pipeline,
  type PipelineOptions,
  type PlannedModelWithLoss,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { failureOf } from './failure-of.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

const cut = ['blocks.2'];
const options = { schedule: '1f1b', cut, microbatches: 2, loss: languageLoss } as const;

/** Runs `body` as both ranks of a pipeline. */
function onStages<T>(body: (rank: RankInThread) => Promise<T>): Promise<readonly T[]> {
  return onRanks(2, body, { axes: [{ name: 'pp', size: 2 }] });
}

interface Batch {
  readonly x: Tensor;
  readonly y: Tensor;
}

function batch(step: number, rows = 4): Batch {
  const { ids, targets } = languageBatch(step, rows);
  return { x: tensor(ids, 'i32'), y: tensor(targets, 'i32') };
}

type Piped = PlannedModelWithLoss<Language, [ids: Tensor], Tensor, [targets: Tensor]>;

async function piped(changes: Partial<PipelineOptions> = {}): Promise<Piped> {
  manualSeed(3);
  return parallelize(new Language(), pipeline({ ...options, ...changes }));
}

/** The same model on one rank. */
function alone(): Language {
  manualSeed(3);
  return new Language();
}

const adam = (model: nn.Module): optim.AdamW => new optim.AdamW(model.parameters(), { lr: 0.01 });

async function trainOnce(model: Piped, optimizer: optim.AdamW, step: number): Promise<number> {
  const { x, y } = batch(step);
  optimizer.zeroGrad();
  const loss = model.forward(x, y);
  loss.backward();
  await optimizer.step();
  return loss.item();
}

const meanSquare = (output: Tensor): Tensor => output.square().mean();

async function valuesOf(tensors: Iterable<Tensor>): Promise<number[]> {
  const found: number[] = [];
  for (const each of tensors) found.push(...Array.from(await each.data(), Number));
  return found;
}

function expectClose(found: readonly number[], expected: readonly number[]): void {
  expect(found).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) expect(found[index]).toBeCloseTo(value, 4);
}

/** A model with batch norms in both stages and layers without parameters between them. */
class Norms extends nn.Module {
  readonly layers = new nn.Sequential(
    new nn.Linear(3, 4),
    new nn.BatchNorm1d(4),
    new nn.ReLU(),
    new nn.Linear(4, 4),
    new nn.BatchNorm1d(4),
  );

  /** Shape: x [B, 3] -> [B, 4]. */
  forward(x: Tensor): Tensor {
    return this.layers.forward(x);
  }

  buffers(): readonly Tensor[] {
    return [...this.namedBuffers()].map(([, buffer]) => buffer);
  }
}

/** A model that returns its loss: of the classes of tokens, and a penalty from its first stage. */
class OwnLoss extends nn.Module {
  readonly inner = new Language();

  /** Shape: ids, targets i32 [B, T] -> []. */
  forward(ids: Tensor, targets: Tensor): Tensor {
    const penalty = this.inner.tokens.forward(ids).square().mean();
    return languageLoss(this.inner.forward(ids), targets).add(penalty.mul(0.1));
  }
}

/**
 * A model that uses one weight twice in its first stage. Two of its modules have no parameters, and others may be
 * frozen.
 */
class Sparse extends nn.Module {
  readonly twice = new nn.Linear(3, 3);
  readonly tanh = new nn.Tanh();
  readonly relu = new nn.ReLU();
  readonly last = new nn.Linear(3, 2);

  /** Shape: x [B, 3] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    const hidden = this.twice.forward(this.twice.forward(x).relu());
    return this.last.forward(this.relu.forward(this.tanh.forward(hidden)).mul(2));
  }
}

describe('a pipeline of two ranks', () => {
  it('gives every rank the loss of an evaluation, also of an odd number of rows', async () => {
    await onStages(async () => {
      const [model, reference] = [await piped(), alone()];
      const { x, y } = batch(0, 3);
      const evaluate = (): Promise<number> => noGrad(() => model.forward(x, y)).item();
      const expected = (): Promise<number> =>
        noGrad(() => languageLoss(reference.forward(x), y)).item();
      const before = await evaluate();
      expect(before).toBeCloseTo(await expected(), 5);
      const optimizers = [adam(model.module), adam(reference)];
      model.forward(concat([x, x], 0), concat([y, y], 0)).backward();
      languageLoss(reference.forward(x), y).backward();
      for (const optimizer of optimizers) await optimizer.step();
      const after = await evaluate();
      expect(after).toBeCloseTo(await expected(), 4);
      expect(after).toBeLessThan(before);
    });
  });

  it('has outputs on the rank of their stage, and on all by one call', async () => {
    await onStages(async ({ rank }) => {
      const model = await piped();
      const { x } = batch(0, 3);
      const logits = noGrad(() => model.forward(x));
      const failure = await failureOf(logits.data());
      if (rank === 1) expect(failure).toBeNull();
      else {
        expect(failure?.code).toBe('TENSOR_STATE');
        expect(failure?.message).toMatch(/rank 1 of 'pp' has it.*onEveryRank/);
      }
      const expected = noGrad(() => alone().forward(x));
      expectClose(await valuesOf([await onEveryRank(logits)]), await valuesOf([expected]));
    });
  });

  it('generates what one rank does, in passes of growing length', async () => {
    /** Each id is the one that the model finds likeliest after those before it. */
    const generate = async (next: (ids: Tensor) => Promise<Tensor>): Promise<number[]> => {
      const ids = [1];
      while (ids.length < 5) {
        const logits = await next(tensor([ids], 'i32'));
        const last = logits.slice(1, ids.length - 1, ids.length);
        ids.push(await last.argMax().item());
      }
      return ids;
    };
    await onStages(async () => {
      const [model, reference] = [await piped(), alone()];
      model.module.eval();
      const found = await generate((ids) => onEveryRank(noGrad(() => model.forward(ids))));
      expect(found).toEqual(await generate(async (ids) => noGrad(() => reference.forward(ids))));
    });
  });

  it('adds up gradients of several passes, whether their losses are added or not', async () => {
    await onStages(async () => {
      const [first, second] = [batch(0), batch(1)];
      const apart = await piped();
      apart.forward(first.x, first.y).backward();
      apart.forward(second.x, second.y).backward();
      const together = await piped();
      together.forward(first.x, first.y).add(together.forward(second.x, second.y)).backward();
      const reference = alone();
      for (const { x, y } of [first, second]) languageLoss(reference.forward(x), y).backward();
      const held = together.module.parameters().map(({ grad }) => grad !== null);
      const normsOf = (model: nn.Module): Promise<number[]> =>
        valuesOf(
          model
            .parameters()
            .flatMap(({ grad }, at) => (grad === null || !held[at] ? [] : [grad.square().sum()])),
        );
      const expected = await normsOf(reference);
      expect(expected.length).toBeGreaterThan(10);
      expectClose(await normsOf(apart.module), expected);
      expectClose(await normsOf(together.module), expected);
    });
  });

  it('skips a step that overflows on all ranks alike', async () => {
    const [first, second] = await onStages(async () => {
      const model = await piped();
      const optimizer = adam(model.module);
      const scaler = new optim.DynamicLossScaler({ initialScale: 2 ** 127 });
      const { x, y } = batch(0);
      const scales: number[] = [];
      for (const [factor, isTaken] of [
        [1e6, false],
        [1e-6, true],
      ] as const) {
        optimizer.zeroGrad();
        scaler.scale(model.forward(x, y).mul(factor)).backward();
        expect(await scaler.step(optimizer)).toBe(isTaken);
        scaler.update();
        scales.push(scaler.lossScale);
      }
      return scales;
    });
    expect(second).toEqual(first);
  });

  it('has the same running means on all ranks as one that accumulates the microbatches', async () => {
    await onStages(async () => {
      const x = tensor([1, 2, 3, 4].map((row) => [row, row * row, 1 / row]));
      manualSeed(4);
      const model = await parallelize(
        new Norms(),
        pipeline({ schedule: 'gpipe', cut: ['layers.2'], microbatches: 2, loss: meanSquare }),
      );
      manualSeed(4);
      const reference = new Norms();
      model.forward(x).backward();
      for (const part of x.chunk(2)) meanSquare(reference.forward(part)).backward();
      await adam(model.module).step();
      await adam(reference).step();
      expectClose(await valuesOf(model.module.buffers()), await valuesOf(reference.buffers()));
    });
  });

  it('moves running statistics once, by those of all rows that came to a norm, where these are deferred', async () => {
    await onStages(async () => {
      const x = tensor([1, 2, 3, 4, 7].map((row) => [row, row * row, 1 / row]));
      manualSeed(4);
      const model = await parallelize(
        new Norms(),
        pipeline({ ...options, cut: ['layers.2'], loss: meanSquare, deferredBatchNorm: true }),
      );
      model.forward(x).backward();
      await adam(model.module).step();
      // The microbatches have different sizes. Each is normalised by itself.
      manualSeed(4);
      const [first, second] = [new nn.Linear(3, 4), new nn.Linear(4, 4)];
      const early = first.forward(x);
      const parts = [early.slice(0, 0, 3), early.slice(0, 3)].map((part) =>
        new nn.BatchNorm1d(4).forward(part),
      );
      const expected = [early, second.forward(concat(parts).relu())].flatMap((seen) => [
        seen.mean(0).mul(0.1),
        seen.variance(0).mul(0.1).add(0.9),
        tensor([1]),
      ]);
      expectClose(await valuesOf(model.module.buffers()), await valuesOf(expected));
    });
  });

  it('has outputs that a hook retains on the rank of their stage alone', async () => {
    /** The outputs of the blocks of both microbatches of a pass. */
    const retainOutputs = (model: Language): readonly Tensor[][] =>
      [...model.blocks].map((block) => {
        const outputs: Tensor[] = [];
        block.registerForwardHook((_module, _inputs, output) => {
          if (output instanceof Tensor) outputs.push(output.retain());
          return undefined;
        });
        return outputs;
      });
    const isHere = ({ node: { value } }: Tensor): boolean =>
      value !== null && value.kind !== 'freed';
    await onStages(async ({ rank }) => {
      const [model, reference] = [await piped(), alone()];
      const { x, y } = batch(0);
      const [own, expected] = [retainOutputs(model.module), retainOutputs(reference)];
      const loss = model.forward(x, y);
      loss.backward();
      await loss.item();
      await languageLoss(reference.forward(x), y).item();
      const held = [...own.keys()].filter((at) => own[at]?.every(isHere));
      expect(held).toEqual(
        [
          [0, 1],
          [2, 3],
        ][rank],
      );
      for (const at of held) {
        expectClose(await valuesOf(own[at] ?? []), await valuesOf(expected[at] ?? []));
      }
    });
  });

  it('takes the loss of the model itself, with a part from its first stage and weights by tokens', async () => {
    const weightOf = (y: unknown): Tensor => {
      if (!(y instanceof Tensor)) throw new TypeError('targets are a tensor');
      return y.ge(5).to('f32').sum().add(1);
    };
    await onStages(async () => {
      const weight = (_: unknown, y: unknown): Tensor => weightOf(y);
      manualSeed(5);
      const model = await parallelize(
        new OwnLoss(),
        pipeline({ schedule: '1f1b', cut: ['inner.blocks.2'], microbatches: 2, weight }),
      );
      manualSeed(5);
      const reference = new OwnLoss();
      const [own, other] = [adam(model.module), adam(reference)];
      for (let step = 0; step < 2; step++) {
        const { x, y } = batch(step);
        own.zeroGrad();
        other.zeroGrad();
        const loss = model.forward(x, y);
        loss.backward();
        await own.step();
        const microbatches = x.chunk(2).map((ids, at) => [ids, y.chunk(2)[at] ?? y] as const);
        const weights = microbatches.map(([, targets]) => weightOf(targets));
        const all = weights.reduce((sum, each) => sum.add(each));
        const expected = microbatches
          .map(([ids, targets], at) =>
            reference.forward(ids, targets).mul((weights[at] ?? all).div(all)),
          )
          .reduce((sum, each) => sum.add(each));
        expected.backward();
        await other.step();
        expect(await loss.item()).toBeCloseTo(await expected.item(), 4);
      }
    });
  });

  it('sends no gradients to a stage that is frozen', async () => {
    const [first, second] = await onStages(async () => {
      const inner = alone();
      for (const [name, parameter] of inner.namedParameters()) {
        if (/tokens|positions|blocks\.[01]/.test(name)) parameter.requiresGrad_(false);
      }
      const model = await parallelize(inner, pipeline(options));
      const { x, y } = batch(0);
      const loss = model.forward(x, y);
      loss.backward();
      await loss.item();
      const parameters = model.module.namedParameters();
      return parameters.flatMap(([name, { grad }]) => (grad === null ? [] : [name]));
    });
    expect(first).toEqual([]);
    expect(second).toContain('head.weight');
  });

  it('saves checkpoints that other cuts and one rank load', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'pipeline-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    await onStages(async ({ group }) => {
      const model = await piped();
      const optimizer = adam(model.module);
      await trainOnce(model, optimizer, 0);
      const contents = { model: model.module, optimizer, step: 1 };
      const saved = await checkpoints.save(directory, contents, { group });
      const load = async (module: nn.Module): Promise<optim.AdamW> => {
        const loaded = adam(module);
        const checkpoint = await checkpoints.load(saved);
        await checkpoints.loadModel(checkpoint, module);
        await checkpoints.loadOptimizer(checkpoint, module, loaded);
        return loaded;
      };
      const other = await piped({ cut: ['blocks.1'] });
      const others = await load(other.module);
      const reference = alone();
      const own = await load(reference);
      for (const step of [1, 2]) {
        const loss = await trainOnce(model, optimizer, step);
        expect(await trainOnce(other, others, step)).toBeCloseTo(loss, 5);
        const { x, y } = batch(step);
        own.zeroGrad();
        const expected = languageLoss(reference.forward(x), y);
        expected.backward();
        await own.step();
        expect(await expected.item()).toBeCloseTo(loss, 4);
      }
    });
  });

  it('gives every rank the states of all parameters in a state dict', async () => {
    await onStages(async () => {
      const model = await piped();
      const optimizer = adam(model.module);
      await trainOnce(model, optimizer, 0);
      const states = await optimizer.stateDict();
      expect(Object.keys(states.state)).toHaveLength(29);
      const other = await piped({ cut: ['blocks.3'] });
      const others = adam(other.module);
      await other.module.loadStateDict(await model.module.stateDict());
      others.loadStateDict(states);
      for (const step of [1, 2]) {
        const loss = await trainOnce(model, optimizer, step);
        expect(await trainOnce(other, others, step)).toBeCloseTo(loss, 5);
      }
    });
  });

  it.each([
    ['tokens', /loss of a pipeline is NaN: .* of stage 0 on rank 0 of 'pp' \(/],
    [
      'blocks.1.up',
      /stage 1 on rank 1 of 'pp', which begins at 'blocks.1' \(its output for microbatch 0\)/,
    ],
    ['blocks.2.up', /stage 2 on rank 1 of 'pp'/],
    ['head', /stage 3 on rank 0 of 'pp', which begins at 'blocks.3' \(the loss\)/],
  ])(
    'names the first stage with a value that is not finite, once, where the loss is not, by %s',
    async (path, says) => {
      const warnings: string[][] = [[], []];
      const warn = vi.spyOn(console, 'warn').mockImplementation((message: unknown) => {
        warnings[currentSession().mesh.coordinate('pp')]?.push(String(message));
      });
      onTestFinished(() => warn.mockRestore());
      await onStages(async () => {
        const model = await piped({ cut: ['blocks.1', 'blocks.2', 'blocks.3'], schedule: 'zbv' });
        for (const [name, parameter] of model.module.namedParameters()) {
          if (name === `${path}.weight`) noGrad(() => parameter.assign(parameter.mul(Number.NaN)));
        }
        const optimizer = adam(model.module);
        for (const step of [0, 1]) await trainOnce(model, optimizer, step);
      });
      expect(warnings).toEqual([[expect.stringMatching(says)], []]);
    },
  );

  describe.each(['interleaved1f1b', 'zbv'] as const)('with the schedule %s', (schedule) => {
    it.each([null, 'last', 'twice'])(
      'takes a weight that a stage uses twice and stages without parameters, where %s is frozen',
      async (frozen) => {
        const build = (): Sparse => {
          manualSeed(6);
          const model = new Sparse();
          for (const [name, parameter] of model.namedParameters()) {
            if (frozen !== null && name.startsWith(frozen)) parameter.requiresGrad_(false);
          }
          return model;
        };
        await onStages(async () => {
          const x = tensor([1, -2, 3, 0.5].map((row) => [row, row * row, 1 / row]));
          const cut = ['tanh', 'relu', 'last'];
          const model = await parallelize(
            build(),
            pipeline({ schedule, microbatches: 2, cut, loss: meanSquare }),
          );
          const reference = build();
          model.forward(x).backward();
          meanSquare(reference.forward(x)).backward();
          const expected = await optim.totalGradNorm(reference.parameters()).item();
          expect(expected).toBeGreaterThan(0.01);
          const found = await optim.totalGradNorm(model.module.parameters()).item();
          expect(found).toBeCloseTo(expected, 4);
        });
      },
    );
  });

  it('makes no plan after the first steps', async () => {
    await onStages(async () => {
      const model = await piped();
      const optimizer = adam(model.module);
      for (const step of [0, 1]) await trainOnce(model, optimizer, step);
      const before = statistics().plansMade;
      for (const step of [2, 3]) await trainOnce(model, optimizer, step);
      expect(statistics().plansMade).toBe(before);
    });
  });
});

/** A module that accepts inputs of any shape. */
class Factor extends nn.Module {
  readonly factor = new nn.Parameter(Float32Array.of(2), []);

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.mul(this.factor);
  }
}

/** A model whose first stage has an output of `width` columns. */
class Narrow extends nn.Module {
  readonly first = new nn.Linear(5, 5);
  readonly second = new Factor();
  readonly #width: number;

  constructor(width: number) {
    super();
    this.#width = width;
  }

  /** Shape: x [B, 5] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).slice(1, 0, this.#width);
    return this.second.forward(hidden).pad([0, 0], [0, 5 - this.#width]);
  }
}

/** A model that recomputes two of its blocks in backward. */
class Checkpointed extends nn.Module {
  readonly blocks = new nn.Sequential(new nn.Linear(5, 5), new nn.Linear(5, 5));

  /** Shape: x [B, 5] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    return nn.checkpoint(() => this.blocks.forward(x));
  }
}

describe('a pipeline of two ranks says on each what is wrong with', () => {
  it.each<[what: string, says: RegExp, attempt: (rank: number) => Promise<unknown>]>([
    [
      'a forward pass of the module itself',
      /^TENSOR_STATE: a parameter of a pipeline, of shape .*: only rank [01] of 'pp' has it.*Call forward\(\) of what parallelize\(\) returned/,
      async () => (await piped()).module.forward(batch(0).x).data(),
    ],
    [
      'a loss that is built outside',
      /^CONFIG: .*an output of shape .*Give pipeline\(\) a loss/,
      async () => {
        const strategy = pipeline({ schedule: '1f1b', cut, microbatches: 2 });
        const model = await parallelize(alone(), strategy);
        const { x, y } = batch(0);
        languageLoss(model.forward(x), y);
      },
    ],
    [
      'a loss that is read before backward',
      /^TENSOR_STATE: .*Call loss.backward\(\) first/,
      async () => {
        const model = await piped();
        const { x, y } = batch(0);
        return model.forward(x, y).item();
      },
    ],
    [
      'a second backward',
      /^TENSOR_STATE: backward\(\) of the loss of a pipeline: it was called before/,
      async () => {
        const model = await piped();
        const { x, y } = batch(0);
        const loss = model.forward(x, y);
        loss.backward();
        await loss.item();
        loss.backward();
      },
    ],
    [
      'an input that requires a gradient',
      /^CONFIG: .*whose gradient would not arrive/,
      async () => {
        const model = await piped();
        model.forward(tensor([[1], [2]]).requiresGrad_(), batch(0).y);
      },
    ],
    [
      'more stages than cuts',
      /^LAYOUT: a pipeline of 1 stages on 2 ranks: 0 cuts/,
      () => piped({ cut: [] }),
    ],
    [
      'a schedule without backwards',
      /^CONFIG: .*it has only forward passes, so nothing would be trained/,
      () => piped({ schedule: 'forwardOnly' }),
    ],
    [
      'a cut inside a checkpoint',
      /^LAYOUT: a pipeline cut at 'blocks.1': it is called inside a checkpoint/,
      async () => {
        const model = await parallelize(
          new Checkpointed(),
          pipeline({ ...options, cut: ['blocks.1'], loss: nn.functional.mseLoss }),
        );
        const { x, y } = batch(0);
        model.forward(x.to('f32'), y.to('f32'));
      },
    ],
    [
      'a cut that is no module',
      /^LAYOUT: a pipeline cut at 'blocks.9': no module of this name/,
      () => piped({ cut: ['blocks.9'] }),
    ],
    [
      'cuts in another order',
      /^LAYOUT: a pipeline cut at 'blocks.1': it does not come after 'blocks.2'/,
      () => piped({ cut: ['blocks.2', 'blocks.1', 'head'], schedule: 'interleaved1f1b' }),
    ],
    [
      'microbatches that a schedule does not take',
      /^CONFIG: the schedule dualPipeV/,
      () =>
        piped({
          cut: ['blocks.1', 'blocks.2', 'blocks.3'],
          schedule: 'dualPipeV',
          microbatches: 1,
        }),
    ],
    [
      'ranks that cut at other modules',
      /^COLLECTIVE_MISMATCH: .*rank 1 differs from rank 0: rank 0 has the step runStages .*cut \[blocks.1\].*same strategy and options/,
      (rank) => piped({ cut: [`blocks.${rank + 1}`] }),
    ],
    [
      'ranks with other schedules',
      /^COLLECTIVE_MISMATCH: .*rank 1 differs from rank 0 at line 2: rank 0 has the actions 1F0 /,
      (rank) => piped({ schedule: rank === 0 ? '1f1b' : 'gpipe' }),
    ],
    [
      'stages that send each other other shapes',
      /^COLLECTIVE_MISMATCH: .*the forward pass of rank 1 would send .* of other shapes/,
      async (rank) => {
        const model = await parallelize(
          new Narrow(4 - rank),
          pipeline({ ...options, cut: ['second'], loss: nn.functional.mseLoss }),
        );
        const optimizer = adam(model.module);
        const { x, y } = batch(0);
        model.forward(x.to('f32'), y.to('f32')).backward();
        await optimizer.step();
      },
    ],
    [
      'ranks that are given different batches',
      /^COLLECTIVE_MISMATCH: .*the data of the batch differs between rank 1 and rank 0.*over the ranks of dp/,
      async (rank) => {
        const model = await piped();
        await trainOnce(model, adam(model.module), rank);
      },
    ],
    [
      'ranks whose last batches have other numbers of rows, both fewer than microbatches',
      /^COLLECTIVE_MISMATCH: .*the shape of the batch differs between rank 1 and rank 0/,
      async (rank) => {
        const model = await piped({ microbatches: 4 });
        const optimizer = adam(model.module);
        await trainOnce(model, optimizer, 0);
        const { x, y } = batch(1, rank + 1);
        model.forward(x, y).backward();
        await optimizer.step();
      },
    ],
  ])('%s', async (_, says, attempt) => {
    const failures = await onStages(({ rank }) => failureOf(attempt(rank)));
    for (const failure of failures) expect(`${failure?.code}: ${failure?.message}`).toMatch(says);
  });
});
