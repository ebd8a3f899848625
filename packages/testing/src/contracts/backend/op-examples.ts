import type { ComputeOp } from '@shardwise/core/spec';
import { composites } from './cases/composite.ts';
import type { OpExample } from './op-example.ts';
import { primitiveExamples } from './primitive-examples.ts';

/** An example of an op, with the name of the op. */
export type NamedExample = readonly [op: ComputeOp, example: OpExample<ComputeOp>];

/** Examples of every op that a program may contain. */
export function opExamples(): readonly NamedExample[] {
  const all: Readonly<Record<string, readonly OpExample<ComputeOp>[]>> = primitiveExamples;
  const ofComposites = Object.entries(composites).map(
    ([op, { examples }]) => [op, examples] as const,
  );
  return [...Object.entries(all), ...ofComposites].flatMap(([op, examples]) =>
    isCompute(op) ? examples.map((example): NamedExample => [op, example]) : [],
  );
}

function isCompute(op: string): op is ComputeOp {
  return op in primitiveExamples || op in composites;
}
