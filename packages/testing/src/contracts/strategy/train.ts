import { manualSeed, type nn, optim, Tensor } from '@shardwise/core';
import { currentSession, type Mesh, type Plan, type ProcessGroup } from '@shardwise/core/extend';
import { applyPlan, memory, planFor, planMemory, stepKinds, stepsOf } from '@shardwise/strategies';
import { plannedMessages, type PhasedMessage, type Phase } from './planned-messages.ts';
import type { Message } from './recording-mesh.ts';
import { without } from './without.ts';
import type {
  ExpectedTraining,
  StrategyBatch,
  StrategyCase,
  StrategyModel,
} from './strategy-case.ts';

/** The number of steps before the one whose messages are compared with those of the plan. */
const WARM_UP_STEPS = 4;

const phases: readonly Phase[] = ['forward', 'backward', 'optimizer'];

/** How a training went on one rank. */
export interface StrategyReport {
  /** The loss of each step. Null on ranks that have no loss. */
  readonly losses: readonly (number | null)[];
  /** The bytes of all whole parameters at the end. `buffers` are those of all buffers. */
  readonly parameters: Uint8Array;
  readonly buffers: Uint8Array;
  /** The messages of the last steps. `planned` are those that the plan lists. */
  readonly ran: readonly PhasedMessage[];
  readonly planned: readonly PhasedMessage[];
  /** The bytes on this rank after the last step, by kind of state. */
  readonly kept: StateBytes;
  readonly plannedKept: StateBytes;
  /** Whether parts of parameters may lie in pages outside the device. */
  readonly hasPages: boolean;
  /** Whether ranks have different stages of the model. */
  readonly hasStages: boolean;
  /** The number of parts into which ranks and microbatches divide the batch. */
  readonly shares: number;
  /** Whether the parameters are equal on all ranks. */
  readonly hasOneModel: boolean;
  /** The plan as text. */
  readonly plan: string;
}

export interface StateBytes {
  readonly parameterBytes: number;
  readonly gradientBytes: number;
  readonly optimizerBytes: number;
  readonly bufferBytes: number;
}

export interface Recording {
  /** Returns the messages since the last call. */
  readonly take: () => readonly Message[];
}

export async function trainParallel(
  { strategy, period = 1 }: StrategyCase,
  model: StrategyModel,
  { rank, size }: Pick<ProcessGroup, 'rank' | 'size'>,
  recording: Recording,
): Promise<StrategyReport> {
  // Each rank starts with other values, so the test shows that those of rank 0 are used.
  manualSeed(rank);
  const module = model.build();
  const own = strategy(size, model);
  // The stages of a pipeline compute the loss, so forward and backward run as one.
  const hasLoss = 'loss' in own;
  const made = planFor(module, own);
  const parallel = await applyPlan(made, module);
  const optimizer = makeOptimizer(module);
  const { mesh } = currentSession();
  const share = shareOf(parallel.plan, mesh, model.rows);
  const losses: (number | null)[] = [];
  let step = 0;
  const forward = (): { output: Tensor | null; loss: Tensor } => {
    optimizer.zeroGrad();
    const { x, y } = batchOf(model, step++, share);
    if (hasLoss) return { output: null, loss: lossOf(parallel, x, y) };
    const output = parallel.forward(x);
    return { output, loss: model.loss(output, y) };
  };
  const note = async (loss: Tensor): Promise<void> => {
    const value = await loss.item();
    losses.push(share.hasLoss ? value : null);
  };
  for (let count = 0; count < WARM_UP_STEPS; count++) {
    const { loss } = forward();
    loss.backward();
    await optimizer.step();
    await note(loss);
  }
  const kept = memory({ model: module, optimizer });
  const messages: Record<Phase, Message[]> = { forward: [], backward: [], optimizer: [] };
  // The messages of a loss that no stage computes, such as one of sharded logits, are not in the plan.
  const ofLoss: Message[] = [];
  recording.take();
  for (let count = 0; count < period; count++) {
    const { output, loss } = forward();
    if (output !== null) {
      await currentSession().realize([output.node]);
      messages.forward.push(...recording.take());
      await note(loss);
      ofLoss.push(...recording.take());
    }
    loss.backward();
    await optimizer.step();
    if (output === null) await note(loss);
    recording.take();
  }
  for (let count = 0; count < period; count++) {
    const { loss } = forward();
    loss.backward();
    const gradients = module.parameters().map(({ part }) => part.gradientNode);
    await currentSession().realize(gradients.filter((node) => node !== null));
    // Forward and backward are one program, as in any step, so this includes what forward computes for backward.
    messages.backward.push(...recording.take());
    await optimizer.step();
    messages.optimizer.push(...recording.take());
    await note(loss);
  }
  recording.take();
  messages.backward = without(messages.backward, [...messages.forward, ...ofLoss]);
  const plan = parallel.plan;
  const planned = plannedMessages(
    plan,
    mesh,
    currentSession().backend.limits.alignment,
    period,
  ).map((message) =>
    hasLoss && message.when === 'forward' ? { ...message, when: 'backward' as const } : message,
  );
  parallel.replicate();
  const arrays = Object.entries(await module.stateDict());
  const names = new Set(plan.parameters.flatMap(({ name, names = [name] }) => names));
  const bytesOf = (isParameter: boolean): Uint8Array =>
    joined(arrays.flatMap(([name, { bytes }]) => (names.has(name) === isParameter ? [bytes] : [])));
  return {
    losses,
    parameters: bytesOf(true),
    buffers: bytesOf(false),
    ran: phases.flatMap((when) => messages[when].map((message) => ({ ...message, when }))),
    planned,
    kept: stateBytes(kept),
    plannedKept: stateBytes(planMemory(plan)),
    hasPages: plan.steps.some(({ kind }) => kind === stepKinds.page.name),
    hasStages: plan.steps.some(({ kind }) => kind === stepKinds.runStages.name),
    shares: share.count * partsOf(plan, model.rows / share.count),
    hasOneModel: plan.parameters.every(({ parameter }) => (parameter.varying ?? []).length === 0),
    plan: JSON.stringify(made),
  };
}

