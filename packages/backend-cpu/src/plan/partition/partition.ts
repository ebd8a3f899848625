import type { Dataflow } from '../../program/dataflow.ts';
import type { KernelSupport } from './kernel-support.ts';
import { schedule } from './schedule.ts';
import { elementCount, type Segment, type Step, valueAt } from '../../program/instruction.ts';
import { stepKinds } from './instruction-kinds.ts';
import type { Piece } from '../../program/partition.ts';

/**
 * Cuts a segment into few pieces. Each product of ours and each loop in JavaScript is a piece of its own, so that its
 * memory is free again as soon as the pieces that read it have run. Steps that only feed updates come last, when
 * nothing else reads the old contents any more, so that kernels may write in place.
 */
export function cutPieces(segment: Segment, flow: Dataflow, support: KernelSupport): Piece[] {
  const steps = segment.steps.filter((step) => flow.lazy(step.output) === undefined);
  const last = updateCone(segment, steps, flow, support);
  const kinds = stepKinds(steps, segment.values, flow, support);
  const pieces = schedule(
    steps.filter((step) => !last.has(step)),
    flow,
    (step) => kinds.get(step) ?? 'either',
  ).flatMap((piece, index, all) =>
    isAlone(piece)
      ? support
          .piecesOf(beforeLoops(piece.steps, all[index + 1], segment, flow, support))
          .map((own) => ({ ...piece, steps: own }))
      : [piece],
  );
  if (last.size === 0) return pieces;
  return [...pieces, { kind: 'kernel', steps: steps.filter((step) => last.has(step)) }];
}

const isAlone = ({ kind }: Piece): boolean => kind === 'product' || kind === 'plain';

/**
 * Moves the product that the next piece's loops read first to the end of consecutive products, so that the loops become
 * its epilogue. In a layer's backward pass, the gradient of the input therefore comes behind the gradient of the
 * weights.
 */
function beforeLoops(
  steps: readonly Step[],
  next: Piece | undefined,
  { values }: Segment,
  flow: Dataflow,
  support: KernelSupport,
): readonly Step[] {
  const loop = next?.kind === 'kernel' ? next.steps : [];
  const readFirst = loop
    .filter((step) => support.fuses(step, values))
    .flatMap((step) =>
      [...flow.sources(step)].filter(
        (id) => elementCount(valueAt(values, id).shape) === elementCount(step.shape),
      ),
    )
    .flatMap((id) => steps.filter(({ op, output }) => op === 'matmul' && output === id));
  const [last] = readFirst;
  if (last === undefined) return steps;
  const isRead = steps.some((step) => flow.sources(step).has(last.output));
  return isRead ? steps : [...steps.filter((step) => step !== last), last];
}

/** Elementwise steps whose results end in updates and nowhere else. */
function updateCone(
  segment: Segment,
  steps: readonly Step[],
  flow: Dataflow,
  support: KernelSupport,
): ReadonlySet<Step> {
  const updateValues = new Set(segment.updates.map(({ value }) => value));
  const readElsewhere = new Set<number>();
  const outputRoots = segment.outputs.map((id) => flow.root(id));
  for (const id of outputRoots)
    if (id !== undefined && !updateValues.has(id)) readElsewhere.add(id);
  const cone = new Set<Step>();
  const feeds = new Set(updateValues);
  for (const step of steps.toReversed()) {
    const id = step.output;
    const belongs = feeds.has(id) && !readElsewhere.has(id) && support.fuses(step, segment.values);
    if (belongs) cone.add(step);
    for (const source of flow.sources(step)) (belongs ? feeds : readElsewhere).add(source);
  }
  return cone;
}
