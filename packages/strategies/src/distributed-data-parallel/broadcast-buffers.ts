import {
  axisSize,
  type CollectivePlan,
  concat,
  dtypes,
  elementCount,
  isGradEnabled,
  type Module,
  noGrad,
  type Tensor,
} from '@shardwise/core/extend';
import { requireOneStep } from '../plan/agreeing-steps.ts';
import type { BroadcastsBuffers } from '../plan/plan-context.ts';
import type { StepKind } from '../plan/step.ts';

/** Gives all ranks rank 0's buffers, such as the statistics of batch norms, before each forward pass that trains. */
export interface BroadcastBuffers {
  /** The axes whose ranks have different batches. */
  readonly axes: readonly string[];
}

/** The kind of the step `BroadcastBuffers`. */
export const broadcastBuffers: StepKind<BroadcastBuffers> = {
  name: 'broadcastBuffers',
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
  merge: (outer, inner) => ({ data: { axes: [...outer.axes, ...inner.axes] }, place: 'inner' }),
  check: (_, { plan }) => requireOneStep(plan, broadcastBuffers),
  apply({ axes }, context) {
    context.buffers = { axes, broadcasts: new BufferBroadcasts(context.model) };
  },
};

/**
 * Decides when a model's buffers are replaced by those of rank 0: before each forward pass that trains, and before the
 * first one of an evaluation after training. All ranks then evaluate with the same buffers, and may do so with different
 * numbers of batches.
 */
export class BufferBroadcasts implements BroadcastsBuffers {
  readonly #module: Module;
  /** Whether ranks may have different buffers, because a pass has trained since they were sent. */
  #mayDiffer = true;

  constructor(module: Module) {
    this.#module = module;
  }

  begin({ synchronizes }: { readonly synchronizes: boolean }): boolean {
    if (this.#module.namedBuffers().length === 0) return false;
    const trains = this.#module.namedModules().some(([, { training }]) => training);
    const sends = (synchronizes && (trains || isGradEnabled())) || (!trains && this.#mayDiffer);
    this.#mayDiffer = trains || (this.#mayDiffer && !sends);
    return sends;
  }

  settle(): void {
    this.#mayDiffer = false;
  }

  send(broadcast: (message: Tensor) => Tensor): void {
    const buffers = this.#module.namedBuffers().map(([, buffer]) => buffer);
    noGrad(() => sendBuffers(buffers, broadcast));
  }
}

/**
 * Sends all buffers of a dtype as one message, and assigns the result. `broadcast` returns the value that all ranks get.
 * Shape of messages: [elements].
 */
export function sendBuffers(
  buffers: readonly Tensor[],
  broadcast: (message: Tensor) => Tensor,
): void {
  for (const dtype of Object.keys(dtypes)) {
    const members = buffers.filter((buffer) => buffer.dtype === dtype);
    const [first] = members;
    if (first === undefined) continue;
    if (members.length === 1) {
      first.assign(broadcast(first));
      continue;
    }
    const arrived = broadcast(
      concat(
        members.map((buffer) => buffer.reshape([buffer.numel])),
        0,
      ),
    );
    let start = 0;
    for (const buffer of members) {
      const { numel, shape } = buffer;
      buffer.assign(arrived.slice(0, start, start + numel).reshape(shape));
      start += numel;
    }
  }
}
