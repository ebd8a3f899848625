import { rangeOf } from './parts.ts';
import { type Elements, partOf, type RankRecord, type RecordedValue } from './records.ts';

/** What a rank should have in the place of a value. `dim`, `start`: where its rows begin in the value of one rank. */
export interface Expected {
  readonly elements: Elements;
  readonly dim: number;
  readonly start: number;
}

/**
 * Returns what a rank should have of an output of a module: the rows of its part of the batch. They are found by the
 * shapes alone: in one dim the sizes of all parts add up to that of one rank, and the other dims are equal. Null if
 * the output cannot be compared: it is a sum or a part over ranks that share layers, or has no dim of the batch.
 */
export function expectedOutput(
  one: RecordedValue,
  record: RankRecord,
  value: RecordedValue,
  ofParts: readonly (RecordedValue | undefined)[],
): Expected | null {
  const { batchAxes } = record.plan;
  const isOfLayers = (axis: string): boolean =>
    !batchAxes.includes(axis) && (record.places[axis]?.size ?? 1) > 1;
  if (value.partial.some((axis) => (record.places[axis]?.size ?? 1) > 1)) return null;
  if (value.varying.some(isOfLayers)) return null;
  if (value.elements.constructor !== one.elements.constructor) return null;
  const whole = { elements: one.elements, dim: 0, start: 0 };
  const { part } = partOf(record);
  if (one.part !== null) return isSameShape(one, value) ? whole : null;
  if (ofParts.some((each) => each === undefined)) return null;
  const shapes = ofParts.flatMap((each) => (each === undefined ? [] : [each.shape]));
  if (shapes.length === 1 || shapes.every((shape) => shape.join() === one.shape.join())) {
    const differs = value.varying.some((axis) => batchAxes.includes(axis));
    return isSameShape(one, value) && (shapes.length === 1 || !differs) ? whole : null;
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
  const start = shapes.slice(0, part).reduce((sum, shape) => sum + (shape[dim] ?? 0), 0);
  const stop = start + (shapes[part]?.[dim] ?? 0);
  return { elements: rangeOf(one.elements, one.shape, dim, start, stop), dim, start };
}

function isSameShape(a: RecordedValue, b: RecordedValue): boolean {
  return a.shape.join() === b.shape.join();
}
