import {
  axisOf,
  type AxisParams,
  broadcast,
  checkOptions,
  currentSession,
  formatShape,
  type Gradient,
  LayoutError,
  type Model,
  type Module,
  noGrad,
  option,
  type OptionRules,
  type ParallelModel,
  type Plan,
  reduce,
  type Strategy,
  synchronously,
  Tensor,
} from '@shardwise/core/extend';
import { shareBuffers } from '../share-buffers.ts';
import { markAveraged, requireUnaveraged } from '../averaged-parameters.ts';
import { KnownParameters } from '../known-parameters.ts';
import { requireSameModel } from '../same-model.ts';
import { requireWhole } from '../whole-parameters.ts';
import { mapTensors } from '../map-tensors.ts';
import { TrainedParameters } from '../trained-parameters.ts';
import { outputParts, type RowPart, rowParts } from './row-parts.ts';
import { runForOthers } from '../run-for-others.ts';
import { gatherRows, master, scatterRows } from './scatter-gather.ts';

export interface DataParallelOptions {
  /** The mesh axis over which the batch is split. Default: `dp`. */
  readonly axis?: string;
}

/** dataParallel, which gives a DataParallel. */
export interface DataParallelStrategy extends Strategy<Module> {
  apply<M extends Module, Inputs extends readonly unknown[], Output>(
    plan: Plan,
    model: M & Model<Inputs, Output>,
  ): Promise<DataParallel<M, Inputs, Output>>;
}
export const dataParallelRules: OptionRules<DataParallelOptions> = { axis: option.axisName };

/**
 * Rank 0 holds the model, the batch and the optimizer; in each forward pass it gives all ranks its
 * parameters and a part of the batch, and gets their outputs, in backward their gradients. Matches
 * torch.nn.DataParallel, with ranks in the place of threads. All ranks run the same program: what the
 * others pass as a batch gives only its shape, their outputs are zeros, their parameters have no
 * gradient, and so their optimizers do nothing and keep nothing. Make one with
 * `DataParallel.create`, which is a collective.
 */
export class DataParallel<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
> implements ParallelModel<M, Inputs, Output> {
  readonly module: M & Model<Inputs, Output>;
  readonly #axis: string;
  /** Also of parameters that do not train now. */
  readonly #gradients: readonly Gradient[];
  readonly #trained: TrainedParameters;
  readonly #known: KnownParameters;
  readonly #unmark: () => void;

  private constructor(model: M & Model<Inputs, Output>, axis: string) {
    this.module = model;
    this.#axis = axis;
    const named = model.namedParameters();
    this.#known = new KnownParameters('dataParallel', model);
    this.#unmark = markAveraged('dataParallel', model.parameters());
    this.#trained = new TrainedParameters(named, axis);
    this.#gradients = named.map(([, { part }]) => {
      const gradient: Gradient = part.reduceGradient({
        expect: () => {},
        arrive: () => this.#sumOnMaster(gradient),
        checkUpdate: () => this.#trained.check(),
      });
      return gradient;
    });
  }

  /** Checks that all ranks have the same model and gives them rank 0's parameters and buffers. */
  static async create<M extends Module, Inputs extends readonly unknown[], Output>(
    model: M & Model<Inputs, Output>,
    options: DataParallelOptions = {},
  ): Promise<DataParallel<M, Inputs, Output>> {
    checkOptions('dataParallel', options, dataParallelRules);
    const { axis = 'dp' } = options;
    const tensors: (readonly [string, Tensor])[] = [
      ...model.namedParameters(),
      ...model.namedBuffers(),
    ];
    requireUnaveraged('dataParallel of a model', model.namedParameters());
    requireWhole('dataParallel of a model', model.namedParameters());
    await requireSameModel(tensors, currentSession().mesh.group(axis));
    const parallel = new DataParallel<M, Inputs, Output>(model, axis);
    parallel.replicate();
    await currentSession().realize([]);
    return parallel;
  }

  /**
   * Tensors among the inputs, in arrays and plain objects too, are cut along dim 0 (scalars are
   * passed on), those of the output are put together along it; scalars become a row each. Shape:
   * inputs [B, ..] -> [B, ..], B at least the number of ranks. Throws LayoutError for fewer rows, and
   * for an input that requires a gradient: gradients end at the batch; ConfigError for a model that
   * parameters were put into since.
   */
  forward(...inputs: Inputs): Output {
    this.#known.check();
    this.#trained.check();
    this.#trained.refresh();
    this.replicate();
    const params = this.#params;
    const batch = batchOf(inputs, params.size);
    const mine = mapTensors(inputs, (x) => {
      if (x.requiresGrad) throw trainedInputError(x);
      return x.ndim === 0 ? x : scatterRows(x, rowParts(x.shape, params.size), params);
    });
    return mapTensors(this.module.forward(...mine), (y) => {
      const rows = y.ndim === 0 ? y.reshape([1]) : y;
      const parts =
        y.ndim === 0
          ? batch.map((_, rank) => ({ start: rank, stop: rank + 1 }))
          : outputParts(y.shape, batch, params.rank);
      return gatherRows(rows, parts, params);
    });
  }

  /** Gives all ranks rank 0's parameters and buffers, which they otherwise have as of the latest forward pass. */
  replicate(): void {
    const send = (tensor: Tensor): Tensor => broadcast(tensor, this.#axis, master);
    noGrad(() => {
      for (const { part } of this.module.parameters()) part.assign(send(part));
      shareBuffers(
        this.module.namedBuffers().map(([, buffer]) => buffer),
        send,
      );
    });
  }

  /** Gradients go to rank 0 in every pass and accumulate there, inside `body` too. */
  noSync<T>(body: () => T): T {
    return synchronously('noSync', body);
  }

  /** Ends the sharing of work: the module is an ordinary one again. */
  detach(): M {
    for (const gradient of this.#gradients) gradient.reduceBy(null);
    this.#unmark();
    return this.module;
  }

  get #params(): AxisParams {
    return axisOf(currentSession().mesh, this.#axis);
  }

  #sumOnMaster(gradient: Gradient): void {
    const own = gradient.local.take();
    if (own === null) return;
    const sum = noGrad(() => reduce(new Tensor(own), this.#axis, master));
    if (this.#params.rank === master) gradient.addReduced(sum.node);
    else runForOthers(sum);
  }
}

function trainedInputError({ shape }: Tensor): LayoutError {
  return new LayoutError(
    {
      asked: `to share out an input of shape ${formatShape(shape)} that requires a gradient`,
      found: 'the ranks give back the gradients of parameters only',
      todo: 'Pass input.detach(), or train what makes it inside the model, or use ddp()',
    },
    { shape },
  );
}

/** How the ranks share the rows of the first tensor that has rows. */
function batchOf(inputs: readonly unknown[], ranks: number): readonly RowPart[] {
  let parts: readonly RowPart[] | null = null;
  mapTensors(inputs, (x) => {
    if (x.ndim > 0) parts ??= rowParts(x.shape, ranks);
    return x;
  });
  if (parts !== null) return parts;
  throw new LayoutError({
    asked: 'to share out a batch among ranks',
    found: 'inputs without a tensor that has rows',
    todo: 'Pass the batch to forward as a tensor of shape [B, ..]',
  });
}
