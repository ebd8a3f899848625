import { formatShape } from '../base/shape.ts';
import { formatLayout } from '../layout/layout.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';
import type { AxisLayout } from './axis-layout.ts';

/**
 * The operation of a redistribution over one axis. `slice`: each rank keeps its part. `keepOnFirst`: the first rank
 * keeps its values, and the others have zeros. `reinterpret`: from now on, each rank may use equal values in its own
 * way.
 */
export type RedistributionOperation =
  | 'allGather'
  | 'allReduce'
  | 'reduceScatter'
  | 'allToAll'
  | 'slice'
  | 'keepOnFirst'
  | 'reinterpret';

/** A redistribution over one axis. */
export interface RedistributionMove {
  readonly operation: RedistributionOperation;
  readonly axis: string;
  readonly from: AxisLayout;
  readonly to: AxisLayout;
}

/** One step of a redistribution. */
export interface RedistributionStep {
  readonly move: RedistributionMove;
  /** The layout of the tensor after this step. */
  readonly layout: Layout;
  /**
   * The bytes that one rank receives, with padding, by algorithms that send each byte once. It is the rank that
   * receives the most.
   */
  readonly bytes: number;
}

/** The steps by which a tensor gets from one layout into another. */
export interface RedistributionPlan {
  readonly from: Layout;
  readonly to: Layout;
  /** The shape of the whole tensor. */
  readonly shape: Shape;
  readonly steps: readonly RedistributionStep[];
  /** The bytes of all steps. */
  readonly bytes: number;
}

/** Writes a plan as lines: each move, the layout after it, and the bytes that a rank receives. */
export function formatRedistribution({
  from,
  to,
  shape,
  steps,
  bytes,
}: RedistributionPlan): string {
  const head = `${formatShape(shape)} ${formatLayout(from)} -> ${formatLayout(to)}: ${bytes} bytes`;
  const lines = steps.map(
    (step) => `  ${formatMove(step.move)} -> ${formatLayout(step.layout)}: ${step.bytes} bytes`,
  );
  return [head, ...lines].join('\n');
}

function formatMove({ operation, axis, from, to }: RedistributionMove): string {
  const dims = [from, to].flatMap((each) => {
    if (each === 'flat') return ['row by row'];
    return typeof each === 'string' ? [] : [`dim ${each.shard}`];
  });
  return dims.length === 0 ? `${operation} ${axis}` : `${operation} ${axis}, ${dims.join(' to ')}`;
}
