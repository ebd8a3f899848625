import { createMesh } from '@shardwise/collectives';
import {
  fromData,
  nn,
  noGrad,
  optim,
  setRank,
  type Strategy,
  subscribe,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  compose,
  colwiseParallel,
  ddp,
  fsdp,
  parallelize,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { failure, failureOf } from './failure.ts';

const findUnusedParameters = true;
const bf16 = { parameterDtype: 'bf16', reduceDtype: 'f32' } as const;

export interface Variant {
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

export const variants: Readonly<Record<string, Variant>> = {
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
export interface Use {
  readonly layers: readonly number[];
  readonly head: boolean;
}

export class Parts extends nn.Module {
  readonly layers = new nn.ModuleList(
    Array.from({ length: count }, (_, index) => new nn.Linear(width, width, { bias: index !== 1 })),
  );
  readonly head = new nn.Linear(width, 2);

  constructor() {
    super();
    let index = 0;
    noGrad(() => {
      for (const parameter of this.parameters()) {
        const values = Float32Array.from({ length: parameter.numel }, () => Math.sin(++index) / 2);
        parameter.assign(fromData(values, parameter.shape, 'f32'));
      }
    });
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

export const programs = {
  'one pass a step': { steps: 20, passes: [{}] },
  'two passes a step': { steps: 4, passes: [{}, {}] },
  'a pass inside noSync': { steps: 4, passes: [{ inNoSync: true }, {}] },
  'evaluations between': { steps: 4, passes: [{ evaluates: true }, {}, { evaluates: true }] },
} as const satisfies Record<string, { readonly steps: number; readonly passes: readonly Pass[] }>;

/** What rank `rank` runs in a pass. Chosen at random, other parts on each rank. */
export function useOf(step: number, pass: number, rank: number): Use {
  let state = (step * 31 + pass * 7 + rank + 1) * 7919;
  const draw = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  draw(2);
  const layers = Array.from({ length: count }, () => (draw(5) === 0 ? 2 : draw(2)));
  return { layers, head: layers.every((times) => times === 0) || draw(3) > 0 };
}

export function inputOf(step: number, pass: number, rank: number): Tensor {
  const values = Float32Array.from({ length: 2 * width }, (_, index) =>
    Math.sin((step * 5 + pass * 3 + rank) * 8 + index),
  );
  return fromData(values, [2, width], 'f32');
}

export function optimizerOf(model: nn.Module): optim.AdamW {
  return new optim.AdamW(model.parameters(), settings);
}

export async function read(model: nn.Module): Promise<Record<string, number[]>> {
  const found: Record<string, number[]> = {};
  for (const [name, { bytes }] of Object.entries(await model.stateDict())) {
    found[name] = Array.from(new Float32Array(bytes.slice().buffer));
  }
  return found;
}

export const trained = z.object({
  losses: z.array(z.number()),
  parameters: z.record(z.string(), z.array(z.number())),
  /** The collectives of each step, sorted, because they are listed as they end. */
  messages: z.array(z.array(z.string())),
});
export const observations = z.object({
  trained: z.record(z.string(), trained),
  /** The errors of a step in which layers run in another order than that of their declaration. */
  reversed: z.record(z.string(), failure),
});

export async function main(context: RankContext): Promise<z.infer<typeof observations>> {
  const { group, mesh: line } = await join(context, 'interpreter');
  const { backend: device } = currentSession();
  const { size, rank } = context;
  const found: z.infer<typeof observations> = { trained: {}, reversed: {} };
  for (const [name, variant] of Object.entries(variants)) {
    const { ranks = size, second, strategy } = variant;
    if (ranks !== size) continue;
    const names = second === 'tp' ? ['dp', 'tp'] : ['replicas', 'dp'];
    const axes = names.map((axis) => ({ name: axis, size: size / 2 }));
    const mesh = second === undefined ? line : await createMesh(group, axes);
    setRank({ device, mesh });
    const place = second === 'tp' ? mesh.coordinate('dp') : rank;
    for (const program of Object.keys(programs)) {
      if (!isProgram(program)) continue;
      found.trained[`${name}: ${program}`] = await train(strategy(), program, place);
    }
    if (second !== undefined) continue;
    found.reversed[name] = await failureOf(reversed(strategy()));
  }
  return found;
}

function isProgram(name: string): name is keyof typeof programs {
  return name in programs;
}

async function train(
  strategy: Strategy,
  program: keyof typeof programs,
  rank: number,
): Promise<z.infer<typeof trained>> {
  const { steps } = programs[program];
  const passes: readonly Pass[] = programs[program].passes;
  const model = new Parts();
  const parallel = await parallelize(model, strategy);
  const optimizer = optimizerOf(model);
  const losses: number[] = [];
  const messages: string[][] = [];
  for (let step = 0; step < steps; step++) {
    const sent: string[] = [];
    const unsubscribe = subscribe(({ category, name, detail = '' }) => {
      if (category === 'collective') sent.push(`${name} ${detail}`);
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
  return { losses, parameters: await read(model), messages };
}

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
