import { type ModelSpec, replicated, type Strategy } from '@shardwise/core/extend';
import {
  type ModelPlan,
  type PassHooks,
  type PlanContext,
  Step,
  type StepKind,
} from '@shardwise/strategies';

/** How one rank passes its batches. */
export interface OnePass {
  /** What one rank does in the place of the strategy's pass. */
  around(run: (inputs: readonly unknown[]) => unknown, inputs: readonly unknown[]): unknown;
  /** Called when the plan has been applied. */
  ready(context: PlanContext): Promise<void>;
}

const onOneRank: StepKind<OnePass> = {
  name: 'one rank',
  collectives: () => [],
  async apply(pass, context) {
    await pass.ready(context);
    context.hooks.push({ forward: passHook(pass) });
  },
};

function passHook(pass: OnePass): NonNullable<PassHooks['forward']> {
  return forward;

  function forward<Inputs extends readonly unknown[], Output>(
    run: (...inputs: Inputs) => Output,
    inputs: Inputs,
  ): Output;
  function forward(
    run: (...inputs: readonly unknown[]) => unknown,
    inputs: readonly unknown[],
  ): unknown {
    return pass.around((own) => run(...own), inputs);
  }
}

/** A plan of nothing: the model as it is, on one rank. No code of the strategy takes part. */
export function oneRankPlan(spec: ModelSpec, pass: OnePass): ModelPlan {
  return {
    strategy: 'one rank',
    axes: [],
    batch: { dims: [[]], partial: [] },
    parameters: spec.parameters.map((parameter) => {
      const layout = replicated(parameter.shape);
      return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
    }),
    buffers: spec.buffers ?? [],
    steps: [new Step(onOneRank, pass)],
  };
}

/** The loss that a strategy computes in its passes, of the model's output and the targets. Null: it computes none. */
export function lossOf(
  strategy: Strategy,
): ((output: unknown, targets: readonly unknown[]) => unknown) | null {
  if (!('loss' in strategy) || typeof strategy.loss !== 'function') return null;
  const { loss } = strategy;
  return (output, targets) => Reflect.apply(loss, undefined, [output, ...targets]);
}

/** The number of targets that a strategy's passes take after the inputs of the model. */
export function targetCount(strategy: Strategy): number {
  if (!('loss' in strategy) || typeof strategy.loss !== 'function') return 0;
  return Math.max(0, strategy.loss.length - 1);
}
