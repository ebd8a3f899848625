import type { Shape, ValueType } from '@shardwise/core/spec';
import type { Dataflow } from '../../program/dataflow.ts';
import { inputAt, sameShape, type CpuInstruction, valueAt } from '../../program/instruction.ts';
import type { Packing } from '../../program/work/product-kinds.ts';
import { isNarrowing } from '../../program/half-casts.ts';

/** How the elements of a value lie in a value in memory. */
export interface View {
  /** The value in memory. */
  readonly root: number;
  readonly shape: Shape;
  /** The stride of each dim, in elements. It is 0 if one element stands for all elements of the dim. */
  readonly strides: readonly number[];
}

/**
 * Returns how a value lies in memory. It looks through reshapes, expands and the casts that packing makes. Returns
 * undefined if the value must be computed first.
 */
export function viewOf(id: number, values: readonly ValueType[], flow: Dataflow): View | undefined {
  const lazy = flow.lazy(id);
  const { shape } = valueAt(values, id);
  if (lazy === undefined) return wholeView(id, shape);
  const isRounded = isNarrowing(lazy, values);
  if (lazy.op !== 'reshape' && lazy.op !== 'expand' && !isRounded) return undefined;
  const inner = viewOf(inputAt(lazy, 0), values, flow);
  if (inner === undefined || isRounded) return inner;
  return lazy.op === 'expand' ? expanded(inner, lazy) : reshaped(inner, shape);
}

/** How products pack a value that lies in memory as its view says. */
export function packingOf(id: number, { root }: View, values: readonly ValueType[]): Packing {
  const [stored, read] = [root, id].map((of) => valueAt(values, of).dtype);
  return read !== 'bf16' ? 'f32' : stored === 'f32' ? 'f32 as bf16' : 'bf16';
}

function wholeView(root: number, shape: Shape): View {
  const strides = shape.map((_, dim) =>
    shape.slice(dim + 1).reduce((product, size) => product * size, 1),
  );
  return { root, shape, strides };
}

function expanded({ root, shape, strides }: View, { shape: larger }: CpuInstruction): View {
  return {
    root,
    shape: larger,
    strides: strides.map((stride, dim) => (shape[dim] === larger[dim] ? stride : 0)),
  };
}

/**
 * Reshapes a view. A view with gaps or repeated elements may only gain and lose dims of size 1; others return
 * undefined.
 */
function reshaped(view: View, shape: Shape): View | undefined {
  const whole = wholeView(view.root, view.shape);
  const isWhole = view.strides.every(
    (stride, dim) => view.shape[dim] === 1 || stride === whole.strides[dim],
  );
  if (isWhole) return wholeView(view.root, shape);
  const kept = [...view.shape.keys()].filter((dim) => view.shape[dim] !== 1);
  const sizes = kept.map((dim) => view.shape[dim] ?? 0);
  if (
    !sameShape(
      sizes,
      shape.filter((size) => size !== 1),
    )
  ) {
    return undefined;
  }
  const strides = kept.map((dim) => view.strides[dim] ?? 0);
  let next = 0;
  return {
    root: view.root,
    shape,
    strides: shape.map((size) => (size === 1 ? 0 : (strides[next++] ?? 0))),
  };
}
