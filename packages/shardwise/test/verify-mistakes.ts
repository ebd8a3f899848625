import { createMesh } from '@shardwise/collectives';
import { fromData, full, nn, setRank, type Strategy, Tensor } from '@shardwise/core';
import {
  allReduce,
  type Backend,
  currentSession,
  type Gate,
  type Model,
  noGrad,
  ownPlace,
  type ProcessGroup,
  scaleGradients,
  sendRecv,
} from '@shardwise/core/extend';
import {
  ddp,
  expertParallel,
  fsdp,
  type ModelPlan,
  pipeline,
  Step,
  type StepKind,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { onCpu } from '../../../test/support/on-cpu.ts';
import type { Verification } from '../src/verify/finding.ts';
import { verify, type VerifiedRun } from '../src/verify/verify.ts';

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
  /** The axis of the mesh. Default: dp. */
  readonly axis?: string;
  readonly steps?: number;
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
const mistakes: Readonly<Record<string, Mistake>> = {
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

/** Two stages, of which the second begins with the layer in the middle. */
const staged = pipeline({
  schedule: '1f1b',
  microbatches: 2,
  cut: ['middle'],
  loss: (output: Tensor, y: Tensor) => nn.functional.crossEntropy(output, y),
});

/** A step of a pipeline, whose ranks have the same rows. */
async function stagedStep(run: Run): Promise<void> {
  const { x, y } = batchOf(run.step, 0);
  run.optimizer.zeroGrad();
  const { model }: { model: Model<readonly unknown[], unknown> } = run;
  const loss = model.forward(x, y);
  if (!(loss instanceof Tensor)) throw new TypeError();
  loss.backward();
  await run.optimizer.step();
}

/** A layer of experts between two layers. */
class ExpertNet extends Net {
  readonly experts: nn.MixtureOfExperts;

  constructor(gate: Gate) {
    super();
    this.experts = new nn.MixtureOfExperts(8, 6, 4, { gate });
  }

  /** Shape: x [B, 6] -> [B, 5]. */
  override forward(x: Tensor): Tensor {
    const h = this.up.forward(x).tanh();
    return this.down.forward(this.middle.forward(h.add(this.experts.forward(h))).tanh());
  }
}

/** Mistakes in pipelines, in layers of experts, and small ones in a late step. */
const otherMistakes: Readonly<Record<string, Mistake>> = {
  'a stage that computes a microbatch with another activation': {
    axis: 'pp',
    step: stagedStep,
    strategy: () =>
      withStep(staged, (_, { model }) => {
        let calls = 0;
        model.getSubmodule('middle').registerForwardHook((_module, _inputs, output) => {
          const isSecond = calls++ % 2 === 1;
          return isSecond && output instanceof Tensor ? output.mul(1.01) : undefined;
        });
      }),
  },
  'experts that answer to the tokens of other ranks': {
    axis: 'ep',
    build: () => new ExpertNet(nn.topKGate({ k: 2 })),
    strategy: () =>
      withStep(expertParallel({ k: 2 }), (_, { model }) => {
        model
          .getSubmodule('experts')
          .registerForwardHook((_module, _inputs, output) =>
            output instanceof Tensor ? sendRecv(output, 'ep', [1, 0]) : undefined,
          );
      }),
  },
  'experts that drop fewer tokens on several ranks': {
    axis: 'ep',
    build: () => new ExpertNet(nn.topKGate({ k: 2, capacity: { factor: 0.5 } })),
    strategy: () =>
      withStep(expertParallel({ k: 2 }), (_, { model }) => {
        const gate = nn.topKGate({ k: 2, capacity: { factor: 1.5 } });
        Object.assign(model.getSubmodule('experts'), { gate });
      }),
  },
  'gradients of experts that are not divided by the ranks': {
    axis: 'ep',
    strategy: () => expertParallel({ k: 2 }),
    build: () => new ExpertNet(nn.topKGate({ k: 2 })),
    step: async (run) => {
      const loss = lossOf(run, batchOf(run.step, run.rank));
      run.optimizer.zeroGrad();
      loss.backward();
      if (run.worldSize > 1) {
        const { up } =
          run.model.module instanceof ExpertNet ? run.model.module.experts.experts : {};
        if (up !== undefined) scaleGradients([up.part], full([], 2));
      }
      await run.optimizer.step();
    },
  },
  'a learning rate that is a thousandth larger on one rank in step 12': {
    steps: 12,
    step: async (run) => {
      const loss = lossOf(run, batchOf(run.step, run.rank));
      run.optimizer.zeroGrad();
      loss.backward();
      const isWrong = run.step === 12 && run.worldSize > 1 && run.rank === 1;
      for (const group of run.optimizer.paramGroups)
        Object.assign(group, { lr: isWrong ? 1.001e-3 : 1e-3 });
      await run.optimizer.step();
    },
  },
  'a weight that a rank moves by a millionth in step 12': {
    steps: 12,
    step: async (run) => {
      const loss = lossOf(run, batchOf(run.step, run.rank));
      run.optimizer.zeroGrad();
      loss.backward();
      if (run.step === 12 && run.worldSize > 1 && run.rank === 1) {
        const { weight } = run.model.module.down;
        noGrad(() => weight.assign(weight.add(1e-6)));
      }
      await run.optimizer.step();
    },
  },
};

/** Verifies each program on two ranks. Returns what each rank finds, by the name of the program. */
export function findMistakes(): Promise<readonly ReadonlyMap<string, Verification>[]> {
  const verifyAll = async (group: ProcessGroup, device: Backend) => {
    const found = new Map<string, Verification>();
    for (const [name, mistake] of Object.entries({ ...mistakes, ...otherMistakes })) {
      const { build = () => new Net(), step = rightStep, strategy = () => ddp() } = mistake;
      const { axis = 'dp', steps = 3 } = mistake;
      setRank({ device, mesh: await createMesh(group, [{ name: axis, size: group.size }]) });
      found.set(name, await verify<Net, [Tensor], Tensor>(build, step, strategy(), { steps }));
    }
    return found;
  };
  return onRanks(2, ({ group, device }) => verifyAll(group, device), onCpu);
}
