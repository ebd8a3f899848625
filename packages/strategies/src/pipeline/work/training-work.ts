import { addParts, type HalfDType, type Node, noGrad } from '@shardwise/core/extend';
import type { ComputeAction } from '../../pipeline-schedule/actions/action.ts';
import { computationsOf, type Schedule } from '../../pipeline-schedule/actions/schedule.ts';
import { tagOf } from '../messages/message.ts';
import type { Microbatch, PipelinePlace } from '../microbatches/microbatch.ts';
import { forwardDraft, numberedCrossings } from './forward-drafts.ts';
import { draft, type WorkDraft } from './rank-work.ts';
import { below } from './saved-values.ts';
import { type StageGradients, stageGradients } from './stage-gradients.ts';

export interface TrainingWork {
  readonly drafts: readonly WorkDraft[];
  /** The sums of gradients over this rank's microbatches and stages, by leaf, in the order of backward. */
  readonly gradients: ReadonlyMap<Node, Node>;
  /** The final sums, and the intermediate ones of fewer microbatches, which become the final ones in place. */
  readonly sums: ReadonlySet<Node>;
}

/**
 * Returns the work of a rank in a training step, action by action of its schedule. The programs follow from
 * dependencies: the input gradients of a stage are the gradients of the values that it takes, and everything that only
 * the gradients of its parameters need is left to the weight gradients. A value that one program makes and a later one
 * reads is kept in between.
 */
export function trainingWork(
  microbatches: readonly Microbatch[],
  lossGradient: Node,
  schedule: Schedule,
  place: PipelinePlace,
  activationDtype: HalfDType | null,
): TrainingWork {
  const crossings = numberedCrossings(microbatches, activationDtype);
  const passes = microbatches.map((microbatch, index) =>
    stageGradients(microbatch, crossings[index] ?? [], lossGradient, place),
  );
  const gradients = new Map<Node, Node>();
  const sums = new Set<Node>();
  const forwards = new Map<string, WorkDraft>();
  const splits = new Map<string, Backward>();
  const drafts: WorkDraft[] = [];
  // The nodes that some draft makes. Other programs take them from there.
  const made = new Set<Node>();
  const add = (item: WorkDraft): WorkDraft => {
    for (const node of item.computes) made.add(node);
    for (const { node } of item.receives) made.add(node);
    drafts.push(item);
    return item;
  };
  const actions = (schedule.actions[place.rank] ?? []).flatMap(computationsOf);
  for (const { kind, stage, microbatch } of actions) {
    const own = microbatches[microbatch];
    const pass = passes[microbatch]?.get(stage);
    if (own === undefined || pass === undefined) continue;
    const key = `${stage} ${microbatch}`;
    if (kind === 'forward') {
      const item = forwardDraft(stage, crossings[microbatch] ?? [], own, microbatch, place);
      if (own.loss !== null && own.graph.stageOf(own.loss) === stage) item.computes.add(own.loss);
      forwards.set(key, add(item));
      continue;
    }
    const item = draft(`${stage}${letterOf[kind]}${microbatch}`);
    if (kind !== 'weightGradient') addInputGradients(item, pass, place);
    if (kind !== 'inputGradient') addWeightGradients(item, pass, gradients, sums);
    const backward: Backward = { item, before: splits.get(key) ?? null, computed: new Set() };
    const forward = forwards.get(key);
    if (forward !== undefined) keepForBackward(backward, forward, own, made);
    if (kind === 'inputGradient') splits.set(key, backward);
    add(item);
  }
  return { drafts, gradients, sums };
}

const letterOf = {
  forward: 'F',
  backward: 'B',
  inputGradient: 'I',
  weightGradient: 'W',
} as const satisfies Record<ComputeAction['kind'], string>;

interface Backward {
  readonly item: WorkDraft;
  /** The input gradients of the same stage and microbatch, if this is the weight-gradient action that follows them. */
  readonly before: Backward | null;
  /** The nodes that the action's program computes. */
  readonly computed: Set<Node>;
}

/** Makes the earlier programs keep the values that a backward program reads. */
function keepForBackward(
  { item, before, computed }: Backward,
  forward: WorkDraft,
  { graph }: Microbatch,
  made: ReadonlySet<Node>,
): void {
  const isReady = (node: Node): boolean => made.has(node);
  const isOfForward = (node: Node): boolean => graph.stageOf(node) !== null;
  const isEarlier = (node: Node): boolean =>
    isOfForward(node) || before?.computed.has(node) === true;
  const found = below(item.computes, isReady, isEarlier);
  for (const node of found.computed) computed.add(node);
  for (const node of found.taken) {
    if (made.has(node)) continue;
    if (isOfForward(node)) forward.computes.add(node);
    else before?.item.computes.add(node);
  }
}

function addInputGradients(
  item: WorkDraft,
  { inputs, received }: StageGradients,
  { rank, rankOfStage }: PipelinePlace,
): void {
  for (const [{ to, number, sentAs }, node] of received) {
    const peer = rankOfStage[to] ?? 0;
    item.receives.push({ node, peer, tag: tagOf('gradient', number), sentAs });
  }
  for (const [{ from, number, sentAs }, node] of inputs) {
    item.computes.add(node);
    const peer = rankOfStage[from] ?? 0;
    if (peer !== rank) item.sends.push({ node, peer, tag: tagOf('gradient', number), sentAs });
  }
}

/** Adds the gradients of the leaves to the sums of earlier programs. */
function addWeightGradients(
  item: WorkDraft,
  { leaves }: StageGradients,
  gradients: Map<Node, Node>,
  sums: Set<Node>,
): void {
  for (const [leaf, gradient] of leaves) {
    const sum = gradients.get(leaf);
    const next = sum === undefined ? gradient : noGrad(() => addParts(sum, gradient));
    gradients.set(leaf, next);
    sums.add(next);
    item.computes.add(next);
  }
}
