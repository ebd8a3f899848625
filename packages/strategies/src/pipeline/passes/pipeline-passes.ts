import {
  addNodes,
  type Compute,
  currentSession,
  inputNode,
  isGradEnabled,
  type Node,
  noGrad,
  targetOf,
  Tensor,
  withCollectiveOrder,
} from '@shardwise/core/extend';
import { mapTensors } from '../../modules/map-tensors.ts';
import { StandInPlacement } from '../../parameters/stand-in-placement.ts';
import type { StageEdge } from '../../pipeline-schedule/actions/schedule.ts';
import { evaluationOf } from '../../pipeline-schedule/schedules/forward-only.ts';
import { bytesOf } from '../messages/message-bytes.ts';
import { tagOf } from '../messages/message.ts';
import { setHolder } from '../messages/on-every-rank.ts';
import {
  buildMicrobatches,
  type BuiltBatch,
  type Run,
} from '../microbatches/build-microbatches.ts';
import type { LossMessage } from '../microbatches/loss-messages.ts';
import { passInputs } from '../microbatches/pass-inputs.ts';
import type { PassSettings } from '../microbatches/pass-settings.ts';
import { FirstFault } from './first-fault.ts';
import {
  backwardTwiceError,
  lossNotComputed,
  outputOnOtherRank,
  refuseBackward,
  staleBufferError,
  unknownLeafError,
} from './pass-errors.ts';
import { runWork } from './run-work.ts';
import { passMark, requireSamePass } from './same-pass.ts';
import { type EarlyWork, earlyWork } from '../work/early-work.ts';
import { evaluationWork } from '../work/evaluation-work.ts';
import { numberedCrossings } from '../work/forward-drafts.ts';
import { keptBytes, ofAllRanks } from '../work/kept-bytes.ts';
import { edgesOf, type PassMessage, passMessages } from '../work/pass-messages.ts';
import {
  draft,
  keepCollected,
  withFrees,
  type WorkDraft,
  type WorkItem,
} from '../work/rank-work.ts';
import {
  sendParameters,
  type ParameterPlaces,
  returnGradients,
  type SharedParameter,
  sharedParameters,
} from '../work/shared-parameters.ts';
import { trainingWork } from '../work/training-work.ts';

type Mark = ReturnType<typeof passMark>;

/** The comparison between ranks that the first pass of each kind makes, and the report of the first of training. */
interface FirstPass {
  readonly mark: Mark;
  /** The nodes that are kept beside activations: sums of gradients, and losses. Null in evaluation. */
  readonly sums: ReadonlySet<Node> | null;
}

export interface LatestPass {
  /** The rows of each microbatch. */
  readonly rows: readonly number[];
  readonly lossRank: number;
  readonly lossMessages: readonly LossMessage[];
}

interface SharingBatch extends BuiltBatch {
  readonly shared: readonly SharedParameter[];
}

/** The passes of a model that trains in stages. */
export class PipelinePasses {
  readonly #settings: PassSettings;
  /** The kinds of passes that ranks have compared: in training or not, and the number of microbatches. */
  readonly #compared = new Set<string>();
  /** The values that crossed between stages for one microbatch of the latest pass. Null before the first pass. */
  edges: readonly StageEdge[] | null = null;
  /** All messages of the latest training pass. Null before the first one. */
  messages: readonly PassMessage[] | null = null;
  /** The parts of the latest training pass. Null before the first one. */
  latest: LatestPass | null = null;
  /** The most bytes of activations that each rank kept in the first training pass. Null before it. */
  liveBytes: readonly number[] | null = null;
  #lossWasFinite = true;

  constructor(settings: PassSettings) {
    this.#settings = settings;
  }

