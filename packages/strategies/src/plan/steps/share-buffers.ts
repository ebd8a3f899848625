import { type CollectivePlan, dtypes, elementCount } from '@shardwise/core/extend';
import { BufferSharing } from '../../buffer-sharing.ts';
import { axisSize } from '../../layout/axis-size.ts';
import { requireOneStep } from '../agreeing-steps.ts';
import type { StepKind } from '../step.ts';

/** Gives all ranks rank 0's buffers, such as the statistics of batch norms, before each forward pass that trains. */
export interface ShareBuffers {
  /** The axes whose ranks have different batches. */
  readonly axes: readonly string[];
}

/** The kind of the step `ShareBuffers`. */
export const shareBuffers: StepKind<ShareBuffers> = {
  name: 'shareBuffers',
  collectives({ axes }, { axes: mesh, buffers = [] }) {
    const byDtype = Map.groupBy(buffers, ({ dtype }) => dtype);
    return axes
      .filter((axis) => axisSize(mesh, axis) > 1)
      .flatMap((axis) =>
        [...byDtype].map(([dtype, list]): CollectivePlan => {
          const elements = list.reduce((sum, { shape }) => sum + elementCount(shape), 0);
          const bytes = elements * dtypes[dtype].bytes;
          return { operation: 'broadcast', axis, when: 'forward', parameters: [], bytes };
        }),
      );
  },
  check: (_, { plan }) => requireOneStep(plan, shareBuffers),
  apply({ axes }, context) {
    context.buffers = { axes, sharing: new BufferSharing(context.model) };
  },
};
