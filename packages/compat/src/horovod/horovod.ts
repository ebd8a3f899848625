import {
  allReduce,
  broadcast,
  checkOptions,
  concat,
  currentSession,
  type DType,
  dtypes,
  noGrad,
  option,
  type OptionRules,
  type StepOptions,
  type Tensor,
} from '@shardwise/core/extend';
import { dist, type optim } from 'shardwise';
import { z } from 'zod';

/** Options of `DistributedOptimizer`. */
export interface DistributedOptimizerOptions {
  /** What becomes of the gradients of the ranks. Default: average. */
  readonly op?: 'average' | 'sum';
  /** The dtype in which gradients of f32 are sent. Default: none, which is theirs. */
  readonly compression?: 'none' | 'fp16';
  /** The most bytes of gradients that are sent as one message. Default: 128 MiB. */
  readonly fusionThresholdBytes?: number;
  /** The mesh axis over which gradients are reduced. Default: dp. */
  readonly axis?: string;
}

const rules: OptionRules<DistributedOptimizerOptions> = {
  op: option.oneOf('average', 'sum'),
  compression: option.oneOf('none', 'fp16'),
  fusionThresholdBytes: option.positive,
  axis: option.axisName,
};

/**
 * Horovod's DistributedOptimizer: reduces the gradients of all ranks before each update, for a model that each rank has as it
 * is, without dist.parallelize. Any number of backward passes may come before a step(). To clip what the ranks have in common,
 * call synchronize() before.
 */
export class DistributedOptimizer<O extends optim.Optimizer> {
  readonly optimizer: O;
  readonly #options: Required<DistributedOptimizerOptions>;
  #isReduced = false;

  /** Throws ConfigError for options out of range. */
  constructor(optimizer: O, options: DistributedOptimizerOptions = {}) {
    checkOptions('DistributedOptimizer', options, rules);
    this.optimizer = optimizer;
    this.#options = {
      op: options.op ?? 'average',
      compression: options.compression ?? 'none',
      fusionThresholdBytes: options.fusionThresholdBytes ?? 128 * 1024 * 1024,
      axis: options.axis ?? 'dp',
    };
  }

  get paramGroups(): O['paramGroups'] {
    return this.optimizer.paramGroups;
  }

  /** Reduces the gradients, in the graph. step() does it if this was not called. */
  synchronize(): void {
    if (this.#isReduced) return;
    this.#isReduced = true;
    const { fusionThresholdBytes } = this.#options;
    const parameters = this.paramGroups.flatMap(({ params }) => [...params]);
    noGrad(() => {
      for (const message of messagesOf(parameters, fusionThresholdBytes)) this.#reduce(message);
    });
  }

  /** Reduces the gradients and updates. Returns whether it updated, as Optimizer.step does. */
  async step(options: StepOptions = {}): Promise<boolean> {
    this.synchronize();
    this.#isReduced = false;
    return this.optimizer.step(options);
  }

  zeroGrad(): void {
    this.#isReduced = false;
    this.optimizer.zeroGrad();
  }

  #reduce(parameters: readonly Tensor[]): void {
    const { op, compression, axis } = this.#options;
    const gradients = parameters.flatMap(({ grad }) => (grad === null ? [] : [grad]));
    const all = concat(
      gradients.map((gradient) => gradient.flatten()),
      0,
    );
    const sent = compression === 'fp16' && all.dtype === 'f32' ? all.to('f16') : all;
    const reduced = (
      op === 'average' ? allReduce(sent, axis, { reduce: 'avg' }) : allReduce(sent, axis)
    ).to(all.dtype);
    let start = 0;
    for (const parameter of parameters) {
      const { shape, numel } = parameter;
      const gradient = reduced.slice(0, start, start + numel).reshape(shape);
      parameter.setGradientNode(gradient.node);
      start += numel;
    }
  }
}

/** Parameters with gradients, by the message in which these are sent. A message has one dtype. */
function messagesOf(parameters: readonly Tensor[], mostBytes: number): readonly Tensor[][] {
  const messages: Tensor[][] = [];
  const open = new Map<DType, { readonly message: Tensor[]; bytes: number }>();
  for (const parameter of parameters) {
    const { grad } = parameter;
    if (grad === null) continue;
    const bytes = grad.numel * dtypes[grad.dtype].bytes;
    const latest = open.get(grad.dtype);
    if (latest !== undefined && latest.bytes + bytes <= mostBytes) {
      latest.message.push(parameter);
      latest.bytes += bytes;
      continue;
    }
    const message = [parameter];
    messages.push(message);
    open.set(grad.dtype, { message, bytes });
  }
  return messages;
}

/** Gives all ranks the parameters of rank `rootRank`. It is a collective. */
export async function broadcastParameters(
  parameters: Iterable<Tensor>,
  rootRank = 0,
  axis = 'dp',
): Promise<void> {
  noGrad(() => {
    for (const parameter of parameters) parameter.assign(broadcast(parameter, axis, rootRank));
  });
  await currentSession().realize([]);
}

type StateDict = Awaited<ReturnType<optim.Optimizer['stateDict']>>;

/** loadStateDict checks the rest. */
const stateDict = z.custom<StateDict>((value) => typeof value === 'object' && value !== null);

/** Gives all ranks the states and the settings of rank `rootRank`'s optimizer. It is a collective. */
export async function broadcastOptimizerState(
  optimizer: optim.Optimizer,
  rootRank = 0,
  axis = 'dp',
): Promise<void> {
  const group = currentSession().mesh.group(axis);
  const own = group.rank === rootRank ? await optimizer.stateDict() : null;
  const received = await dist.broadcastObject(group, own, rootRank);
  if (group.rank !== rootRank) optimizer.loadStateDict(stateDict.parse(received));
}
