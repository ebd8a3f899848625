import {
  addNodes,
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
import { setHolder } from '../messages/on-every-rank.ts';
import {
  buildMicrobatches,
  type BuiltBatch,
  type Run,
} from '../microbatches/build-microbatches.ts';
import type { LossMessage } from '../microbatches/loss-messages.ts';
import { passInputs } from '../microbatches/pass-inputs.ts';
import type { PassSettings } from '../microbatches/pass-settings.ts';
import { beginPass, type BuiltPass } from './begin-pass.ts';
import {
  backwardTwiceError,
  lossNotComputed,
  outputOnOtherRank,
  refuseBackward,
  staleBufferError,
  unknownLeafError,
} from './pass-errors.ts';
import { LossReport } from './loss-report.ts';
import { lastWith, sendBuffers, sendScalar } from './result-messages.ts';
import { passMark, requireSamePass } from './same-pass.ts';
import { earlyWork } from '../work/early-work.ts';
import { evaluationWork } from '../work/evaluation-work.ts';
import { numberedCrossings } from '../work/forward-drafts.ts';
import { keptBytes, ofAllRanks } from '../work/kept-bytes.ts';
import { edgesOf, type PassMessage, passMessages } from '../work/pass-messages.ts';
import {
  sendParameters,
  type ParameterPlaces,
  returnGradients,
  type SharedParameter,
  sharedParameters,
} from '../work/shared-parameters.ts';
import { trainingWork } from '../work/training-work.ts';

type Mark = ReturnType<typeof passMark>;

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
  readonly #lossReport: LossReport;

  constructor(settings: PassSettings) {
    this.#settings = settings;
    this.#lossReport = new LossReport(settings);
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
    const result = { node: total, replica: loss, root: lossRank, index: 0, parts: shares };
    sendScalar(drafts, result, this.#settings);
    sendBuffers(drafts, batch, this.#settings);
    const kept = new Set([...gradients.values(), total, loss, ...updatesOf(batch), ...before]);
    const finals = [...gradients].filter(([leaf]) => leaf.sink !== null);
    const known = new Set(this.#settings.model.parameters().map(({ part }) => memoryOf(part.node)));
    for (const [leaf] of finals) {
      // A node that a strategy puts in the place of a parameter passes the gradient on.
      if (leaf.op !== 'detach' && !known.has(memoryOf(leaf))) throw unknownLeafError(leaf);
      leaf.sink?.expect?.(shares[0] ?? null);
    }
    const unfilled = [loss, ...gradients.values()];
    const pass: BuiltPass = {
      batch,
      drafts,
      kept,
      unfilled,
      ...this.#comparison(mark, new Set([...work.sums, ...shares])),
      early: (items) => earlyWork(items, batch, shared, this.#settings),
      finish: async (fault) => {
        if (lossRank === rank) loss.value = { kind: 'host', bytes: await bytesOf(total) };
        await this.#lossReport.report(loss, lossStage, fault);
      },
    };
    beginPass(pass, group);
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
        sendScalar(drafts, { node, replica: node, root: rank, index, parts }, this.#settings);
        continue;
      }
      if (isHere) lastWith(drafts, parts).computes.add(node);
      else node.value = outputOnOtherRank(node, axis, rank);
      setHolder(node, { group, rank });
    }
    sendBuffers(drafts, batch, this.#settings);
    beginPass({ batch, drafts, kept, unfilled, ...this.#comparison(mark, null) }, group);
    const tensors = results.map(({ node }) => new Tensor(node));
    return mapTensors(batch.output, () => {
      const next = tensors.shift();
      if (next === undefined) throw new RangeError('fewer results than tensors in the output');
      return next;
    });
  }

  /**
   * Returns what the first pass of a kind does before its work: it compares the batches of the ranks, and counts the
   * activations of the first training pass. `sums`: the nodes that are kept beside activations. Null in evaluation.
   */
  #comparison(mark: Mark | null, sums: ReadonlySet<Node> | null): Pick<BuiltPass, 'compare'> {
    if (mark === null) return {};
    const { group } = this.#settings;
    return {
      compare: async (items, collected) => {
        await requireSamePass(mark, group);
        if (sums === null || this.liveBytes !== null) return;
        const bytes = Math.max(0, ...keptBytes(items, sums.union(collected)));
        this.liveBytes = await ofAllRanks(bytes, group);
      },
    };
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
