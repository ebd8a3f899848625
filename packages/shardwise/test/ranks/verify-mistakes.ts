import { fromData, nn, type Strategy, Tensor } from '@shardwise/core';
import {
  allReduce,
  currentSession,
  type Model,
  noGrad,
  ownPlace,
  sendRecv,
} from '@shardwise/core/extend';
import { ddp, fsdp, type ModelPlan, Step, type StepKind } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import type { Verification } from '../../src/verify/finding.ts';
import { verify, type VerifiedRun } from '../../src/verify/verify.ts';

/** Three layers, with a dropout and a buffer that the first one keeps. */
class Net extends nn.Module {
  readonly up = new nn.Linear(6, 8);
  readonly drop: nn.Dropout;
  readonly middle = new nn.Linear(8, 8);
  readonly mean: nn.BufferTensor | null;
  readonly down = new nn.Linear(8, 5);

  constructor({ dropout = 0, keepsMean = false }: { dropout?: number; keepsMean?: boolean } = {}) {
    super();
    this.drop = new nn.Dropout(dropout);
    this.mean = keepsMean ? new nn.BufferTensor(new Float32Array(6), [6]) : null;
  }

  /** Shape: x [B, 6] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    const { mean } = this;
    if (mean !== null) noGrad(() => mean.assign(mean.mul(0.5).add(x.mean(0).mul(0.5))));
    return this.down.forward(
      this.middle.forward(this.drop.forward(this.up.forward(x)).tanh()).tanh(),
    );
  }
}

type Run = VerifiedRun<Net, [Tensor], Tensor>;

const ROWS = 4;

interface Batch {
  readonly x: Tensor;
  readonly y: Tensor;
}

/** This rank's rows of the batch of a step. `place` says which rows these are. */
function batchOf(step: number, place: number, ignored = 0): Batch {
  const rows = Array.from({ length: ROWS }, (_, row) => place * ROWS + row);
  const x = rows.flatMap((row) =>
    Array.from({ length: 6 }, (_, at) => Math.sin(row * 7 + at * 3 + step)),
  );
  const y = rows.map((row, at) => (at < ignored ? -100 : (row * 3 + step) % 5));
  return {
    x: fromData(Float32Array.from(x), [ROWS, 6], 'f32'),
    y: fromData(Int32Array.from(y), [ROWS], 'i32'),
  };
}

function lossOf(run: Run, { x, y }: Batch): Tensor {
  return nn.functional.crossEntropy(run.model.forward(x), y, { ignoreIndex: -100 });
}

/** A right step. */
async function rightStep(run: Run): Promise<void> {
  const loss = lossOf(run, batchOf(run.step, run.rank));
  run.optimizer.zeroGrad();
  loss.backward();
  await run.optimizer.step();
}

/** A strategy whose plan is changed. */
function changed(strategy: Strategy, change: (plan: ModelPlan) => ModelPlan): Strategy {
  return { ...strategy, plan: (model, axes) => change(strategy.plan(model, axes)) };
}

/** A strategy with one more step. */
function withStep(strategy: Strategy, apply: StepKind<object>['apply']): Strategy {
  const kind: StepKind<object> = { name: 'a mistake', collectives: () => [], apply };
  return changed(strategy, (plan) => ({ ...plan, steps: [...plan.steps, new Step(kind, {})] }));
}

interface Mistake {
  readonly build?: () => Net & Model<[Tensor], Tensor>;
  readonly step?: (run: Run) => Promise<void>;
  readonly strategy?: () => Strategy;
}

/** No communication: each rank trains by itself. */
const unreduced: Strategy = {
  specificationVersion: 1,
  name: 'unreduced',
  plan: ({ parameters }, axes) => {
    const varying = axes.map(({ name }) => name);
    return {
      strategy: 'unreduced',
      axes,
      batch: { dims: [varying], partial: [] },
      parameters: parameters.map((parameter) => {
        const layout = { dims: parameter.shape.map(() => []), partial: [], varying };
        return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
      }),
      steps: [],
    };
  },
};

/** The programs, each with one mistake. */
export const mistakes: Readonly<Record<string, Mistake>> = {
  'a missing all-reduce': {
    strategy: () => unreduced,
  },
  'gradients averaged twice': {
    strategy: () =>
      ddp({
        commHook: ({ gradients, axis, ranks }) =>
          gradients.map((each) => allReduce(each, axis, { reduce: 'avg' }).div(ranks)),
      }),
  },
  'gradients summed instead of averaged': {
    strategy: () =>
      ddp({
        commHook: ({ gradients, axis }) => gradients.map((each) => allReduce(each, axis)),
      }),
  },
  'wrong token counts in the mean of a loss': {
    step: async (run) => {
      const loss = lossOf(
        run,
        batchOf(run.step, run.rank, run.rank === 1 || run.worldSize === 1 ? 3 : 0),
      );
      run.optimizer.zeroGrad();
      loss.backward();
      await run.optimizer.step();
    },
  },
  'parts that are swapped': {
    strategy: () =>
      withStep(fsdp(), async (_, { model }) => {
        const { part } = model.getSubmodule('middle').ownParameters()[0]?.[1] ?? {};
        if (part === undefined) throw new RangeError();
        noGrad(() => part.assign(sendRecv(part, 'dp', [1, 0])));
        await currentSession().realize([]);
      }),
  },
  'a buffer that is not synchronised': {
    build: () => new Net({ keepsMean: true }),
    strategy: () => ddp({ broadcastBuffers: false }),
  },
  'a loss that is divided by the number of ranks': {
    step: async (run) => {
      const loss = lossOf(run, batchOf(run.step, run.rank)).div(run.worldSize);
      run.optimizer.zeroGrad();
      loss.backward();
      await run.optimizer.step();
    },
  },
  'data that all ranks share': {
    step: async (run) => {
      const loss = lossOf(run, batchOf(run.step, 0));
      run.optimizer.zeroGrad();
      loss.backward();
      await run.optimizer.step();
    },
  },
  'a forgotten zeroGrad': {
    step: async (run) => {
      lossOf(run, batchOf(run.step, run.rank)).backward();
      await run.optimizer.step();
    },
  },
  'dropout with the same draws on all ranks': {
    build: () => new Net({ dropout: 0.5 }),
    strategy: () => changed(ddp(), (plan) => ({ ...plan, sharesDraws: true })),
  },
  'a parameter that is initialised by the rank': {
    strategy: () =>
      withStep(ddp(), async (_, { model }) => {
        const [, bias] = model.getSubmodule('down').ownParameters();
        noGrad(() => bias?.[1].assign(bias[1].add(ownPlace('dp').rank)));
        await currentSession().realize([]);
      }),
  },
  'a stale gather': {
    strategy: () =>
      withStep(fsdp(), (_, { model }) => {
        const middle = model.getSubmodule('middle');
        if (!(middle instanceof nn.Linear)) throw new RangeError();
        const bias = middle.ownParameters()[1]?.[1];
        let first: Tensor | null = null;
        middle.registerForwardHook((_module, _inputs, output) => {
          if (!(output instanceof Tensor) || bias === undefined) return undefined;
          // The bias of the first step is added for that of this one.
          first ??= bias.detach().add(0).retain();
          return output.sub(bias.detach()).add(first);
        });
      }),
  },
  'a rank that skips a step': {
    step: async (run) => {
      const loss = lossOf(run, batchOf(run.step, run.rank));
      run.optimizer.zeroGrad();
      loss.backward();
      const skips = run.step === 2 && run.rank === 1;
      await run.optimizer.step(skips ? { skipIf: fromData(Uint8Array.of(1), [], 'bool') } : {});
    },
  },
};

/** What a test reads of what was found, by the name of the program. */
export const verifications = z.record(
  z.string(),
  z.object({
    finding: z.looseObject({
      found: z.number().or(z.nan()),
      expected: z.number().or(z.nan()),
      tolerance: z.number(),
      hint: z.string(),
      actions: z.array(z.string()),
    }),
  }),
);

/** Verifies each program, and returns what is found. */
export async function main(context: RankContext): Promise<Record<string, Verification>> {
  await join(context);
  const found: Record<string, Verification> = {};
  for (const [name, mistake] of Object.entries(mistakes)) {
    const { build = () => new Net(), step = rightStep, strategy = () => ddp() } = mistake;
    found[name] = await verify<Net, [Tensor], Tensor>(build, step, strategy());
  }
  return found;
}
