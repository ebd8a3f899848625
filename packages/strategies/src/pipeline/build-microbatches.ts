import {
  BatchNorm,
  ConfigError,
  dropWork,
  type Module,
  newestNodeId,
  type Node,
  type PendingWork,
  Tensor,
  takingWork,
  withoutValues,
} from '@shardwise/core/extend';
import { forEachTensor } from '../map-tensors.ts';
import { type LossMessage, lossMessages } from './loss-messages.ts';
import { lossFactors, shareOf } from './loss-weight.ts';
import { MicrobatchGraph } from './microbatch-graph.ts';
import type { Microbatch } from './microbatch.ts';
import { passInputs } from './pass-inputs.ts';
import type { PassSettings } from './pass-settings.ts';
import { type MicrobatchInputs, rowsOf, splitMicrobatches } from './split-microbatches.ts';
import { StageParameter } from './stage-parameter.ts';

export type Run = (...inputs: readonly unknown[]) => unknown;

/** A batch whose forward passes were built. */
export interface BuiltBatch {
  readonly microbatches: readonly Microbatch[];
  /** What each microbatch returned: the tensors in it, as loss or outputs. */
  readonly outputs: readonly (readonly Tensor[])[];
  /** What the first microbatch returned. */
  readonly output: unknown;
  /** How much each microbatch counts. Shape: each []. */
  readonly factors: readonly Node[];
  /** The rows of each microbatch. */
  readonly rows: readonly number[];
  /** What the losses of all microbatches communicate by themselves, as those of logits in parts. */
  readonly lossMessages: readonly LossMessage[];
  /** Buffers that a stage has updated, and which stage. */
  readonly updated: ReadonlyMap<Node, number>;
}

/** What of the settings of a pass says how it is built. */
export type BuildSettings = Pick<
  PassSettings,
  'schedule' | 'loss' | 'weight' | 'marks' | 'place' | 'model' | 'defersBatchNorm'
>;

/** Builds the forward passes of all microbatches of a batch, of all stages; nothing is computed. */
export function buildMicrobatches(
  run: Run,
  inputs: readonly unknown[],
  { schedule, loss, weight, marks, place, model, defersBatchNorm }: BuildSettings,
  isTraining: boolean,
): BuiltBatch {
  // Few rows are no fault where nothing is averaged over passes.
  const count = isTraining
    ? schedule.microbatches
    : Math.min(schedule.microbatches, rowsOf(inputs));
  requireNoGradients(inputs);
  const { modelInputs, hasLoss } = passInputs(inputs, loss, model, isTraining);
  const parts = withoutValues(() => splitMicrobatches(inputs, count));
  // Weights are those of losses.
  const factors = lossFactors(loss === null || hasLoss ? weight : 'rows', parts);
  const own = model.parameters().filter((each) => each instanceof StageParameter);
  const outputs: Tensor[][] = [];
  const results: unknown[] = [];
  const updated = new Map<Node, number>();
  const earlier = new Set<Node>();
  const ofLosses: LossMessage[] = [];
  const deferred = defersBatchNorm ? batchNormsOf(model) : [];
  const build = (part: MicrobatchInputs, index: number): Microbatch => {
    let beforeLoss = Number.POSITIVE_INFINITY;
    const forward = (): unknown => {
      const output = run(...part.inputs.slice(0, modelInputs));
      if (loss !== null) beforeLoss = newestNodeId();
      return loss === null || !hasLoss ? output : loss.of(output, part.inputs.slice(modelInputs));
    };
    for (const parameter of own) parameter.show(() => parameter.part.node);
    for (const norm of deferred) norm.expectPart({ index, count: parts.length });
    try {
      const { result, work } = takingWork(() => withoutValues(() => marks.record(forward)));
      results.push(result.result);
      const tensors: Tensor[] = [];
      forEachTensor(result.result, (tensor) => tensors.push(tensor));
      outputs.push(tensors);
      const factor = factors[index];
      const share =
        isTraining && factor !== undefined
          ? withoutValues(() => shareOf(lossOf(result.result), factor))
          : null;
      if (share !== null) ofLosses.push(...lossMessages(share, beforeLoss));
      const carried = deferred.flatMap((norm) => norm.statisticsOfParts.map(({ node }) => node));
      const given = new Set<Node>();
      forEachTensor(part.inputs, ({ node }) => given.add(node));
      const roots = {
        inputs: given,
        outputs: share === null ? tensors.map(({ node }) => node) : [share],
        loss: share,
        updates: [...work.keys()],
        carried,
        earlier: new Set(earlier),
      };
      const graph = new MicrobatchGraph(roots, result.starts, isState);
      for (const update of work.keys()) {
        const stage = graph.stageOf(update);
        if (stage !== null) updated.set(targetOf(update), stage);
      }
      for (const node of carried) earlier.add(node);
      return { graph, loss: share, updates: ownUpdates(work, graph, place), carried };
    } finally {
      for (const parameter of own) parameter.show(null);
    }
  };
  try {
    const microbatches = parts.map(build);
    const rows = parts.map((part) => part.rows);
    const output = results[0];
    return { microbatches, outputs, output, factors, rows, lossMessages: ofLosses, updated };
  } finally {
    for (const norm of deferred) norm.expectPart(null);
  }
}

function batchNormsOf(model: Module): readonly BatchNorm[] {
  return model
    .namedModules()
    .flatMap(([, module]) => (module instanceof BatchNorm ? [module] : []));
}

/** Parameters and buffers stay on the device. */
function isState(leaf: Node): boolean {
  return leaf.resident || leaf.op === 'assign';
}

function targetOf(update: Node): Node {
  const [target] = update.inputs;
  return update.op === 'assign' && target !== undefined ? targetOf(target) : update;
}

/** Other ranks make the updates of their stages. */
function ownUpdates(
  work: ReadonlyMap<Node, PendingWork>,
  graph: MicrobatchGraph,
  { rank, rankOfStage }: PassSettings['place'],
): ReadonlyMap<Node, PendingWork> {
  const isOwn = (node: Node): boolean => rankOfStage[graph.stageOf(node) ?? 0] === rank;
  dropWork(new Map([...work].filter(([node]) => !isOwn(node))));
  return new Map([...work].filter(([node]) => isOwn(node)));
}

function lossOf(result: unknown): Node {
  // One row's output may have one element, too, and is no loss for that.
  if (result instanceof Tensor && result.ndim === 0 && result.requiresGrad) return result.node;
  throw new ConfigError(
    {
      asked: 'a training pass of a pipeline',
      found:
        result instanceof Tensor
          ? `an output of shape [${result.shape.join(', ')}]${result.requiresGrad ? '' : ' that requires no gradient'}, and not a loss`
          : 'an output that is no tensor, and not a loss',
      todo: 'Give pipeline() a loss, or have the model return its loss, because a loss that is built outside of the stages cannot reach them. Use noGrad() to evaluate',
    },
    { shape: result instanceof Tensor ? result.shape : null },
  );
}

function requireNoGradients(inputs: readonly unknown[]): void {
  forEachTensor(inputs, (tensor) => {
    if (!tensor.requiresGrad) return;
    throw new ConfigError(
      {
        asked: 'a pass of a pipeline with an input that requires a gradient',
        found: `one of shape [${tensor.shape.join(', ')}], whose gradient would not arrive`,
        todo: 'Pass input.detach()',
      },
      { shape: tensor.shape },
    );
  });
}
