import {
  CallSite,
  Generator,
  inputNode,
  type ModelSpec,
  type Module,
  noGrad,
  currentSession,
  type Plan,
  type Node,
  rankState,
  type Strategy,
  Tensor,
} from '@shardwise/core/extend';
import { type ModelPlan, Step, type StepKind } from '@shardwise/strategies';
import { describePlan } from './describe-plan.ts';
import { byMicrobatches, byParts, type PartsOptions } from './by-parts.ts';
import {
  averageAuxiliaryLosses,
  decidesByPart,
  mixesRows,
  workByParts,
} from './modules-by-parts.ts';
import { lossOf, oneRankPlan, targetCount } from './one-rank-plan.ts';
import { followProgram } from './follow-program.ts';
import { Recorder } from './recorder.ts';
import type { RankRecord, RecordedLeaf, RecordedPass, RecordedPlan } from './records.ts';
import type { WholeBatch } from './whole-batch.ts';

/** What one rank is to do in the place of the ranks that were recorded before. */
export interface OneRank {
  /** The number of ranks that were recorded. */
  readonly ranks: number;
  readonly batch: WholeBatch;
  /** The passes of the parts of the batch: of each pass those of all parts. */
  readonly passes: readonly (readonly RecordedPass[])[];
  readonly plan: RecordedPlan;
  /** By how much each parameter and datum of f32 is moved, to see what rounding can do. 0: by nothing. */
  readonly perturbation: number;
  /** The seed of the moves. */
  readonly seed: number;
}

/** Observes the program of this rank, until `end`. `one` makes it the run of one rank. */
export class Observation {
  readonly recorder: Recorder = new Recorder();
  readonly #one: OneRank | null;
  readonly #occurrences = new Map<string, number>();
  readonly #leaves: Record<string, RecordedLeaf> = {};
  readonly #random: Generator;
  readonly #unfollow: () => void;
  #plan: RecordedPlan | null = null;
  #places: RankRecord['places'] = {};
  #isInPass = false;
  #passes = 0;
  /** The number of parts that the latest pass of one rank passed one after the other. */
  #parts = 1;

