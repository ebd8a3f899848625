import {
  BatchNorm,
  ConfigError,
  dropWork,
  type Module,
  newestNodeId,
  type Node,
  type PendingWork,
  takingWork,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { forEachTensor } from '../../modules/map-tensors.ts';
import { type LossMessage, lossMessages } from './loss-messages.ts';
import { type LossFactor, lossFactors, shareOf } from './loss-weight.ts';
import { MicrobatchGraph } from './microbatch-graph.ts';
import type { Microbatch } from './microbatch.ts';
import { passInputs } from './pass-inputs.ts';
import type { PassSettings } from './pass-settings.ts';
import { type MicrobatchInputs, splitMicrobatches } from './split-microbatches.ts';

export type Run = (...inputs: readonly unknown[]) => unknown;

/** A batch whose forward passes have been built. */
export interface BuiltBatch {
  readonly microbatches: readonly Microbatch[];
  /** The tensors in the result of each microbatch: its loss, or its outputs. */
  readonly outputs: readonly (readonly Tensor[])[];
  /** What the first microbatch returned. */
  readonly output: unknown;
  /** The weight of each microbatch's loss. */
  readonly factors: readonly LossFactor[];
  /** The rows of each microbatch. */
  readonly rows: readonly number[];
  /** The collectives in the losses of all microbatches, such as those of a loss of logits that ranks hold in parts. */
  readonly lossMessages: readonly LossMessage[];
  /** The buffers that the pass updates, each with the stage that updates it. */
  readonly updated: ReadonlyMap<Node, number>;
}

/** The settings of a pass that decide how it is built. */
export type BuildSettings = Pick<
  PassSettings,
  'schedule' | 'loss' | 'weight' | 'marks' | 'place' | 'model' | 'defersBatchNorm'
>;

/** Builds the forward passes of all microbatches through all stages. Nothing is computed. */
export function buildMicrobatches(
  run: Run,
  inputs: readonly unknown[],
  { schedule, loss, weight, marks, place, model, defersBatchNorm }: BuildSettings,
  isTraining: boolean,
): BuiltBatch {
  requireNoGradients(inputs);
  const { modelInputs, hasLoss } = passInputs(inputs, loss, model, isTraining);
  const parts = withoutValues(() => splitMicrobatches(inputs, schedule.microbatches));
  // Without a loss, results are averaged by rows. A weight function applies to losses only.
  const factors = lossFactors(loss === null || hasLoss ? weight : 'rows', parts);
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
    for (const norm of deferred) norm.expectPart({ index, count: parts.length });
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
      // What is no update is a value that the program retains. Only the rank of its stage needs it.
      const stage = update.op === 'assign' ? graph.stageOf(update) : null;
      if (stage !== null) updated.set(targetOf(update), stage);
    }
    for (const node of carried) earlier.add(node);
    const counts = factor?.counts ?? null;
    return { graph, loss: share, counts, updates: ownUpdates(work, graph, place), carried };
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

/** Returns whether a leaf is a parameter or a buffer. Those are the leaves that stay on the device. */
function isState(leaf: Node): boolean {
  return leaf.resident || leaf.op === 'assign';
}

function targetOf(update: Node): Node {
  const [target] = update.inputs;
  return update.op === 'assign' && target !== undefined ? targetOf(target) : update;
}

/** Returns the updates of this rank's stages. Other ranks make those of their stages. */
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
  // The output for a single row may also have one element. Only a tensor without dims counts as a loss.
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
