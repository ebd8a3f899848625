import { elementCount, noGrad, type Shape, type Tensor } from '@shardwise/core/extend';

/**
 * How a parameter is cut into parts of one size, the last ones padded with zeros. `rows`: along dim
 * 0 by torch.chunk's rule, ceil(rows / parts) to each (PyTorch's fully_shard). `flat`: its elements
 * in a row (DeepSpeed's ZeRO).
 */
export type CutRule = 'rows' | 'flat';

export interface Cut {
  readonly rule: CutRule;
  readonly parts: number;
  /** Of the whole parameter. */
  readonly shape: Shape;
  /** Of a part; it has as many dims as the parameter, and at least one. */
  readonly partShape: Shape;
  /** Of all parts behind each other along dim 0. */
  readonly paddedShape: Shape;
}

export function cutOf(shape: Shape, rule: CutRule, parts: number): Cut {
  const [rows = 1, ...rest] = shape;
  const units = rule === 'rows' ? rows : elementCount(shape);
  const unitShape = rule === 'rows' ? rest : rest.map(() => 1);
  const perPart = Math.ceil(units / parts);
  return {
    rule,
    parts,
    shape,
    partShape: [perPart, ...unitShape],
    paddedShape: [perPart * parts, ...unitShape],
  };
}

/** Shape: padded -> shape of the parameter. */
export function wholeOf(padded: Tensor, { rule, shape }: Cut): Tensor {
  const [rows = 1] = shape;
  const units = rule === 'rows' ? rows : elementCount(shape);
  const cut = padded.shape[0] === units ? padded : padded.slice(0, 0, units);
  return cut.reshape(shape);
}

/** Shape: shape of the parameter -> padded. */
export function paddedOf(whole: Tensor, { rule, shape, paddedShape }: Cut): Tensor {
  const [rows = 1, ...rest] = shape;
  const units = rule === 'rows' ? rows : elementCount(shape);
  const unitShape = rule === 'rows' ? rest : rest.map(() => 1);
  const stacked = whole.reshape([units, ...unitShape]);
  const missing = (paddedShape[0] ?? units) - units;
  if (missing === 0) return stacked;
  const zeros = paddedShape.map(() => 0);
  return noGrad(() => stacked.pad(zeros, zeros.with(0, missing)));
}

/** The elements of the whole parameter that are in a part, as a range; the rest of the part is padding. */
export function rangeOf({ shape, partShape }: Cut, part: number): readonly [number, number] {
  const total = elementCount(shape);
  const size = elementCount(partShape);
  return [Math.min(total, part * size), Math.min(total, (part + 1) * size)];
}

/** A part of the whole parameter's bytes, with its padding. */
export function partBytes(
  whole: Uint8Array,
  cut: Cut,
  part: number,
  elementBytes: number,
): Uint8Array<ArrayBuffer> {
  const [start, stop] = rangeOf(cut, part);
  const bytes = new Uint8Array(elementCount(cut.partShape) * elementBytes);
  bytes.set(whole.subarray(start * elementBytes, stop * elementBytes));
  return bytes;
}

/** All of the whole parameter's bytes, with the padding behind them. */
export function paddedBytes(
  whole: Uint8Array,
  cut: Cut,
  elementBytes: number,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(elementCount(cut.paddedShape) * elementBytes);
  bytes.set(whole);
  return bytes;
}