  /** `afterStep` is called after each update that was recorded. */
  constructor(one: OneRank | null, afterStep: (updates: number) => Promise<void> | void) {
    this.#one = one;
    this.#random = new Generator(one?.seed ?? 0);
    const { recorder } = this;
    this.#unfollow = followProgram({
      beforeBackward: (loss) => recorder.beforeBackward(loss),
      step: async (optimizer, update) => {
        const before = recorder.updates;
        const updated = await recorder.step(optimizer, update);
        if (recorder.updates > before) await afterStep(recorder.updates);
        return updated;
      },
    });
    rankState.makeLeaf = (shape, dtype, value) => this.#leaf(shape, dtype, value);
    rankState.makePlan = (spec, strategy) => this.#planned(spec, strategy);
    if (one !== null) rankState.standsFor = one.ranks;
  }

  end(): void {
    delete rankState.makeLeaf;
    delete rankState.makePlan;
    delete rankState.standsFor;
    this.#unfollow();
  }

  /** What was recorded. Null if the program has given no model to a strategy. */
  record(): RankRecord | null {
    if (this.#plan === null) return null;
    return this.recorder.finish({ plan: this.#plan, leaves: this.#leaves, places: this.#places });
  }

  #leaf(...[shape, dtype, value]: Parameters<LeafMaker>): Node {
    // Numbers of the model and of the optimizer, such as a learning rate, are no rows of the batch.
    if (this.#isInPass || this.recorder.isInStep) return inputNode(shape, dtype, value);
    const line = new CallSite('data').line ?? 'the library';
    const count = (this.#occurrences.get(line) ?? 0) + 1;
    this.#occurrences.set(line, count);
    const key = `${line}, tensor ${count}`;
    if (this.#one === null) {
      this.#leaves[key] = { shape: [...shape], dtype, bytes: value.bytes.slice() };
      return inputNode(shape, dtype, value);
    }
    const whole = this.#one.batch.get(key);
    if (whole === undefined) return inputNode(shape, dtype, value);
    const bytes = whole.bytes.slice();
    const { perturbation } = this.#one;
    if (perturbation > 0 && dtype === 'f32' && whole.shape.length > 0) {
      const numbers = new Float32Array(bytes.buffer);
      const moves = this.#random.uniform(numbers.length, -perturbation, perturbation);
      for (const [index, move] of moves.entries())
        numbers[index] = (numbers[index] ?? 0) * (1 + move);
    }
    return inputNode(whole.shape, whole.dtype, { kind: 'host', bytes });
  }

  #planned(spec: ModelSpec, strategy: Strategy): Plan {
    const { recorder } = this;
    const one = this.#one;
    if (one === null) {
      const { mesh } = currentSession();
      const plan: ModelPlan = { ...strategy.plan(spec, mesh.axes), buffers: spec.buffers ?? [] };
      const described = describePlan(plan);
      this.#plan ??= described;
      this.#places = Object.fromEntries(
        mesh.axes.map(({ name, size }) => [name, { size, rank: mesh.coordinate(name) }]),
      );
      const inMicrobatches = described.microbatches > 0;
      return {
        ...plan,
        steps: [...plan.steps, new Step(recording, { recorder, inMicrobatches, own: this })],
      };
    }
    this.#plan ??= one.plan;
    const loss = lossOf(strategy);
    const targets = targetCount(strategy);
    let needsAllRows = false;
    let isByPart = false;
    let working: readonly RecordedPass[] | null = null;
    const allRows = (run: () => unknown, passes: readonly RecordedPass[]): unknown => {
      working = passes;
      try {
        return run();
      } finally {
        working = null;
      }
    };
    const { microbatches } = one.plan;
    const options: PartsOptions = {
      microbatches,
      onPart: (part, microbatch) => {
        Object.assign(recorder, { part, microbatch });
      },
    };
    return oneRankPlan(spec, {
      ready: async ({ model }) => {
        if (one.perturbation > 0) await this.#perturb(model, one.perturbation);
        needsAllRows = mixesRows(model);
        isByPart = decidesByPart(model);
        if (needsAllRows) workByParts(model, () => working);
        averageAuxiliaryLosses(model, () => (this.#isInPass ? 1 : this.#parts));
        await recorder.addModel(model, { inMicrobatches: false });
      },
      around: (run, inputs) => {
        const pass = (own: readonly unknown[]): unknown => {
          const passes = one.passes[this.#passes++] ?? [];
          this.#parts = 1;
          if (needsAllRows) {
            return microbatches < 2
              ? allRows(() => run(own), passes)
              : byMicrobatches(
                  (each, ofRanks) => allRows(() => run(each), ofRanks),
                  own,
                  passes,
                  options,
                );
          }
          if (!isByPart && !passes.some(({ draws }) => draws)) return run(own);
          this.#parts = Math.max(1, passes.length);
          return byParts(run, own, passes, options);
        };
        return this.inPass(inputs, () => {
          if (loss === null || inputs.length <= targets) return pass(inputs);
          const end = inputs.length - targets;
          return loss(pass(inputs.slice(0, end)), inputs.slice(end));
        });
      },
    });
  }

  /** Runs a forward pass of the model. Tensors of data that are made in it are those of the model. */
  inPass<T>(inputs: readonly unknown[], run: () => T): T {
    this.#isInPass = true;
    try {
      return this.recorder.pass(inputs, run);
    } finally {
      this.#isInPass = false;
    }
  }

  async #perturb(model: Module, size: number): Promise<void> {
    noGrad(() => {
      for (const parameter of model.parameters()) {
        if (parameter.dtype !== 'f32') continue;
        const factors = this.#random.uniform(parameter.numel, 1 - size, 1 + size);
        const bytes = new Uint8Array(factors.buffer, factors.byteOffset, factors.byteLength);
        // Not a tensor of data, which would be looked up in the batch.
        const node = inputNode(parameter.shape, 'f32', { kind: 'host', bytes });
        parameter.assign(parameter.mul(new Tensor(node)));
      }
    });
    await currentSession().realize([]);
  }
}

type LeafMaker = NonNullable<typeof rankState.makeLeaf>;

interface Recording {
  readonly recorder: Recorder;
  readonly inMicrobatches: boolean;
  readonly own: Observation;
}

/** The last step of an observed plan. It communicates nothing and changes nothing. */
const recording: StepKind<Recording> = {
  name: 'recording',
  collectives: () => [],
  async apply({ recorder, inMicrobatches, own }, context) {
    await recorder.addModel(context.model, { inMicrobatches });
    context.hooks.unshift({
      forward: (run, inputs) => own.inPass(inputs, () => run(...inputs)),
    });
  },
};
