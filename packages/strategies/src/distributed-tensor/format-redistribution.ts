import { formatShape } from '@shardwise/core/extend';
import { formatLayout } from '../explain.ts';
import type { RedistributionMove, RedistributionPlan } from './redistribution.ts';

/** A plan as lines: each move, the layout after it, and the bytes that a rank receives. */
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

function formatMove(move: RedistributionMove): string {
  switch (move.operation) {
    case 'allReduce':
    case 'keepOnFirst':
      return `${move.operation} ${move.axis}`;
    case 'allToAll':
      return `${move.operation} ${move.axis}, dim ${move.dim} to dim ${move.toDim}`;
    case 'allGather':
    case 'reduceScatter':
    case 'slice':
      return `${move.operation} ${move.axis}, dim ${move.dim}`;
    default:
      return move satisfies never;
  }
}
