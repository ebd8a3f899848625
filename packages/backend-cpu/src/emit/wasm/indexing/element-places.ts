import type { Shape } from '@shardwise/core/spec';
import { type Code, type FunctionBuilder, i32, type Local, usize } from '@shardwise/wasm-assembler';

type Address = Local<'usize'>;

const INDEX_BYTES = 4;

/** How a kernel visits the indices of a gather or scatter. Kernels with the same number of loops have the same code. */
export interface ElementPlaces {
  readonly loops: number;
  /** For each loop, its count and x's step in bytes. Then the size of x's indexed dim, and its step in bytes. */
  readonly sizes: readonly number[];
}

interface Loop {
  readonly count: number;
  readonly step: number;
}

/**
 * Plans the loops. `index` is not larger than `x` in any dim but `dim`. Dims that continue each other in x become one
 * loop.
 */
export function elementPlaces(
  x: Shape,
  index: Shape,
  dim: number,
  elementBytes: number,
): ElementPlaces {
  const steps = x.map((_, d) =>
    x.slice(d + 1).reduce((product, size) => product * size, elementBytes),
  );
  const loops: Loop[] = [];
  index.forEach((count, d) => {
    if (count === 1) return;
    const next = { count, step: d === dim ? 0 : (steps[d] ?? 0) };
    const outer = loops.at(-1);
    const continues = outer !== undefined && next.step > 0 && outer.step === next.step * count;
    if (continues) loops.splice(-1, 1, { count: outer.count * count, step: next.step });
    else loops.push(next);
  });
  const sizes = loops.flatMap(({ count, step }) => [count, step]);
  return { loops: loops.length, sizes: [...sizes, x[dim] ?? 0, steps[dim] ?? 0] };
}

/**
 * Writes loops that run `body` for each index, in order. `body` gets the place that the index leads to, in the value
 * that begins at `base`, and the number of the index. The function returns the number of the first index that is out of
 * range, or -1. Its parameters are ElementPlaces.sizes, then addresses.
 */
export function eachElementPlace(...parts: Parameters<typeof visitElementPlaces>): void {
  visitElementPlaces(...parts);
  const [fn] = parts;
  fn.return(usize.const(-1));
}

/** Writes the same loops, behind which the function goes on if all indices are in range. */
export function visitElementPlaces(
  fn: FunctionBuilder,
  loops: number,
  indices: Address,
  base: Address,
  body: (place: Code<'usize'>, element: Address) => void,
): void {
  const limit = fn.parameter(2 * loops);
  const step = fn.parameter(2 * loops + 1);
  const element = fn.let(usize.const(0));
  const nest = (depth: number, from: Address): void => {
    if (depth === loops) {
      const at = usize.add(indices, usize.mul(element, usize.const(INDEX_BYTES)));
      const index = fn.let(usize.fromI32(i32.load(at)));
      fn.if(usize.geU(index, limit), () => fn.return(element));
      body(usize.add(from, usize.mul(index, step)), element);
      fn.set(element, usize.add(element, usize.const(1)));
      return;
    }
    const inner = fn.let(from);
    const count = fn.let(usize.const(0));
    fn.forSteps(count, 1, fn.parameter(2 * depth), () => {
      nest(depth + 1, inner);
      fn.set(inner, usize.add(inner, fn.parameter(2 * depth + 1)));
    });
  };
  nest(0, base);
}
