import {
  constantLike,
  dropWork,
  dtypes,
  elementCount,
  type Model,
  type Module,
  type Node,
  noGrad,
  randomState,
  setRandomState,
  Tensor,
} from '@shardwise/core/extend';
import type { ComputeAction } from '../../pipeline-schedule/actions/action.ts';
import { range, type Schedule } from '../../pipeline-schedule/actions/schedule.ts';
import { callOrder } from './call-order.ts';
import { buildMicrobatches } from '../microbatches/build-microbatches.ts';
import type { LossOfPass } from '../microbatches/loss-of-pass.ts';
import type { Microbatch } from '../microbatches/microbatch.ts';
import { rowsOf } from '../microbatches/split-microbatches.ts';
import { StageMarks } from '../stages/stage-marks.ts';
import { modulesInRow } from '../stages/stages-of-parameters.ts';
import type { WorkDraft } from '../work/rank-work.ts';
import { trainingWork } from '../work/training-work.ts';
import { modelSpec } from '../../plan/model-spec.ts';

export type AnyModel = Module & Model<readonly unknown[], unknown>;

/**
 * A model in which each module of its chain is a stage of its own, to count and measure what each module costs.
 * Building a pass leaves no gradients and no updates of buffers, and restores the state of random numbers.
 */
export class TracedModel {
  readonly rows: number;
  /** The paths of the modules at which stages begin. */
  readonly paths: readonly string[];
  readonly #model: AnyModel;
  readonly #inputs: readonly unknown[];
  readonly #loss: LossOfPass | null;

  constructor(model: AnyModel, inputs: readonly unknown[], loss: LossOfPass | null) {
    this.#model = model;
    this.#inputs = inputs;
    this.#loss = loss;
    this.rows = rowsOf(inputs);
    const chain = modulesInRow(modelSpec(model));
    this.paths = callOrder(model, chain, () => this.#build([]));
  }

  /**
   * Returns the forward, input gradients and weight gradients of each module, as if each module were on a rank of its
   * own.
   */
  stages(): {
    readonly microbatch: Microbatch;
    readonly drafts: readonly (readonly WorkDraft[])[];
  } {
    const microbatch = this.#build(this.paths.slice(1));
    const stages = this.paths.map((_, stage) => stage);
    return { microbatch, drafts: stages.map((rank) => this.#work(microbatch, rank, stages)) };
  }

  /** The bytes of the tensors among the inputs and the targets. */
  get inputBytes(): number {
    return this.#inputs
      .filter((input) => input instanceof Tensor)
      .reduce((sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes, 0);
  }

  /** Returns the work of all modules, as if one rank had all of them. */
  inOneRank(): readonly WorkDraft[] {
    const microbatch = this.#build(this.paths.slice(1));
    return this.#work(
      microbatch,
      0,
      this.paths.map(() => 0),
    );
  }

  #work(
    microbatch: Microbatch,
    rank: number,
    rankOfStage: readonly number[],
  ): readonly WorkDraft[] {
    const { loss } = microbatch;
    if (loss === null) throw new RangeError('a training pass has a loss');
    const lossGradient = noGrad(() => constantLike(loss, 1));
    const schedule = oneMicrobatch(rankOfStage);
    return trainingWork([microbatch], lossGradient, schedule, { rank, rankOfStage }, null).drafts;
  }

  #build(cuts: readonly string[]): Microbatch {
    const random = randomState();
    const marks = new StageMarks(this.#model, cuts);
    const rankOfStage = range(cuts.length + 1).map(() => 0);
    const run = (...inputs: readonly unknown[]): unknown => this.#model.forward(...inputs);
    try {
      const settings = {
        schedule: oneMicrobatch(rankOfStage),
        loss: this.#loss,
        weight: 'rows',
        defersBatchNorm: false,
        marks,
        place: { rank: 0, rankOfStage },
        model: this.#model,
      } as const;
      const [built] = buildMicrobatches(run, this.#inputs, settings, true).microbatches;
      if (built === undefined) throw new RangeError('a batch has a microbatch');
      dropWork(built.updates);
      return { ...built, updates: new Map() };
    } finally {
      marks.detach();
      setRandomState(random);
    }
  }
}

function oneMicrobatch(rankOfStage: readonly number[]): Schedule {
  const ranks = Math.max(...rankOfStage) + 1;
  const forwards = rankOfStage.map(
    (_, stage) => ({ kind: 'forward', stage, microbatch: 0 }) as const,
  );
  const backwards = forwards.toReversed().flatMap(({ stage, microbatch }): ComputeAction[] => [
    { kind: 'inputGradient', stage, microbatch },
    { kind: 'weightGradient', stage, microbatch },
  ]);
  return {
    name: 'one microbatch',
    ranks,
    stages: rankOfStage.length,
    microbatches: 1,
    forwardOnly: false,
    rankOfStage,
    actions: range(ranks).map((rank) =>
      [...forwards, ...backwards].filter(({ stage }) => rankOfStage[stage] === rank),
    ),
  };
}

/** The bytes that would be sent between ranks for one microbatch if there were a cut after `stage`. */
export function bytesAcross({ graph }: Microbatch, stage: number): number {
  const nodes = new Set<Node>();
  for (const { node, from, to } of graph.crossings)
    if (from <= stage && to > stage) nodes.add(node);
  return [...nodes].reduce(
    (sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes,
    0,
  );
}
