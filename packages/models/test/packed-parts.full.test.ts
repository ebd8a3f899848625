import { fromData, manualSeed, optim, type Strategy, type Tensor } from '@shardwise/core';
import { LlamaForCausalLM, MistralForCausalLM, type PretrainedModel } from '@shardwise/models';
import { compose, contextParallel, ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';

/** A document: its tokens, and its labels, of which some do not count. */
interface Document {
  readonly ids: readonly number[];
  readonly labels: readonly number[];
}

/** The rows of each step, each packed with documents. All rows of a step are filled to the same length. */
type Step = readonly (readonly Document[])[];

const VOCABULARY = 32;
const RANKS = 4;
const common = {
  vocabSize: VOCABULARY,
  hiddenSize: 24,
  intermediateSize: 16,
  numHiddenLayers: 1,
  numAttentionHeads: 6,
  // The four ranks divide neither the heads of queries nor those of keys.
  numKeyValueHeads: 3,
  maxPositionEmbeddings: 64,
};
const models: Readonly<Record<string, () => PretrainedModel>> = {
  Llama: () => new LlamaForCausalLM(common),
  'Mistral with a window': () => new MistralForCausalLM({ ...common, slidingWindow: 5 }),
};
const methods: Readonly<Record<string, () => Strategy>> = {
  ring: () => compose(contextParallel({ method: 'ring' }), ddp({ axis: 'cp' })),
  allGather: () => compose(contextParallel({ method: 'allGather' }), fsdp({ axis: 'cp' })),
  ulysses: () => compose(contextParallel({ method: 'ulysses' }), zero({ stage: 2, axis: 'cp' })),
  usp: () => compose(contextParallel({ method: 'usp' }), zero({ stage: 1, axis: 'cp' })),
};

/** What is computed by the kernels of the CPU. They take longer to compile than the interpreter takes to compute. */
const onKernels: ReadonlySet<string> = new Set(['Llama ring', 'Llama ulysses']);

const document = fc.array(fc.record({ id: fc.nat(VOCABULARY - 1), counts: fc.boolean() }), {
  minLength: 1,
  maxLength: 13,
});
const step = fc.array(fc.array(document, { minLength: 1, maxLength: 4 }), {
  minLength: 2,
  maxLength: 2,
});

/** Steps of random documents, whose rows differ in length from step to step. */
const steps: readonly Step[] = fc.sample(step, { numRuns: 2, seed: 42 }).map((rows) => {
  const own = rows.map((row) =>
    row.map((tokens) => ({
      ids: tokens.map(({ id }) => id),
      labels: tokens.map(({ id, counts }) => (counts ? id : -100)),
    })),
  );
  const lengthOf = (row: readonly Document[]): number =>
    row.reduce((sum, { ids }) => sum + ids.length, 0);
  const longest = Math.max(...own.map(lengthOf), 5);
  // The end of a row is a document without labels.
  return own.map((row) => {
    const rest = longest - lengthOf(row);
    const filler = { ids: Array<number>(rest).fill(1), labels: Array<number>(rest).fill(-100) };
    return rest === 0 ? row : [...row, filler];
  });
});

const integers = (rows: readonly (readonly number[])[]): Tensor =>
  fromData(Int32Array.from(rows.flat()), [rows.length, rows[0]?.length ?? 0], 'i32');

/** The loss of packed rows. */
function lossOfPacked(model: Pick<PretrainedModel, 'forward'>, rows: Step): Tensor {
  const flat = (of: (document: Document, number: number) => readonly number[]): Tensor =>
    integers(rows.map((row) => row.flatMap(of)));
  return model.forward(
    flat(({ ids }) => ids),
    {
      labels: flat(({ labels }) => labels),
      documents: flat(({ ids }, number) => ids.map(() => number)),
    },
  );
}

/** The same loss of passes that each have one document, weighted by the labels that count in them. */
function lossOfEach(model: Pick<PretrainedModel, 'forward'>, rows: Step): Tensor {
  const counted = rows.flat().flatMap(({ ids, labels }) => {
    const count = labels.slice(1).filter((label) => label !== -100).length;
    if (count === 0) return [];
    return [{ count, loss: model.forward(integers([ids]), { labels: integers([labels]) }) }];
  });
  const total = counted.reduce((sum, { count }) => sum + count, 0);
  return counted
    .map(({ loss, count }) => loss.mul(count / total))
    .reduce((sum, each) => sum.add(each));
}

interface Trained {
  readonly losses: number[];
  /** The norms of the gradients of all tokens, to which these are clipped. */
  readonly norms: number[];
  readonly weights: number[];
}

async function train(
  build: () => PretrainedModel,
  strategy: Strategy | null,
  lossOf: typeof lossOfPacked,
): Promise<Trained> {
  manualSeed(5);
  const model = build();
  const parallel = strategy === null ? model : await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const losses: number[] = [];
  const norms: number[] = [];
  for (const rows of steps) {
    const loss = lossOf(parallel, rows);
    optimizer.zeroGrad();
    loss.backward();
    const norm = optim.clipGradNorm(model.parameters(), 0.5);
    await optimizer.step();
    losses.push(await loss.item());
    norms.push(await norm.item());
  }
  const state = Object.values(await model.stateDict());
  const weights = state.flatMap(({ bytes }) => [...new Float32Array(bytes.slice().buffer)]);
  return { losses, norms, weights };
}

function expectSame(found: Trained | undefined, expected: Trained | null): void {
  if (found === undefined || expected === null) expect.fail('nothing was trained');
  assertAllclose(found.losses, expected.losses, { rtol: 1e-5, atol: 1e-5 });
  assertAllclose(found.norms, expected.norms, { rtol: 1e-5, atol: 1e-5 });
  assertAllclose(found.weights, expected.weights, { rtol: 1e-5, atol: 1e-5 });
}

describe.each(Object.keys(models))('packed documents of a %s', (name) => {
  const build = models[name] ?? expect.fail(name);
  let packed: Trained | null = null;

  beforeAll(async () => {
    const [alone] = await onRanks(1, () => train(build, null, lossOfPacked));
    packed = alone ?? null;
  });

  test('train on one rank as separate documents do', async () => {
    const [separate] = await onRanks(1, () => train(build, null, lossOfEach));
    expectSame(separate, packed);
  });

  test('rows have lengths that vary and that the ranks do not divide', () => {
    const lengths = steps.map(([row = []]) => row.flatMap(({ ids }) => ids).length);
    expect(new Set(lengths).size).toBeGreaterThan(1);
    expect(lengths.some((length) => length % RANKS > 0)).toBe(true);
  });

  test.each(Object.keys(methods))(
    'train by the method %s as on one rank',
    { timeout: 300_000 },
    async (method) => {
      const ranks = await onRanks(
        RANKS,
        () => train(build, methods[method]?.() ?? null, lossOfPacked),
        {
          axes: [{ name: 'cp', size: RANKS }],
          ...(onKernels.has(`${name} ${method}`) ? onCpu : {}),
        },
      );
      expect(ranks).toHaveLength(RANKS);
      for (const found of ranks) expectSame(found, packed);
    },
  );
});
