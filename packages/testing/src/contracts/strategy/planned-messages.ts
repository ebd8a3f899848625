import {
  type CollectivePlan,
  elementCount,
  localShape,
  type Mesh,
  type Plan,
} from '@shardwise/core/extend';
import { stepKinds } from '@shardwise/strategies';
import type { Message } from './recording-mesh.ts';

export type Phase = Exclude<CollectivePlan['when'], 'start'>;

export interface PhasedMessage extends Message {
  readonly when: Phase;
}

/**
 * Returns the messages of `period` steps that a plan lists for the rank of a mesh. `alignment` is that of the device in
 * bytes, at multiples of which the tensors of a message lie.
 */
export function plannedMessages(
  plan: Plan,
  mesh: Pick<Mesh, 'coordinate'>,
  alignment: number,
  period: number,
): readonly PhasedMessage[] {
  return plan.steps.flatMap((step) =>
    step.collectives(plan).flatMap((collective) => {
      const { operation, axis, when, only, everySteps = 1 } = collective;
      if (when === 'start') return [];
      if (only !== undefined && mesh.coordinate(only.axis) !== only.rank) return [];
      const isBucket = step.kind === stepKinds.reduce.name && collective.parameters.length > 1;
      const bytes = isBucket ? alignedBytes(plan, collective, alignment) : collective.bytes;
      const message = { operation, axis, when, bytes };
      return Array.from({ length: period / everySteps }, () => message);
    }),
  );
}

/**
 * Returns the bytes of a bucket of whole gradients. They lie one after another, each at a multiple of the alignment.
 */
function alignedBytes(plan: Plan, collective: CollectivePlan, alignment: number): number {
  const { bytes, parameters } = collective;
  const sizes = new Map(plan.axes.map(({ name, size }) => [name, size]));
  const elements = parameters.map((name) => {
    const planned = plan.parameters.find((each) => each.name === name);
    if (planned === undefined) throw new RangeError(`a plan without '${name}'`);
    const place = (axis: string): { size: number; rank: number } => {
      return { size: sizes.get(axis) ?? 1, rank: 0 };
    };
    return elementCount(localShape(planned.shape, planned.gradient, place));
  });
  const elementBytes = bytes / elements.reduce((sum, each) => sum + each, 0);
  return elements.reduce(
    (end, each) => Math.ceil(end / alignment) * alignment + each * elementBytes,
    0,
  );
}
