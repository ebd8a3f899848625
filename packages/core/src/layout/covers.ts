import { elementCount } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { boxShape, type Chunk, type DimRange } from './chunks.ts';

/** More boxes of a tensor than any layout makes. It limits the time to check an index that may come from anywhere. */
const MAX_BOXES = 4096;

/** Whether the chunks contain each element of the tensor exactly once. */
export function covers(shape: Shape, chunks: readonly Chunk[]): boolean {
  const byBox = Map.groupBy(chunks, ({ box }) => JSON.stringify(box));
  if (byBox.size > MAX_BOXES) return false;
  const boxes: (readonly DimRange[])[] = [];
  let elements = 0;
  for (const parts of byBox.values()) {
    const [first] = parts;
    if (first === undefined || !isWithin(first.box, shape)) return false;
    const count = elementCount(boxShape(first.box));
    if (!follow(parts, count)) return false;
    boxes.push(first.box);
    elements += count;
  }
  return elements === elementCount(shape) && !overlap(boxes);
}

function isWithin(box: readonly DimRange[], shape: Shape): boolean {
  return (
    box.length === shape.length &&
    box.every(({ start, stop }, dim) => start >= 0 && start <= stop && stop <= (shape[dim] ?? 0))
  );
}

/** Whether the parts of a box follow each other from its first to its last element. */
function follow(parts: readonly Chunk[], count: number): boolean {
  let end = 0;
  for (const { start, stop } of parts.toSorted((a, b) => a.start - b.start || a.stop - b.stop)) {
    if (start !== end || stop < start) return false;
    end = stop;
  }
  return end === count;
}

function overlap(boxes: readonly (readonly DimRange[])[]): boolean {
  const sorted = boxes.toSorted((a, b) => (a[0]?.start ?? 0) - (b[0]?.start ?? 0));
  return sorted.some((box, index) => {
    for (const other of sorted.slice(index + 1)) {
      if ((other[0]?.start ?? 0) >= (box[0]?.stop ?? 1)) return false;
      if (meet(box, other)) return true;
    }
    return false;
  });
}

function meet(a: readonly DimRange[], b: readonly DimRange[]): boolean {
  return a.every(({ start, stop }, dim) => {
    const other = b[dim] ?? { start: 0, stop: 0 };
    return Math.max(start, other.start) < Math.min(stop, other.stop);
  });
}
