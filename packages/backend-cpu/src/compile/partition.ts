import type { ValueType } from '@shardwise/core/spec';
import { isOnnxOp } from '../onnx/lower/lowerings.ts';
import type { Dataflow } from './dataflow.ts';
import type { KernelSupport } from './kernel-support.ts';
import { schedule, type Piece, type PieceKind } from './schedule.ts';
import { elementCount, type Segment, type Step } from './step.ts';

/** Below this a pass over memory costs less than one more piece. */
const smallElements = 4096;

function kindOf(
  step: Step,
  values: readonly ValueType[],
  support: KernelSupport,
): PieceKind | 'either' {
  if (!support.computes(step, values)) return 'onnx';
  if (!isOnnxOp(step.op)) return 'kernel';
  return elementCount(step.shape) <= smallElements ? 'either' : 'kernel';
}

/**
 * Few pieces that alternate between ONNX sessions and kernels. What only feeds updates comes last, when nobody else reads
 * the old contents any more, so that kernels may write in place.
 */
export function partition(segment: Segment, flow: Dataflow, support: KernelSupport): Piece[] {
  const steps = segment.steps.filter((step) => flow.lazy(step.output) === undefined);
  const last = updateCone(segment, steps, flow, support);
  const pieces = schedule(
    steps.filter((step) => !last.has(step)),
    flow,
    (step) => kindOf(step, segment.values, support),
  );
  if (last.size === 0) return pieces;
  return [...pieces, { kind: 'kernel', steps: steps.filter((step) => last.has(step)) }];
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
