import { fromData, type nn, type Tensor } from '@shardwise/core';

/** FNV-1a of a text. */
function hashOf(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  }
  return value;
}

/** Numbers in [-0.5, 0.5) that depend on the name and the place, as those of tools/golden-models.py. */
export function uniform(name: string, count: number): Float32Array<ArrayBuffer> {
  const seed = hashOf(name);
  return Float32Array.from({ length: count }, (_, i) => {
    let x = (Math.imul(i, 0x9e3779b9) + seed) >>> 0;
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d) >>> 0;
    x = Math.imul(x ^ (x >>> 15), 0x846ca68b) >>> 0;
    return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32 - 0.5;
  });
}

/** Tokens of a vocabulary of this size. Shape: i32 -> shape. */
export function tokens(name: string, shape: readonly [number, number], vocabulary = 48): Tensor {
  const ids = Int32Array.from(uniform(name, shape[0] * shape[1]), (value) => {
    return Math.floor((value + 0.5) * vocabulary) % vocabulary;
  });
  return fromData(ids, [...shape], 'i32');
}

/** Gives all parameters the values that they have in tools/golden-models.py. */
export async function fill(model: nn.Module): Promise<void> {
  for (const [name, parameter] of model.namedParameters()) {
    const values = uniform(name, parameter.numel);
    const before = parameter.ndim > 1 ? undefined : await parameter.data();
    const own = values.map((value, i) =>
      before === undefined ? value * 0.4 : Number(before[i]) + Math.fround(value * 0.2),
    );
    parameter.assign(fromData(own, parameter.shape, 'f32'));
  }
}

/** The norm of a tensor, and its product with numbers that depend on the place. */
export function summary(
  name: string,
  values: ArrayLike<number | bigint>,
): readonly [number, number] {
  const weights = uniform(`sum ${name}`, values.length);
  let squares = 0;
  let product = 0;
  for (let i = 0; i < values.length; i++) {
    const value = Number(values[i]);
    squares += value ** 2;
    product += value * (weights[i] ?? 0);
  }
  return [Math.sqrt(squares), product];
}