  /**
   * Runs in the place of the model's forward pass. In training it returns the loss of the batch, which all ranks can
   * read after backward(). Inside noGrad(), or in eval() mode without targets, it evaluates the batch: with targets it
   * returns the loss, and without targets the model's output.
   */
  forward(run: Run, inputs: readonly unknown[]): unknown {
    // The schedule says when a rank does what. The collectives of its stages have no other order.
    return withCollectiveOrder('apart', () => this.#forward(run, inputs));
  }

  #forward(run: Run, inputs: readonly unknown[]): unknown {
    const isTraining = this.#isTraining(inputs);
    const build = (): SharingBatch => {
      this.#forgetSeen();
      const built = buildMicrobatches(run, inputs, this.#settings, isTraining);
      const { place } = this.#settings;
      return { ...built, shared: sharedParameters(built.microbatches, this.#parameters(), place) };
    };
    const batch = isTraining ? build() : noGrad(build);
    const mark = this.#markOf(inputs, batch, isTraining);
    if (!isTraining) return this.#evaluate(batch, mark);
    this.edges = edgesOf(batch, this.#settings.activationDtype);
    return this.#lossOf(batch, mark);
  }

  /** Returns whether a pass trains. In eval() mode without targets, the caller wants the model's output. */
  #isTraining(inputs: readonly unknown[]): boolean {
    if (!isGradEnabled()) return false;
    const { loss, model } = this.#settings;
    return loss === null || model.training || passInputs(inputs, loss, model, false).hasLoss;
  }

  /**
   * Returns the mark by which ranks compare their batches. Only the first batch of each kind has one. A batch in fewer
   * microbatches than usual is another kind, because a rank whose batch had more would wait for the others in vain.
   */
  #markOf(
    inputs: readonly unknown[],
    { microbatches, shared }: SharingBatch,
    isTraining: boolean,
  ): Mark | null {
    const kind = `${isTraining ? 'training' : 'evaluation'} ${microbatches.length}`;
    if (this.#compared.has(kind)) return null;
    this.#compared.add(kind);
    return passMark(inputs, microbatches, shared);
  }

  #lossOf(batch: SharingBatch, mark: Mark | null): Tensor {
    const [first] = batch.microbatches;
    const node = inputNode([], 'f32', lossNotComputed(), true);
    node.axisTypes = first?.loss?.axisTypes ?? null;
    let isAwaited = true;
    node.sink = {
      accumulate: (gradient) => {
        if (!isAwaited) throw backwardTwiceError();
        isAwaited = false;
        const finals = withCollectiveOrder('apart', () => this.#train(batch, mark, node, gradient));
        // Whatever the sinks build from the gradients is computed after the pass.
        for (const [leaf, own] of finals) leaf.sink?.accumulate(own);
      },
    };
    return new Tensor(node);
  }

  /** Begins a pass, and returns the gradients of leaves. */
  #train(
    batch: SharingBatch,
    mark: Mark | null,
    loss: Node,
    lossGradient: Node,
  ): readonly (readonly [leaf: Node, gradient: Node])[] {
    const { schedule, place, activationDtype, group } = this.#settings;
    const { microbatches, shared } = batch;
    const { rank } = place;
    this.#requireFresh(batch);
    const work = trainingWork(microbatches, lossGradient, schedule, place, activationDtype);
    const gradients = new Map(work.gradients);
    const returned = returnGradients(shared, rank, gradients);
    const before = updatesBefore(batch);
    const parameters = sendParameters(shared, rank, before);
    const drafts = [...parameters, ...work.drafts, ...returned];
    const shares = microbatches.flatMap((each) => (each.loss === null ? [] : [each.loss]));
    const total = noGrad(() => shares.reduce(addNodes));
    const lossStage = microbatches[0]?.graph.stageOf(shares[0] ?? total) ?? 0;
    const lossRank = place.rankOfStage[lossStage] ?? 0;
    this.latest = { rows: batch.rows, lossRank, lossMessages: batch.lossMessages };
    this.messages = passMessages(batch, {
      crossings: numberedCrossings(microbatches, activationDtype),
      shared,
      rankOfStage: place.rankOfStage,
      ranks: group.size,
      lossStage,
    });
    this.#sendResult({ node: total, replica: loss, stage: lossRank, index: 0 }, drafts, shares);
    this.#sendBuffers(batch, drafts);
    const kept = new Set([...gradients.values(), total, loss, ...updatesOf(batch), ...before]);
    const finals = [...gradients].filter(([leaf]) => leaf.sink !== null);
    const known = new Set(this.#settings.model.parameters().map(({ part }) => memoryOf(part.node)));
    for (const [leaf] of finals) {
      // A node that a strategy puts in the place of a parameter passes the gradient on.
      if (leaf.op !== 'detach' && !known.has(memoryOf(leaf))) throw unknownLeafError(leaf);
      leaf.sink?.expect?.(shares[0] ?? null);
    }
    const unfilled = [loss, ...gradients.values()];
    const first = mark === null ? null : { mark, sums: new Set([...work.sums, ...shares]) };
    const early = (items: readonly WorkItem[]): EarlyWork =>
      earlyWork(items, batch, shared, this.#settings);
    this.#begin(drafts, kept, batch, unfilled, first, early, async (fault) => {
      if (lossRank === rank) loss.value = { kind: 'host', bytes: await bytesOf(total) };
      await this.#reportLoss(loss, lossStage, fault);
    });
    return finals;
  }

  #evaluate(batch: SharingBatch, mark: Mark | null): unknown {
    const { schedule, place, axis, group, activationDtype } = this.#settings;
    const { microbatches, shared } = batch;
    const forwards = evaluationOf(schedule, microbatches.length);
    const { drafts: own, results } = evaluationWork(batch, forwards, place, activationDtype);
    const before = updatesBefore(batch);
    const parameters = sendParameters(shared, place.rank, before);
    const drafts = [...parameters, ...own];
    const kept = new Set<Node>([...updatesOf(batch), ...before]);
    const unfilled: Node[] = [];
    for (const [index, { node, stage, parts }] of results.entries()) {
      if (stage === null) continue;
      kept.add(node);
      if (isGradEnabled()) refuseBackward(node);
      const rank = place.rankOfStage[stage] ?? 0;
      const isHere = rank === place.rank;
      if (isHere) unfilled.push(node);
      if (node.shape.length === 0) {
        if (!isHere) unfilled.push(node);
        this.#sendResult({ node, replica: node, stage: rank, index }, drafts, parts);
        continue;
      }
      if (isHere) lastWith(drafts, parts).computes.add(node);
      else node.value = outputOnOtherRank(node, axis, rank);
      setHolder(node, { group, rank });
    }
    this.#sendBuffers(batch, drafts);
    const first = mark === null ? null : { mark, sums: null };
    this.#begin(drafts, kept, batch, unfilled, first, null, async () => {});
    const tensors = results.map(({ node }) => new Tensor(node));
    return mapTensors(batch.output, () => {
      const next = tensors.shift();
      if (next === undefined) throw new RangeError('fewer results than tensors in the output');
      return next;
    });
  }

  /** Makes the rank that computes a scalar send it to the others as soon as its parts are there. */
  #sendResult(
    result: { node: Node; replica: Node; stage: number; index: number },
    drafts: WorkDraft[],
    parts: readonly Node[],
  ): void {
    const { place } = this.#settings;
    const { node, replica, stage: root, index } = result;
    const tag = tagOf('result', index);
    if (place.rank !== root) {
      const item = draft('result');
      item.receives.push({ node: replica, peer: root, tag });
      drafts.push(item);
      return;
    }
    const item = lastWith(drafts, parts);
    item.computes.add(node);
    for (let peer = 0; peer < this.#settings.group.size; peer++) {
      if (peer !== root) item.sends.push({ node, peer, tag });
    }
  }