/** Calls a model that takes the targets and returns the loss. */
function lossOf(
  model: { readonly forward: (...inputs: never[]) => unknown },
  ...inputs: readonly Tensor[]
): Tensor {
  const loss: unknown = Reflect.apply(model.forward, model, inputs);
  if (loss instanceof Tensor) return loss;
  throw new TypeError('a strategy with a loss has passes that return it');
}

/**
 * Returns the number of parts in which each rank's batch passes through the model. It is one if the parts would have
 * different numbers of rows, because the mean over the rows is the same.
 */
function partsOf(plan: Plan, rows: number): number {
  const [stages] = stepsOf(plan, stepKinds.runStages);
  const microbatches = stages?.data.schedule.microbatches ?? 1;
  return rows % microbatches === 0 ? microbatches : 1;
}

/** Returns the same training for one rank, whose batch has as many parts. */
export function expectedTraining(
  model: StrategyModel,
  stepCount: number,
  shares: number,
): ExpectedTraining {
  const rows = model.rows / shares;
  return {
    model,
    stepCount,
    shares,
    makeOptimizer,
    batchOf: (step, share) => {
      const first = share * rows;
      return batchOf(model, step, { first, stop: first + rows, takesGradient: true });
    },
  };
}

/** Returns the losses of one rank that has the whole batch, in parts. */
export async function trainAlone(training: ExpectedTraining): Promise<readonly number[]> {
  const { model, stepCount, shares } = training;
  manualSeed(0);
  const module = model.build();
  const optimizer = makeOptimizer(module);
  const losses: number[] = [];
  for (let step = 0; step < stepCount; step++) {
    optimizer.zeroGrad();
    const parts = Array.from({ length: shares }, (_, share) => {
      const { x, y } = training.batchOf(step, share);
      return (model.lossAlone ?? model.loss)(module.forward(x), y);
    });
    const loss = parts.reduce((sum, each) => sum.add(each)).div(shares);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

function makeOptimizer(module: nn.Module): optim.AdamW {
  return new optim.AdamW(module.parameters(), { lr: 0.01 });
}

/** The rows of the batch that a rank gives its model. */
interface Rows {
  readonly first: number;
  readonly stop: number;
  readonly takesGradient: boolean;
}

interface Share extends Rows {
  /** The number of parts into which all ranks together divide the batch. */
  readonly count: number;
  readonly hasLoss: boolean;
}

function batchOf(
  model: StrategyModel,
  step: number,
  { first, stop, takesGradient }: Rows,
): StrategyBatch {
  const { x, y } = model.batch(step, first, stop);
  // Without gradients of the inputs, backward would not read the weights of the first layer.
  return { x: takesGradient && x.dtype === 'f32' ? x.requiresGrad_() : x, y };
}

function shareOf(plan: Plan, mesh: Mesh, rows: number): Share {
  const axes = plan.batch.dims[0] ?? [];
  let [count, place] = [1, 0];
  for (const axis of axes) {
    const size = mesh.axes.find(({ name }) => name === axis)?.size ?? 1;
    [count, place] = [count * size, place * size + mesh.coordinate(axis)];
  }
  const owner = plan.parameters.find(({ optimizer }) => optimizer.only !== undefined);
  const only = owner?.optimizer.only;
  const isPipeline = plan.steps.some(({ kind }) => kind === stepKinds.runStages.name);
  if (only !== undefined && !isPipeline) {
    const hasLoss = mesh.coordinate(only.axis) === only.rank;
    return { first: 0, stop: rows, count, hasLoss, takesGradient: false };
  }
  const part = rows / count;
  return {
    first: place * part,
    stop: (place + 1) * part,
    count,
    hasLoss: true,
    takesGradient: !isPipeline,
  };
}

function stateBytes(bytes: {
  readonly [K in keyof StateBytes]: number | null;
}): StateBytes {
  const { parameterBytes, gradientBytes, optimizerBytes, bufferBytes } = bytes;
  return {
    parameterBytes: parameterBytes ?? 0,
    gradientBytes: gradientBytes ?? 0,
    optimizerBytes: optimizerBytes ?? 0,
    bufferBytes: bufferBytes ?? 0,
  };
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.byteLength;
  }
  return all;
}
