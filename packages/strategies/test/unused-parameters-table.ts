import {
  fromData,
  nn,
  noGrad,
  optim,
  type Strategy,
  subscribe,
  type Tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  parallelize,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { expectAsOneRank, type Trained } from './as-one-rank.ts';
import { failureOf } from './failure-of.ts';
import { filled } from './filled.ts';

const findUnusedParameters = true;
const bf16 = { parameterDtype: 'bf16', reduceDtype: 'f32' } as const;

interface Variant {
  readonly strategy: () => Strategy;
  /** The largest difference of losses and parameters to those of one rank. Default: that of sums in another order. */
  readonly tolerance?: number;
  /** The number of ranks that it needs. Default: any. */
  readonly ranks?: number;
  /** A second axis of the mesh, of two ranks. Default: there is none. */
  readonly second?: 'replicas' | 'tp';
  /** Whether units must run in the order in which the model declares them. */
  readonly isOrdered?: boolean;
}

const variants: Readonly<Record<string, Variant>> = {
  DDP: { strategy: () => ddp({ findUnusedParameters }) },
  'ZeRO-1': { strategy: () => zero({ stage: 1, findUnusedParameters }) },
  'ZeRO-1 in buckets of one parameter': {
    strategy: () => zero({ stage: 1, bucketBytes: 1, findUnusedParameters }),
  },
  'ZeRO-2': { strategy: () => zero({ stage: 2, findUnusedParameters }) },
  'ZeRO-2 in bf16': {
    strategy: () => zero({ stage: 2, mixedPrecision: bf16, findUnusedParameters }),
    tolerance: 3e-2,
  },
  'ZeRO-3': { strategy: () => zero({ stage: 3, findUnusedParameters }), isOrdered: true },
  'ZeRO-3 without prefetch': {
    strategy: () => zero({ stage: 3, prefetch: 0, findUnusedParameters }),
    isOrdered: true,
  },
  FSDP: { strategy: () => fsdp({ findUnusedParameters }), isOrdered: true },
  'FSDP that gathers three units ahead': {
    strategy: () => fsdp({ prefetch: 3, findUnusedParameters }),
  },
  'FSDP that keeps parameters until backward': {
    strategy: () => fsdp({ reshardAfterForward: false, findUnusedParameters }),
  },
  'FSDP that reshards everything': {
    strategy: () => fsdp({ reshardAfterForward: true, findUnusedParameters }),
    isOrdered: true,
  },
  'FSDP that keeps half between neighbours': {
    strategy: () => fsdp({ reshardAfterForward: 2, findUnusedParameters }),
    isOrdered: true,
    ranks: 4,
  },
  'FSDP in replicas': {
    strategy: () => fsdp({ replicas: 'replicas', findUnusedParameters }),
    ranks: 4,
    second: 'replicas',
  },
  'FSDP in bf16': {
    strategy: () => fsdp({ mixedPrecision: bf16, findUnusedParameters }),
    isOrdered: true,
    tolerance: 3e-2,
  },
  'tensor parallelism with ZeRO-1': {
    strategy: () =>
      compose(
        tensorParallel({ 'layers.1': colwiseParallel({ output: 'invariant' }) }),
        zero({ stage: 1, findUnusedParameters }),
      ),
    ranks: 4,
    second: 'tp',
  },
};

const width = 4;
const count = 4;
const settings = { lr: 0.05, weightDecay: 0.1 };

/** What a rank runs in a pass: how many times each layer, and whether the head. */
interface Use {
  readonly layers: readonly number[];
  readonly head: boolean;
}

class Parts extends nn.Module {
  readonly layers = new nn.ModuleList(
    Array.from({ length: count }, (_, index) => new nn.Linear(width, width, { bias: index !== 1 })),
  );
  readonly head = new nn.Linear(width, 2);

  constructor() {
    super();
    filled(this);
  }

  /** Shape: x [B, 4] -> []. */
  forward(x: Tensor, { layers, head }: Use): Tensor {
    let hidden = x;
    for (const [index, layer] of [...this.layers].entries()) {
      for (let time = 0; time < (layers[index] ?? 0); time++) {
        hidden = hidden.add(layer.forward(hidden).tanh());
      }
    }
    return (head ? this.head.forward(hidden) : hidden).square().mean();
  }
}

/** A pass of a step. */
interface Pass {
  readonly inNoSync?: boolean;
  readonly evaluates?: boolean;
}

const programs = {
  'one pass a step': { steps: 10, passes: [{}] },
  'two passes a step': { steps: 4, passes: [{}, {}] },
  'a pass inside noSync': { steps: 4, passes: [{ inNoSync: true }, {}] },
  'evaluations between': { steps: 4, passes: [{ evaluates: true }, {}, { evaluates: true }] },
} as const satisfies Record<string, { readonly steps: number; readonly passes: readonly Pass[] }>;

/** What rank `rank` runs in a pass. Chosen at random, other parts on each rank. */
function useOf(step: number, pass: number, rank: number): Use {
  let state = (step * 31 + pass * 7 + rank + 1) * 7919;
  const draw = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  draw(2);
  const layers = Array.from({ length: count }, () => (draw(5) === 0 ? 2 : draw(2)));
  return { layers, head: layers.every((times) => times === 0) || draw(3) > 0 };
}

function inputOf(step: number, pass: number, rank: number): Tensor {
  const values = Float32Array.from({ length: 2 * width }, (_, index) =>
    Math.sin((step * 5 + pass * 3 + rank) * 8 + index),
  );
  return fromData(values, [2, width], 'f32');
}

function optimizerOf(model: nn.Module): optim.AdamW {
  return new optim.AdamW(model.parameters(), settings);
}

async function train(strategy: Strategy, program: keyof typeof programs, rank: number) {
  const { steps } = programs[program];
  const passes: readonly Pass[] = programs[program].passes;
  const model = new Parts();
  const parallel = await parallelize(model, strategy);
  const optimizer = optimizerOf(model);
  const losses: number[] = [];
  /** The collectives of each step, sorted, because they are listed as they end. */
  const messages: string[][] = [];
  for (let step = 0; step < steps; step++) {
    const sent: string[] = [];
    const unsubscribe = subscribe(({ category, name, ...facts }) => {
      if (category === 'collective')
        sent.push([name, facts.bytes, facts.axis, facts.ranks].join(' '));
    });
    optimizer.zeroGrad();
    const made: Tensor[] = [];
    for (const [index, { inNoSync = false, evaluates = false }] of passes.entries()) {
      const forward = (): Tensor =>
        parallel.forward(inputOf(step, index, rank), useOf(step, index, rank));
      if (evaluates) {
        losses.push(await noGrad(forward).item());
        continue;
      }
      const pass = (): void => {
        const loss = forward();
        made.push(loss.retain());
        loss.backward();
      };
      if (inNoSync) parallel.noSync(pass);
      else pass();
    }
    await optimizer.step();
    for (const loss of made) losses.push(await loss.item());
    unsubscribe();
    messages.push(sent.toSorted());
  }
  return { losses, state: await stateOf(model), messages };
}

const programNames = [
  'one pass a step',
  'two passes a step',
  'a pass inside noSync',
  'evaluations between',
] as const satisfies readonly (keyof typeof programs)[];

class Reversed extends nn.Module {
  readonly layers = new nn.ModuleList([
    new nn.Linear(width, width),
    new nn.Linear(width, width),
    new nn.Linear(width, width),
  ]);

  /** Shape: x [B, 4] -> []. */
  forward(x: Tensor): Tensor {
    let hidden = x;
    for (const layer of [...this.layers].toReversed()) hidden = layer.forward(hidden).tanh();
    return hidden.mean();
  }
}

async function reversed(strategy: Strategy): Promise<void> {
  const model = new Reversed();
  const parallel = await parallelize(model, strategy);
  const optimizer = optimizerOf(model);
  parallel.forward(inputOf(0, 0, 0)).backward();
  await optimizer.step();
}

/** Trains on one rank with the batches of all, where each parameter has a gradient, of zeros at least. */
async function trainAlone(name: keyof typeof programs, size: number): Promise<Trained> {
  const { steps, passes } = programs[name];
  const model = new Parts();
  const optimizer = optimizerOf(model);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const made: Tensor[] = [];
    for (const [index, pass] of passes.entries()) {
      const forward = (): Tensor =>
        Array.from({ length: size }, (_, rank) =>
          model.forward(inputOf(step, index, rank), useOf(step, index, rank)),
        )
          .reduce((sum, loss) => sum.add(loss))
          .div(size);
      if ('evaluates' in pass) {
        losses.push(await noGrad(forward).item());
        continue;
      }
      const loss = forward();
      made.push(loss.retain());
      model
        .parameters()
        .reduce((sum, parameter) => sum.add(parameter.sum().mul(0)), loss)
        .backward();
    }
    await optimizer.step();
    for (const loss of made) losses.push(await loss.item());
  }
  return { losses, state: await stateOf(model) };
}