  /** Makes the ranks whose stages update buffers send them to the others at the end of the pass. */
  #sendBuffers({ updated }: BuiltBatch, drafts: WorkDraft[]): void {
    const { place, group } = this.#settings;
    const [send, receive] = [draft('send buffers'), draft('receive buffers')];
    for (const [index, [leaf, stage]] of [...updated].entries()) {
      const root = place.rankOfStage[stage] ?? 0;
      const tag = tagOf('buffer', index);
      if (place.rank !== root) {
        receive.receives.push({ node: leaf, peer: root, tag });
        continue;
      }
      for (let peer = 0; peer < group.size; peer++) {
        if (peer !== root) send.sends.push({ node: leaf, peer, tag });
      }
    }
    drafts.push(send, receive);
  }

  #begin(
    drafts: readonly WorkDraft[],
    kept: ReadonlySet<Node>,
    { microbatches, updated }: BuiltBatch,
    unfilled: readonly Node[],
    first: FirstPass | null,
    early: ((items: readonly WorkItem[]) => EarlyWork) | null,
    finish: (fault: FirstFault) => Promise<void>,
  ): void {
    const { group } = this.#settings;
    const session = currentSession();
    const collected = keepCollected(drafts);
    const items = withFrees(drafts, new Set([...kept, ...updated.keys()]));
    // Nodes that the pass frees are marked as owned. Otherwise the garbage collector would be asked to look for them
    // after almost every item.
    for (const { frees } of items) for (const node of frees) node.hasOwner = true;
    const work = async (compute: Compute): Promise<void> => {
      try {
        if (first !== null) await this.#beginFirst(first, items, collected);
        const fault = new FirstFault();
        const settle = early === null ? null : session.takeDeferred();
        const ahead = early === null || settle === null ? null : { work: early(items), settle };
        await runWork(items, group, compute, fault, ahead);
        await finish(fault);
      } catch (error) {
        for (const node of unfilled) {
          if (node.value === null || node.value.kind === 'failed')
            node.value = { kind: 'failed', error };
        }
        throw error;
      } finally {
        for (const { updates } of microbatches) {
          for (const [node, { outcome }] of updates) {
            if (node.value === null) outcome.dropped?.();
            else outcome.settled?.();
          }
        }
      }
    };
    session.enqueue(work, { runsDeferred: early !== null });
  }

  async #beginFirst(
    { mark, sums }: FirstPass,
    items: readonly WorkItem[],
    collected: ReadonlySet<Node>,
  ): Promise<void> {
    const { group } = this.#settings;
    await requireSamePass(mark, group);
    if (sums !== null && this.liveBytes === null)
      this.liveBytes = await ofAllRanks(
        Math.max(0, ...keptBytes(items, sums.union(collected))),
        group,
      );
  }

  /**
   * Reports the first stage with a bad value if the loss is not finite. It does so once, until a loss is finite again.
   * In that case it is a collective.
   */
  async #reportLoss({ value }: Node, lossStage: number, fault: FirstFault): Promise<void> {
    const { group, marks, place, axis } = this.#settings;
    const [loss = 0] = value?.kind === 'host' ? new Float32Array(value.bytes.slice().buffer) : [];
    const wasFinite = this.#lossWasFinite;
    this.#lossWasFinite = Number.isFinite(loss);
    if (this.#lossWasFinite || !wasFinite) return;
    const found = await fault.ofAll(group);
    if (group.rank !== 0) return;
    const stage = found?.stage ?? lossStage;
    const path = marks.beginningOf(stage);
    const what = found === null ? 'the loss' : `its output for microbatch ${found.microbatch}`;
    const begins = path === null ? '' : `, which begins at '${path}'`;
    console.warn(
      `shardwise: the loss of a pipeline is ${loss}: the first value that is not finite is of stage ${stage} on rank ${place.rankOfStage[stage]} of '${axis}'${begins} (${what}). Look at the parameters and inputs of this stage`,
    );
  }

  /** Has layers that ranks share read nodes of this pass, because the pass before frees what it has read. */
  #forgetSeen(): void {
    for (const { placement } of this.#settings.model.parameters()) {
      if (placement instanceof StandInPlacement) placement.layer?.forgetSeen();
    }
  }

  #parameters(): ParameterPlaces {
    const { model, owners } = this.#settings;
    return new Map(
      model.parameters().flatMap((parameter, index) => {
        const { placement } = parameter;
        if (!(placement instanceof StandInPlacement)) return [];
        const placed = { reader: placement.reader, owner: owners[index] ?? 0, index };
        return placement.leaves.map((leaf) => [leaf, placed] as const);
      }),
    );
  }

  /** Throws ConfigError if a rank would read a buffer that another rank updates in this pass. */
  #requireFresh({ microbatches, updated }: BuiltBatch): void {
    const { rankOfStage } = this.#settings.place;
    for (const { graph } of microbatches) {
      for (const [leaf, stages] of graph.reads) {
        const writer = updated.get(leaf);
        const reader = stages
          .keys()
          .find((stage) => rankOfStage[stage] !== rankOfStage[writer ?? stage]);
        if (writer !== undefined && reader !== undefined)
          throw staleBufferError(leaf, writer, reader);
      }
    }
  }
}

/**
 * Returns assignments to parameters and buffers that the program made before the pass and that have not been computed
 * yet.
 */
function updatesBefore({ microbatches }: BuiltBatch): Node[] {
  const read = new Set(microbatches.flatMap(({ graph }) => [...graph.reads.keys()]));
  for (const { updates } of microbatches) for (const own of updates.keys()) read.delete(own);
  return [...read].filter(({ op, value }) => op === 'assign' && value === null);
}

function updatesOf({ microbatches }: BuiltBatch): Node[] {
  return microbatches.flatMap(({ updates }) => [...updates.keys()]);
}

/** Returns the leaf with the memory of a parameter, whose update may have been computed since the forward pass. */
function memoryOf(node: Node): Node {
  return node.op === 'assign' ? targetOf(node) : node;
}

/** Returns the last draft that computes one of the parts. */
function lastWith(drafts: WorkDraft[], parts: readonly Node[]): WorkDraft {
  const found = drafts.findLast(({ computes }) => parts.some((part) => computes.has(part)));
  if (found !== undefined) return found;
  const item = draft('result');
  drafts.push(item);
  return item;
}
