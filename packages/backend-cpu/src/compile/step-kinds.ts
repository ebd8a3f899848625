import type { ValueType } from '@shardwise/core/spec';
import type { Dataflow } from './dataflow.ts';
import { isNarrowProduct } from './narrow-products.ts';
import type { KernelSupport } from './kernel-support.ts';
import type { PieceKind } from './schedule.ts';
import { isKernelOnly, isNarrowing } from './widening.ts';
import { elementCount, valueAt, type Step } from './step.ts';

/** A pass over fewer elements costs less than one more piece. */
const smallElements = 4096;

export type StepKind = PieceKind | 'either';

/** Where each of `steps`, which are in program order, had best run. */
export function stepKinds(
  steps: readonly Step[],
  values: readonly ValueType[],
  flow: Dataflow,
  support: KernelSupport,
): ReadonlyMap<Step, StepKind> {
  const kinds = new Map(steps.map((step) => [step, ownKind(step, values, flow, support)]));
  if (support.rest.kind === 'plain') return kinds;
  const nextReader = new Map<number, Step>();
  for (const step of steps.toReversed()) {
    const reader = nextReader.get(step.output);
    const isBeforeOnnx = reader !== undefined && kinds.get(reader) === 'onnx';
    const isFree = kinds.get(step) === 'kernel' && isChoice(step, values, support);
    const gains = isBeforeOnnx ? isFree && gainsFromOnnx(step) : narrowsProduct(step, reader);
    if (gains) kinds.set(step, 'onnx');
    if (gains && reader === undefined) makersOf(step).forEach((maker) => kinds.set(maker, 'onnx'));
    for (const source of flow.sources(step)) nextReader.set(source, step);
  }
  return kinds;

  /** A gradient of 16 bits: its f32 values are gone when the session is done. */
  function narrowsProduct(step: Step, reader: Step | undefined): boolean {
    if (reader !== undefined || !isNarrowing(step, values)) return false;
    const makers = makersOf(step);
    const isWide = (maker: Step): boolean =>
      maker.op === 'matmul' && !isNarrowProduct(maker, values);
    return makers.length > 0 && makers.every(isWide);
  }

  function makersOf(step: Step): Step[] {
    return [...flow.sources(step)].flatMap((id) => flow.producer(id) ?? []);
  }

  /**
   * ONNX Runtime's softmax has wider vectors. An elementwise step between products has nothing to
   * share a loop with, and saves two changes of kind.
   */
  function gainsFromOnnx(step: Step): boolean {
    if (step.op === 'softmax') return true;
    if (!support.fuses(step, values) || isWorseInOnnx(step)) return false;
    const sources = [...flow.sources(step)].filter((id) => sizeOf(id) === elementCount(step.shape));
    const makers = sources.flatMap((id) => flow.producer(id) ?? []);
    return makers.length > 0 && makers.every((maker) => kinds.get(maker) === 'onnx');
  }

  function sizeOf(id: number): number {
    return elementCount(valueAt(values, id).shape);
  }
}

/**
 * Whether the kernels compute a step better than ONNX Runtime: its tanh, which gelu's approximation uses, has
 * fewer correct digits, and a sigmoid is four nodes there.
 */
function isWorseInOnnx(step: Step): boolean {
  if (step.op === 'gelu') return step.params.approximate === 'tanh';
  return step.op === 'sigmoid' || step.op === 'tanh';
}

function ownKind(
  step: Step,
  values: readonly ValueType[],
  flow: Dataflow,
  support: KernelSupport,
): StepKind {
  if (support.multiplies(step, values, flow)) return 'product';
  if (!support.computes(step, values)) return support.rest.kind;
  if (!isChoice(step, values, support) || isKernelOnly(step, values)) return 'kernel';
  const sizes = [step, ...step.inputs.map((id) => valueAt(values, id))].map(({ shape }) =>
    elementCount(shape),
  );
  return Math.max(...sizes) <= smallElements ? 'either' : 'kernel';
}

function isChoice(step: Step, values: readonly ValueType[], { rest }: KernelSupport): boolean {
  return rest.isChoice(
    step,
    step.inputs.map((id) => valueAt(values, id)),
  );
}