/**
 * Trains with every strategy in a world of this size, where each rank uses other parts of the model. Each strategy runs so
 * many of the programs, and others in a world of another size.
 */
export function unusedParametersTable(
  size: number,
  programsOfVariant: number = programNames.length,
): void {
  const possible = Object.entries(variants).filter(
    ([, { ranks: needed = size }]) => needed === size,
  );

  describe.each(possible.map((each, row) => [...each, row] as const))(
    `%s on ${size} ranks that use other parameters each`,
    (_, { strategy, tolerance = 2e-5, second, isOrdered = false }, row) => {
      const places = second === 'tp' ? size / 2 : size;
      const names = second === 'tp' ? ['dp', 'tp'] : ['replicas', 'dp'];
      const axes =
        second === undefined
          ? [{ name: 'dp', size }]
          : names.map((name) => ({ name, size: size / 2 }));

      it.each(
        someForRow({ row: row + size, rows: possible.length }, programNames, programsOfVariant),
      )('trains as one rank does, with the same messages on all: %s', async (program) => {
        const [alone] = await onRanks(1, () => trainAlone(program, places));
        const each = await onRanks(
          size,
          ({ rank, mesh }) =>
            train(strategy(), program, second === 'tp' ? mesh.coordinate('dp') : rank),
          { axes },
        );
        expectAsOneRank(each, alone, { rtol: 0, atol: tolerance });
        for (const [index, { messages }] of each.entries()) {
          const counts = messages.map((sent) => sent.length);
          expect(Math.min(...counts)).toBeGreaterThan(0);
          // Ranks with other batches run other layers, and so have other messages within layers.
          const first = second === 'tp' ? index - (index % 2) : 0;
          expect(messages).toEqual(each[first]?.messages);
        }
      });

      it.runIf(second === undefined)(
        'can run units in another order, or says that it cannot',
        async () => {
          await onRanks(size, async () => {
            const error = await failureOf(reversed(strategy()));
            expect(error?.code).toBe(isOrdered ? 'TENSOR_STATE' : undefined);
            if (isOrdered)
              expect(error?.message).toMatch(
                /Run units in the order in which the model declares them/,
              );
          });
        },
      );
    },
  );
}
