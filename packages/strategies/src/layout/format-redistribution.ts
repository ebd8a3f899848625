import { formatLayout, formatShape } from '@shardwise/core/extend';
import type { RedistributionMove, RedistributionPlan } from './redistribution.ts';

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
