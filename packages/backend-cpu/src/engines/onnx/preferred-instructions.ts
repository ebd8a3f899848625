import type { ValueType } from '@shardwise/core/spec';
import type { Dataflow } from '../../program/dataflow.ts';
import { elementCount, valueAt, type Step } from '../../program/instruction.ts';
import { isFusable } from '../../kernels/handles.ts';
import { onnxComputes } from '../../emit/onnx/lower/lowerings.ts';
import { isNarrowProduct } from '../../program/product-instructions.ts';
import type { StepKind } from '../../program/partition.ts';
import { isNarrowing } from '../../program/half-casts.ts';

/**
 * Returns the kinds of the steps, in program order. More steps become 'onnx': those that ONNX Runtime computes better,
 * and those between steps that it computes anyway.
 */
export function withPreferredSteps(
  own: ReadonlyMap<Step, StepKind>,
  values: readonly ValueType[],
  flow: Dataflow,
): ReadonlyMap<Step, StepKind> {
  const kinds = new Map(own);
  const nextReader = new Map<number, Step>();
  for (const step of [...kinds.keys()].toReversed()) {
    const reader = nextReader.get(step.output);
    const isBeforeOnnx = reader !== undefined && kinds.get(reader) === 'onnx';
    const isFree = kinds.get(step) === 'kernel' && onnxComputes(step, inputsOf(step));
    const gains = isBeforeOnnx ? isFree && gainsFromOnnx(step) : narrowsProduct(step, reader);
    if (gains) kinds.set(step, 'onnx');
    if (gains && reader === undefined) makersOf(step).forEach((maker) => kinds.set(maker, 'onnx'));
    for (const source of flow.sources(step)) nextReader.set(source, step);
  }
  return kinds;

  /**
   * Whether a step rounds the result of f32 products to 16 bits, and nothing reads it, as with gradients. The session
   * that also runs the products frees their f32 values when it is done.
   */
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
   * Whether a step before an ONNX step should be one too. ONNX Runtime's softmax has wider vectors. An elementwise step
   * between products has no other step to share a loop with, and as a kernel it would change the kind of piece twice.
   */
  function gainsFromOnnx(step: Step): boolean {
    if (step.op === 'softmax') return true;
    if (!isFusable(step, inputsOf(step)) || isWorseInOnnx(step)) return false;
    const sources = [...flow.sources(step)].filter((id) => sizeOf(id) === elementCount(step.shape));
    const makers = sources.flatMap((id) => flow.producer(id) ?? []);
    return makers.length > 0 && makers.every((maker) => kinds.get(maker) === 'onnx');
  }

  function inputsOf(step: Step): ValueType[] {
    return step.inputs.map((id) => valueAt(values, id));
  }

  function sizeOf(id: number): number {
    return elementCount(valueAt(values, id).shape);
  }
}

/**
 * Whether the kernels compute a step better than ONNX Runtime. Its tanh, which gelu's approximation uses, has fewer
 * correct digits. Its sigmoid would be four nodes.
 */
function isWorseInOnnx(step: Step): boolean {
  if (step.op === 'gelu') return step.params.approximate === 'tanh';
  return step.op === 'sigmoid' || step.op === 'tanh';
}
