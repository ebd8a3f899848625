import { rangeOf } from './parts.ts';
import { type Elements, partOf, type RankRecord, type RecordedValue } from './records.ts';

/** What a rank should have in the place of a value. `dim`, `start`: where its rows begin in the value of one rank. */
export interface Expected {
  readonly elements: Elements;
  readonly dim: number;
  readonly start: number;
}

/** What the ranks have of the outputs of one call of a module, in the order of the rows. */
export interface OutputPieces {
  readonly shapes: readonly (readonly number[])[];
  /** The first piece of each part of the batch. A part has one piece for each of its microbatches. */
  readonly starts: readonly number[];
}

/**
 * Returns the pieces of an output, if each part of the batch has all of its microbatches. Null: a part has none, or has
 * not all. `ofParts` are the values of all ranks of each part. Ranks that share a layer have the same pieces.
 */
export function outputPieces(ofParts: readonly (readonly RecordedValue[])[]): OutputPieces | null {
  const shapes: (readonly number[])[] = [];
  const starts: number[] = [];
  for (const values of ofParts) {
    starts.push(shapes.length);
    const ofPart = new Map(values.toReversed().map((value) => [value.microbatch ?? 0, value]));
    if (ofPart.size === 0) return null;
    for (let microbatch = 0; microbatch < ofPart.size; microbatch++) {
      const value = ofPart.get(microbatch);
      if (value === undefined) return null;
      shapes.push(value.shape);
    }
  }
  return { shapes, starts };
}

/**
 * Returns what a rank should have of an output of a module: the rows of its part of the batch and of the microbatch.
 * They are found by the shapes alone: in one dim the sizes of all pieces add up to that of one rank, and the other dims
 * are equal. Null if the output cannot be compared: it is a sum or a part over ranks that share layers, or has no dim
 * of the batch.
 */
export function expectedOutput(
  one: RecordedValue,
  record: RankRecord,
  value: RecordedValue,
  pieces: OutputPieces | null,
): Expected | null {
  const { batchAxes } = record.plan;
  const isOfLayers = (axis: string): boolean =>
    !batchAxes.includes(axis) && (record.places[axis]?.size ?? 1) > 1;
  if (value.partial.some((axis) => (record.places[axis]?.size ?? 1) > 1)) return null;
  if (value.varying.some(isOfLayers)) return null;
  if (value.elements.constructor !== one.elements.constructor) return null;
  const whole = { elements: one.elements, dim: 0, start: 0 };
  if (one.part !== null) {
    const isOfPass = (one.microbatch ?? 0) === (value.microbatch ?? 0);
    return isOfPass && isSameShape(one, value) ? whole : null;
  }
  if (pieces === null) return null;
  const { shapes, starts } = pieces;
  if (shapes.length === 1) return isSameShape(one, value) ? whole : null;
  if (shapes.every((shape) => shape.join() === one.shape.join())) {
    // It is the same for all rows, such as a mask, or each piece has its own, such as a mean over its rows.
    const differs =
      shapes.length > starts.length || value.varying.some((axis) => batchAxes.includes(axis));
    return differs ? null : whole;
  }
  const dims = one.shape.flatMap((size, dim) => {
    const sizes = shapes.map((shape) => shape[dim] ?? 0);
    const fits =
      sizes.reduce((sum, each) => sum + each, 0) === size &&
      shapes.every(
        (shape) =>
          shape.length === one.shape.length &&
          shape.every((each, other) => other === dim || each === one.shape[other]),
      );
    return fits ? [dim] : [];
  });
  const [dim] = dims;
  if (dim === undefined || dims.length > 1) return null;
  const piece = (starts[partOf(record).part] ?? 0) + (value.microbatch ?? 0);
  const start = shapes.slice(0, piece).reduce((sum, shape) => sum + (shape[dim] ?? 0), 0);
  const stop = start + (shapes[piece]?.[dim] ?? 0);
  return { elements: rangeOf(one.elements, one.shape, dim, start, stop), dim, start };
}

function isSameShape(a: RecordedValue, b: RecordedValue): boolean {
  return a.shape.join() === b.shape.join();
}
