import type { Conv2dParams, ValueType } from '@shardwise/core/spec';
import { offsetOf, placesOf } from './places.ts';
import { elementCount, numbersOf, type Value, valueOf } from './value.ts';

/** The indices of elements that are combined in y = conv2d(x, w). */
interface Meeting {
  readonly x: number;
  readonly w: number;
  readonly y: number;
}

export function conv2d(params: Conv2dParams, type: ValueType, x: Value, w: Value): Value {
  const [image, weight] = [numbersOf(x), numbersOf(w)];
  return summed(type, meetings(params, x, w, type), ({ x: i, w: j, y }) => [
    y,
    (image[i] ?? 0) * (weight[j] ?? 0),
  ]);
}

export function conv2dInput(params: Conv2dParams, type: ValueType, dy: Value, w: Value): Value {
  const [gradient, weight] = [numbersOf(dy), numbersOf(w)];
  return summed(type, meetings(params, type, w, dy), ({ x, w: i, y }) => [
    x,
    (gradient[y] ?? 0) * (weight[i] ?? 0),
  ]);
}

export function conv2dWeight(params: Conv2dParams, type: ValueType, x: Value, dy: Value): Value {
  const [image, gradient] = [numbersOf(x), numbersOf(dy)];
  return summed(type, meetings(params, x, type, dy), ({ x: i, w, y }) => [
    w,
    (image[i] ?? 0) * (gradient[y] ?? 0),
  ]);
}

function* meetings(
  { stride, padding, dilation, groups }: Conv2dParams,
  x: ValueType,
  w: ValueType,
  y: ValueType,
): Generator<Meeting> {
  const [, , height = 0, width = 0] = x.shape;
  const [outputs = 0, channels = 0, ...kernel] = w.shape;
  for (const place of placesOf(y.shape)) {
    const [item = 0, output = 0, row = 0, column = 0] = place;
    const group = Math.floor(output / (outputs / groups));
    for (const [channel = 0, r = 0, s = 0] of placesOf([channels, ...kernel])) {
      const h = row * stride[0] + r * dilation[0] - padding[0];
      const v = column * stride[1] + s * dilation[1] - padding[1];
      if (h < 0 || h >= height || v < 0 || v >= width) continue;
      yield {
        x: offsetOf(x.shape, [item, group * channels + channel, h, v]),
        w: offsetOf(w.shape, [output, channel, r, s]),
        y: offsetOf(y.shape, place),
      };
    }
  }
}

function summed(
  type: ValueType,
  met: Iterable<Meeting>,
  term: (meeting: Meeting) => readonly [at: number, product: number],
): Value {
  const sums = new Float64Array(elementCount(type.shape));
  for (const meeting of met) {
    const [at, product] = term(meeting);
    sums[at] = (sums[at] ?? 0) + product;
  }
  return valueOf(type, sums);
}
