import {
  axisOf,
  type AxisParams,
  axisSize,
  broadcast,
  type CollectivePlan,
  currentSession,
  formatShape,
  type Gradient,
  LayoutError,
  type Module,
  noGrad,
  type ParameterPlan,
  reduce,
  Tensor,
} from '@shardwise/core/extend';
import { TrainedParameters } from '../agreement/trained-parameters.ts';
import { outputParts, type RowPart, rowParts } from './row-parts.ts';
import { gatherRows, MASTER, runForOthers, scatterRows } from './scatter-gather.ts';
import { broadcastBuffers, sendBuffers } from '../distributed-data-parallel/broadcast-buffers.ts';
import { distribute } from '../distributed-data-parallel/distribute.ts';
import { mapTensors } from '../modules/map-tensors.ts';
import { requireOneStep } from '../plan/agreeing-steps.ts';
import { markAveraged, requireUnaveraged } from '../plan/averaged-parameters.ts';
import type { PassHooks } from '../plan/plan-context.ts';
import { bytesOver } from '../plan/planned-bytes.ts';
import { requireSameModel } from '../plan/same-model.ts';
import type { StepKind } from '../plan/step.ts';

/** Makes rank 0 of an axis the master, which has the model, the batch and the optimizer. */
export interface Master {
  readonly axis: string;
}

/**
 * The kind of the step `Master`. In each forward pass the master gives all ranks its parameters and a part of
 * the batch, and gets their outputs; in the backward pass it gets their gradients. All ranks run the same
 * program. The batch that the other ranks pass gives only its shape, their outputs are zeros, and their
 * parameters have no gradient, so their optimizers do nothing and keep nothing.
 */
export const master: StepKind<Master> = {
  name: 'master',
  collectives({ axis }, plan) {
    if (axisSize(plan.axes, axis) === 1) return [];
    const message = (
      operation: string,
      when: CollectivePlan['when'],
      planned: ParameterPlan,
    ): CollectivePlan => {
      const bytes = bytesOver(plan, planned, axis, planned.dtype);
      return { operation, axis, when, parameters: [planned.name], bytes };
    };
    const trained = plan.parameters.filter(({ requiresGrad }) => requiresGrad);
    return [
      ...plan.parameters.map((planned) => message('broadcast', 'forward', planned)),
      ...broadcastBuffers.collectives({ axes: [axis] }, plan),
      ...trained.toReversed().map((planned) => message('reduce', 'backward', planned)),
    ];
  },
  check(_, context) {
    requireOneStep(context.plan, master, distribute);
    requireUnaveraged('dataParallel of a model', context.parameters);
  },
  async apply({ axis }, context) {
    const { model } = context;
    const group = currentSession().mesh.group(axis);
    await requireSameModel(context, group);
    const ranks = new MasterRanks(model, axis, context.numbers.suffix(axis));
    ranks.replicate();
    await currentSession().realize([]);
    context.hooks.push(ranks);
  },
};

class MasterRanks implements PassHooks {
  readonly #model: Module;
  readonly #axis: string;
  /** The gradients of all parameters, including those that do not train now. */
  readonly #gradients: readonly Gradient[];
  readonly #trained: TrainedParameters;
  readonly #unmark: () => void;

  constructor(model: Module, axis: string, suffix: string) {
    this.#model = model;
    this.#axis = axis;
    const named = model.namedParameters();
    this.#unmark = markAveraged('dataParallel', model.parameters());
    this.#trained = new TrainedParameters(named, axis, suffix);
    this.#gradients = named.map(([, { part }]) => {
      const gradient: Gradient = part.reduceGradient({
        expect: () => {},
        arrive: () => this.#sumOnMaster(gradient),
        checkUpdate: () => this.#trained.check(),
      });
      return gradient;
    });
  }

  beforeForward(): void {
    this.#trained.check();
    this.#trained.refresh();
    this.replicate();
  }

  /**
   * Runs a forward pass. Tensors among the inputs, also in arrays and plain objects, are cut along dim 0. Scalars go to
   * all ranks. Tensors of the output are concatenated along dim 0, where a scalar becomes a row. Shape: inputs [B, ..]
   * -> [B, ..], B at least the number of ranks. Throws LayoutError for fewer rows, and for an input that requires a
   * gradient, because gradients end at the batch.
   */
  forward<Inputs extends readonly unknown[], Output>(
    run: (...inputs: Inputs) => Output,
    inputs: Inputs,
  ): Output {
    const params = this.#params;
    const batch = batchOf(inputs, params.size);
    const mine = mapTensors(inputs, (x) => {
      if (x.requiresGrad) throw trainedInputError(x);
      return x.ndim === 0 ? x : scatterRows(x, rowParts(x.shape, params.size), params);
    });
    return mapTensors(run(...mine), (y) => {
      const rows = y.ndim === 0 ? y.reshape([1]) : y;
      const parts =
        y.ndim === 0
          ? batch.map((_, rank) => ({ start: rank, stop: rank + 1 }))
          : outputParts(y.shape, batch, params.rank);
      return gatherRows(rows, parts, params);
    });
  }

  /** Gives all ranks the master's parameters and buffers. Otherwise they have those of the latest forward pass. */
  replicate(): void {
    const send = (tensor: Tensor): Tensor => broadcast(tensor, this.#axis, MASTER);
    noGrad(() => {
      for (const { part } of this.#model.parameters()) part.assign(send(part));
      sendBuffers(
        this.#model.namedBuffers().map(([, buffer]) => buffer),
        send,
      );
    });
  }

  detach(): void {
    for (const gradient of this.#gradients) gradient.reduceBy(null);
    this.#unmark();
  }

  get #params(): AxisParams {
    return axisOf(currentSession().mesh, this.#axis);
  }

  #sumOnMaster(gradient: Gradient): void {
    const own = gradient.local.take();
    if (own === null) return;
    const sum = noGrad(() => reduce(new Tensor(own), this.#axis, MASTER));
    if (this.#params.rank === MASTER) gradient.addReduced(sum.node);
    else runForOthers(sum);
  }
}

function trainedInputError({ shape }: Tensor): LayoutError {
  return new LayoutError(
    {
      asked: `to divide an input of shape ${formatShape(shape)} that requires a gradient`,
      found: 'the ranks give back the gradients of parameters only',
      todo: 'Pass input.detach(), or train what makes it inside the model, or use ddp()',
    },
    { shape },
  );
}

/** Returns how the ranks divide the rows of the first tensor that has rows. */
function batchOf(inputs: readonly unknown[], ranks: number): readonly RowPart[] {
  let parts: readonly RowPart[] | null = null;
  mapTensors(inputs, (x) => {
    if (x.ndim > 0) parts ??= rowParts(x.shape, ranks);
    return x;
  });
  if (parts !== null) return parts;
  throw new LayoutError({
    asked: 'to divide a batch among ranks',
    found: 'inputs without a tensor that has rows',
    todo: 'Pass the batch to forward as a tensor of shape [B, ..]',
  });
}
